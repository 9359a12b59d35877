"""The configuration of GroupBERT."""

from __future__ import annotations

from huggingface_hub.dataclasses import strict
from transformers import BertConfig


@strict
class GroupBertConfig(BertConfig):
    """BERT's fields, and those of the convolution and of the grouped feed-forward layers."""

    model_type = "groupbert"

    ffn_groups: int = 4  # parts of the second product of a feed-forward layer, which do not mix
    conv_group_size: int = 16  # channels that a convolution mixes
    conv_kernel_size: int = 7  # tokens that a convolution sees
