"""Keys and values of the tokens seen so far, kept on the device between steps.

In: the shapes of one token's keys and values, the rows of a batch, and how many tokens must fit. Out: buffers of a
program, a Transformers cache over them while that program is captured, and what the host holds in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache, CacheLayerMixin, EncoderDecoderCache, StaticLayer


@dataclass(frozen=True)
class TokenShape:
    """What one layer keeps of one token."""

    heads: int
    key_size: int
    value_size: int
    dtype: torch.dtype


class KeyValueBuffers(nn.Module):
    """One buffer of keys and one of values for each layer: (rows, heads, tokens, size)."""

    def __init__(self, shapes: Sequence[TokenShape], rows: int, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.number_of_layers = len(shapes)
        for index, shape in enumerate(shapes):
            keys = torch.zeros(rows, shape.heads, tokens, shape.key_size, dtype=shape.dtype)
            values = torch.zeros(rows, shape.heads, tokens, shape.value_size, dtype=shape.dtype)
            self.register_buffer(f"keys_{index}", keys, persistent=False)
            self.register_buffer(f"values_{index}", values, persistent=False)

    def name_states(self, states: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, torch.Tensor]:
        """Keys and values of each layer, by the names of their buffers."""
        return {
            f"{kind}_{index}": tensor
            for index, pair in enumerate(states)
            for kind, tensor in zip(("keys", "values"), pair, strict=True)
        }

    def open(self, step: torch.Tensor, beam_order: torch.Tensor | None, cross_attention: bool) -> Cache:
        """The cache that a model is given for the token at position `step`."""
        layers = [BufferLayer(self, index, step, beam_order) for index in range(self.number_of_layers)]
        own = Cache(layers=list(layers))
        return EncoderDecoderCache(own, UncachedCrossAttention()) if cross_attention else own


class BufferLayer(StaticLayer):
    """One layer of `KeyValueBuffers`, as Transformers' attention modules use it."""

    keys: torch.Tensor
    values: torch.Tensor
    cumulative_length: Any  # a tensor, so that one program serves every step

    def __init__(
        self, buffers: KeyValueBuffers, index: int, step: torch.Tensor, beam_order: torch.Tensor | None
    ) -> None:
        CacheLayerMixin.__init__(self)  # the static layer's own would make a tensor for the length
        self.max_cache_len = buffers.tokens
        self.keys = buffers.get_buffer(f"keys_{index}")
        self.values = buffers.get_buffer(f"values_{index}")
        self.is_initialized = True
        self.cumulative_length = step
        self._beam_order = beam_order

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the keys and values of the new tokens; all that are there come back."""
        offsets = torch.arange(key_states.shape[-2], device=key_states.device)
        positions = self.cumulative_length.to(offsets.dtype) + offsets
        for buffer, new in ((self.keys, key_states), (self.values, value_states)):
            if self._beam_order is not None:  # each row goes on from the beam that it was made of
                buffer.copy_(buffer.index_select(0, self._beam_order))
            buffer.index_copy_(2, positions, new.to(buffer.dtype))
        return self.keys, self.values


class UncachedCrossAttention(Cache):
    """Keys and values of the encoder's output: made anew in each step, or kept by `CrossProjections`."""

    def __init__(self) -> None:
        super().__init__(layers=[])

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0


class PromptCache(Cache):
    """Keys and values of a prompt that is read from its first token on, as the model makes them."""

    def __init__(self) -> None:
        super().__init__(layers=[])
        self._made: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self._made[layer_idx] = key_states, value_states
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0

    def get_query_offset(self, layer_idx: int = 0) -> int:
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return query_length, 0

    def list_states(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Keys and values, (rows, heads, tokens, size) each, in the order of the layers."""
        return [self._made[index] for index in sorted(self._made)]

    def list_shapes(self) -> list[TokenShape]:
        """What the layers keep of one token."""
        return [
            TokenShape(keys.shape[1], keys.shape[-1], values.shape[-1], keys.dtype)
            for keys, values in self.list_states()
        ]


class DeviceCache(Cache):
    """What the host holds during `generate`: how many tokens the device has seen, and where each beam came from."""

    def __init__(self, tokens: int, num_beams: int = 1) -> None:
        super().__init__(layers=[])
        self.tokens = tokens
        self.num_beams = num_beams
        self.length = 0
        self._beam_order: torch.Tensor | None = None

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def get_max_length(self, layer_idx: int | None = None) -> int:
        return self.tokens

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Remember the order; the next step of the device applies it before it writes."""
        self._beam_order = beam_idx if self._beam_order is None else self._beam_order[beam_idx]

    def take_beam_order(self) -> torch.Tensor | None:
        """The order since the last step, once."""
        order, self._beam_order = self._beam_order, None
        return order

    def reset(self) -> None:
        self.length, self._beam_order = 0, None
