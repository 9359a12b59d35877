"""One look-up for the words of an encoder and those of its decoder.

In: `forward` of an encoder-decoder class whose two embeddings share their table. Out: a function with the same
signature that looks up both texts at the start, at once: the table is on one IPU, and a pipeline that came back to it
for the decoder would be longer.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from optimum.graphcore.modeling_utils import shift_tokens_right

Forward = Callable[..., Any]


@dataclass(frozen=True)
class Retie:
    """A table that was in pieces is one again: the modules that share it get it too. A change, to be undone last."""

    path: str
    others: tuple[str, ...]

    def undo(self, model: nn.Module) -> None:
        weight = model.get_submodule(self.path).weight
        for other in self.others:
            model.get_submodule(other).weight = weight


def look_up_together(forward: Forward) -> Forward:
    """For the body of a pipelined class: `forward = look_up_together(T5ForConditionalGeneration.forward)`."""
    signature = inspect.signature(forward)

    @functools.wraps(forward)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        given = bound.arguments
        if given.get("decoder_input_ids") is None and given.get("decoder_inputs_embeds") is None:
            given["decoder_input_ids"] = self.make_decoder_inputs(given.get("labels"), given.get("input_ids"))
        ids, decoder_ids = given.get("input_ids"), given.get("decoder_input_ids")
        shared = self.is_parallelized and given.get("encoder_outputs") is None
        if shared and ids is not None and decoder_ids is not None:
            found = self.get_encoder().embed_tokens(torch.cat([ids, decoder_ids], dim=1))
            given["inputs_embeds"], given["decoder_inputs_embeds"] = found.split(
                [ids.shape[1], decoder_ids.shape[1]], 1
            )
            given["input_ids"] = given["decoder_input_ids"] = None
        return forward(*bound.args, **bound.kwargs)

    return call


def shift_labels(model: Any, labels: torch.Tensor | None) -> torch.Tensor | None:
    """What the decoder reads in training: the labels, one to the right."""
    if labels is None:
        return None
    return shift_tokens_right(labels, model.config.pad_token_id, model.config.decoder_start_token_id)
