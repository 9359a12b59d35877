"""The CTC loss of a batch with static shapes.

In: logits [batch, frames, vocabulary], labels [batch, length] padded with -100 or the blank. Out: the loss of
Transformers. It is taken on the labels as a matrix: to pick out those that count would make a shape depend on them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

import poptorch

IGNORED_LABEL = -100


def compute_ctc_loss(model: Any, logits: torch.Tensor, labels: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
    """The loss by the settings of the model's configuration. `frames` says how many frames of each example count.

    A label that is not in the vocabulary is an error outside of a graph, and makes the loss NaN inside of one.
    """
    config = model.config
    if not poptorch.isRunningOnIpu() and labels.max() >= config.vocab_size:
        raise ValueError(f"Label values must be <= vocab_size: {config.vocab_size}")
    is_label = (labels != IGNORED_LABEL) & (labels != config.pad_token_id)
    # The labels that count to the front, in their order.
    order = torch.argsort(is_label.to(torch.int32), dim=-1, descending=True, stable=True)
    targets = labels.gather(-1, order)
    loss = functional.ctc_loss(
        functional.log_softmax(logits, dim=-1, dtype=torch.float32).transpose(0, 1),
        targets.clamp(0, config.vocab_size - 1),
        frames,
        is_label.sum(-1),
        blank=config.pad_token_id,
        reduction=config.ctc_loss_reduction,
        zero_infinity=config.ctc_zero_infinity,
    )
    loss = torch.where((labels >= config.vocab_size).any(), torch.nan, loss)
    return poptorch.identity_loss(loss, reduction="none")


def count_frames(model: Any, inputs: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """How many frames the convolutions leave of each example."""
    samples = (
        attention_mask.sum(-1)
        if attention_mask is not None
        else torch.full((inputs.shape[0],), inputs.shape[1], dtype=torch.long, device=inputs.device)
    )
    frames: torch.Tensor = model._get_feat_extract_output_lengths(samples)
    return frames.to(torch.long)


def add_ctc_loss(
    model: Any, outputs: Any, inputs: torch.Tensor | None, attention_mask: torch.Tensor | None, labels: torch.Tensor
) -> Any:
    """The outputs of a CTC model with the loss before its logits."""
    assert inputs is not None
    loss = compute_ctc_loss(model, outputs[0], labels, count_frames(model, inputs, attention_mask))
    return (loss, *outputs) if isinstance(outputs, tuple) else type(outputs)(loss=loss, **outputs)
