"""Attention of an encoder in parts, one after the other: less memory in use at a time, the same results.

In: `batch_serialization_factor` or `sequence_serialization_factor` of `parallelize`. Out: attention modules that work
by a function registered with Transformers' attention interface.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import AttentionInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from optimum.graphcore.generation.settings import GenerationSettings

if TYPE_CHECKING:
    from optimum.graphcore.modeling_utils import PipelineMixin

_BATCH, _SEQUENCE = 0, 2  # dimensions of queries: (batch, heads, tokens, size)


def serialize_attention(model: PipelineMixin, path: str, settings: GenerationSettings) -> None:
    """Let the attention of the layers at `path` run in parts. `deparallelize` undoes it."""
    assert isinstance(model, nn.Module)
    dimension, factor = _SEQUENCE, settings.sequence_serialization_factor
    if settings.batch_serialization_factor > 1:
        dimension, factor = _BATCH, settings.batch_serialization_factor
    if factor == 1:
        return
    for name, module in model.get_submodule(path).named_modules():
        config = getattr(module, "config", None)
        if config is None:
            continue
        # a configuration of its own: the decoder's attention may share the original one
        own = copy.copy(config)
        inner = config._attn_implementation if config._attn_implementation in ALL_ATTENTION_FUNCTIONS else "sdpa"
        own._attn_implementation_internal = _register(inner, dimension, factor)
        model.change_attribute(f"{path}.{name}", "config", own)


def _register(inner: str, dimension: int, factor: int) -> str:
    """The name of an attention function that calls `inner` on each part."""
    name = f"{inner}_in_{factor}_parts_of_{'batch' if dimension == _BATCH else 'sequence'}"
    if name not in ALL_ATTENTION_FUNCTIONS:
        AttentionInterface.register(name, partial(_attend_in_parts, inner, dimension, factor))
        AttentionMaskInterface.register(name, ALL_MASK_ATTENTION_FUNCTIONS[inner])
    return name


def _attend_in_parts(
    inner: str,
    dimension: int,
    factor: int,
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    if query.shape[dimension] % factor:
        what = "rows" if dimension == _BATCH else "tokens"
        raise ValueError(
            f"Attention of {query.shape[dimension]} {what} cannot run in {factor} equal parts: choose a serialization "
            f"factor that divides {query.shape[dimension]}."
        )
    attend = ALL_ATTENTION_FUNCTIONS[inner]
    position_bias = kwargs.pop("position_bias", None)
    parts = []
    for index in range(factor):
        given = [
            _cut(tensor, dimension, factor, index, query.shape[dimension]) if _follows(position, dimension) else tensor
            for position, tensor in enumerate((query, key, value, attention_mask, position_bias))
        ]
        more = {} if position_bias is None else {"position_bias": given[4]}
        parts.append(attend(module, *given[:4], **more, **kwargs)[0])
    # what an attention function returns is (batch, tokens, heads, size)
    return torch.cat(parts, dim=0 if dimension == _BATCH else 1), None


def _follows(position: int, dimension: int) -> bool:
    """Keys and values are cut with the batch, not with the queries' tokens."""
    return dimension == _BATCH or position not in (1, 2)


def _cut(tensor: torch.Tensor | None, dimension: int, factor: int, index: int, size: int) -> torch.Tensor | None:
    """One part; what is the same for all rows or tokens (size 1) is not cut."""
    if tensor is None or tensor.shape[dimension] != size:
        return tensor
    return tensor.chunk(factor, dimension)[index]
