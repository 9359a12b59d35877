"""Pipelined ViT.

In: a `ViTConfig` or a Transformers model. Out: the same model, which `parallelize` spreads over IPUs.
"""

from __future__ import annotations

from transformers import ViTForImageClassification

from optimum.graphcore.modeling_utils import Layers, Part, PipelineLayout, PipelineMixin, Place, register


@register(ViTForImageClassification)
class PipelinedViTForImageClassification(PipelineMixin, ViTForImageClassification):
    """Patches on the first IPU, the classifier on the last."""

    layout = PipelineLayout(
        parts=(
            Part("vit.embeddings", "Embedding", Place.FIRST),
            Layers("vit.layers", "Encoder"),
            Part("vit.layernorm", "LayerNorm"),
            Part("classifier", "Head"),
        )
    )
