"""LSTM layers of inference by native code of our own.

In: a draft of an inference program whose LSTM layers are oneDNN's. Out: whether native code pays for them; or, once it
is there (`run/native/lstm_source.py`), the same draft with that in their place. The inputs of all steps are one product
on packed weights; then each step multiplies the state by weights that stay in the caches of the threads that share them
out, and computes gates, cell and state on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from openipu.run.drafts.draft import Draft
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.passes.onednn_lstm import Tensors
from openipu.run.passes.onednn_products import NOTHING_AFTER, has_onednn
from openipu.run.passes.packed_recurrent import HeldLayer, find_held_layers, replace_layers

# products of inputs, weights, bias or nothing, first states, cells, states, steps, samples, width, whether it goes
# backwards, threads
Steps = Callable[[int, int, int | None, int, int, int, int, int, int, int, int], None]

_LEAST_WORK = 1 << 22  # multiplications of a call: below, nothing is gained that a compilation would be worth


@dataclass(frozen=True)
class LstmCode:
    """The native function, and how many units lie in a block of its weights."""

    run: Steps
    lanes: int


class NativeLayer:
    """One LSTM layer with packed copies of its weights, which follow newly loaded ones."""

    def __init__(self, memory: DeviceMemory, layer: HeldLayer, code: LstmCode) -> None:
        self._memory, self._layer, self._code = memory, layer, code
        self._packed: tuple[torch.Tensor, torch.Tensor] | None = None  # until they are asked for
        self._multiply = torch.ops.mkldnn._linear_pointwise.default._op if has_onednn() else None
        memory.follow(self, layer.names)

    def refresh(self) -> None:
        """Forget the old weights."""
        self._packed = None

    def apply(
        self, source: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, bias: torch.Tensor | None
    ) -> Tensors:
        """Output of all steps, last state, last cell."""
        if self._packed is None:
            self._packed = self._pack()
        weight, packed = self._packed
        (steps, samples, features), width = source.shape, hidden.shape[-1]
        rows = source.float().reshape(steps * samples, features)
        if self._multiply is None:
            given = torch.nn.functional.linear(rows, weight)
        else:
            given = self._multiply(rows, weight, None, *NOTHING_AFTER)
        offsets = None if bias is None else bias.float().contiguous()
        first = hidden.float().contiguous()
        cells = cell.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
        states = torch.empty(steps, samples, width, dtype=torch.float32)
        self._code.run(
            given.data_ptr(),
            packed.data_ptr(),
            None if offsets is None else offsets.data_ptr(),
            first.data_ptr(),
            cells.data_ptr(),
            states.data_ptr(),
            *(steps, samples, width),
            *(int(self._layer.reverse), torch.get_num_threads()),
        )
        last = states[0 if self._layer.reverse else -1].clone()
        results = (states, last, cells)
        return results if source.dtype is torch.float32 else tuple(result.to(source.dtype) for result in results)

    def _pack(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The input's weight as oneDNN likes it, and the state's in blocks: units, gates, units of the block."""
        weight, state = (self._memory.parameters[name].float() for name in self._layer.names)
        if self._multiply is not None:
            rows = self._layer.shape[0] * self._layer.shape[1]
            weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)
        width, lanes = state.shape[1], self._code.lanes
        filled = torch.nn.functional.pad(state.reshape(4, width, width), (0, 0, 0, -width % lanes))
        return weight, filled.view(4, -1, lanes, width).permute(1, 3, 0, 2).contiguous()


def pays_for_layers(draft: Draft) -> bool:
    """Whether there are LSTM layers that native code is worth being compiled for."""
    return sum(layer.multiplications for layer in find_held_layers(draft).values()) >= _LEAST_WORK


def use_native_layers(draft: Draft, memory: DeviceMemory, code: LstmCode) -> None:
    """Put native code in the place of LSTM layers whose weights nothing writes."""
    replace_layers(draft, lambda layer: NativeLayer(memory, layer, code).apply, "native_layer")
