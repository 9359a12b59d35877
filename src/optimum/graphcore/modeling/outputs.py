"""What `forward` of a pipelined class returns: less than the original where an IPU would only send it away unused.

In: `forward` of a Transformers class. Out: a function with the same signature, for the body of the pipelined class:
`forward = return_only_loss(BertForMaskedLM.forward, head="cls")`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

import poptorch
from optimum.graphcore.modeling.tokens import OnehotGather, select_masked_tokens

Forward = Callable[..., Any]


def return_only_loss(
    forward: Forward,
    head: str | Callable[[Any], nn.Module],
    labels: tuple[str, ...] = ("labels",),
    in_evaluation: bool = False,
) -> Forward:
    """With all `labels` given, training (and `in_evaluation`) returns the loss and no logits of the vocabulary.

    With `config.max_num_masked_tokens` the head sees that many tokens of each row, those with a label, and no others.
    """
    signature = inspect.signature(forward)

    @functools.wraps(forward)
    def compute_loss(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        given = all(bound.arguments.get(name) is not None for name in labels)
        if not given or not (self.training or in_evaluation):
            return forward(self, *args, **kwargs)
        count = getattr(self.config, "max_num_masked_tokens", None)
        if count is None:
            outputs = forward(*bound.args, **bound.kwargs)
        else:
            bound.arguments["labels"], positions = select_masked_tokens(bound.arguments["labels"], count)
            module = self.get_submodule(head) if isinstance(head, str) else head(self)
            with _gather_before(module, positions):
                outputs = forward(*bound.args, **bound.kwargs)
        loss = poptorch.identity_loss(outputs[0].float(), reduction="none")
        return (loss,) if isinstance(outputs, tuple) else type(outputs)(loss=loss)

    return compute_loss


def return_marked_loss(forward: Forward) -> Forward:
    """A loss that the class puts together itself, from several, is marked as the one to train on.

    Then, as ever, a tuple is returned: the loss and what follows it.
    """

    @functools.wraps(forward)
    def compute(self: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = forward(self, *args, **kwargs)
        loss = outputs.get("loss") if isinstance(outputs, dict) else None
        if loss is None:
            return outputs
        return (poptorch.identity_loss(loss, reduction="none"), *outputs.to_tuple()[1:])

    return compute


def mark_loss(outputs: Any) -> Any:
    """The outputs of a class that computes its loss by hand, with the loss marked as the one to train on."""
    if isinstance(outputs, tuple):
        return (poptorch.identity_loss(outputs[0], reduction="none"), *outputs[1:])
    outputs["loss"] = poptorch.identity_loss(outputs["loss"], reduction="none")
    return outputs


@contextmanager
def _gather_before(head: nn.Module, positions: torch.Tensor) -> Iterator[None]:
    """While this lasts, the head gets these positions of its first input only."""

    def gather(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (OnehotGather()(inputs[0], positions), *inputs[1:])

    # First of all hooks: before the head's block begins, so that a shorter tensor goes to its IPU.
    handle = head.register_forward_pre_hook(gather, prepend=True)
    try:
        yield
    finally:
        handle.remove()
