"""LSTM layers of inference by native code of our own.

In: a draft of an inference program whose LSTM layers are oneDNN's. Out: whether native code pays for them; or, once it
is there (`run/native/sources/lstm.py`), the same draft with that in their place. It multiplies the inputs of some steps
by packed weights; then each of them multiplies the state by weights that stay in the caches of the threads that share
them out, and computes gates, cell and state on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Unpack

import torch

from openipu.run.drafts.draft import Draft
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.passes.onednn_lstm import Tensors
from openipu.run.passes.packed_recurrent import HeldLayer, find_held_layers, replace_layers

# inputs, their strides of steps and samples, weights of inputs and of the state, bias or nothing, first state and
# cells, memory for products of inputs, cells, states; and steps, steps whose products are held, samples, features,
# width, whether the weights of the state are finite, whether it goes backwards, threads
_Sizes = tuple[int, int, int, int, int, int, int, int]
Steps = Callable[[int, int, int, int, int, int | None, int, int, int, int, int, Unpack[_Sizes]], None]

_LEAST_WORK = 1 << 22  # multiplications of a call: below, nothing is gained that a compilation would be worth
_HELD_ROWS = 128  # products of inputs that wait for their steps: few, so that they stay in a cache


@dataclass(frozen=True)
class LstmCode:
    """The native function, how many units lie in a block of its weights, and by what each gate's are multiplied."""

    run: Steps
    lanes: int
    exponents: tuple[float, ...]


class NativeLayer:
    """One LSTM layer with packed copies of its weights, which follow newly loaded ones."""

    def __init__(self, memory: DeviceMemory, layer: HeldLayer, code: LstmCode) -> None:
        self._memory, self._layer, self._code = memory, layer, code
        self._packed: tuple[torch.Tensor, torch.Tensor, bool] | None = None  # until they are asked for
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
        inputs_weight, state_weight, finite = self._packed
        inputs = source.float()
        if inputs.stride(-1) != 1:
            inputs = inputs.contiguous()
        (steps, samples, features), width = source.shape, hidden.shape[-1]
        offsets = None if bias is None else bias.float().contiguous()
        first = hidden.float().contiguous()
        first_cells = cell.float().contiguous()
        cells = torch.empty(samples, width, dtype=torch.float32)
        states = torch.empty(steps, samples, width, dtype=torch.float32)
        held = min(steps, max(1, _HELD_ROWS // samples))
        given = torch.empty(held * samples * (inputs_weight.numel() // features), dtype=torch.float32)
        self._code.run(
            *(inputs.data_ptr(), inputs.stride(0), inputs.stride(1)),
            *(inputs_weight.data_ptr(), state_weight.data_ptr(), None if offsets is None else offsets.data_ptr()),
            *(first.data_ptr(), first_cells.data_ptr(), given.data_ptr(), cells.data_ptr(), states.data_ptr()),
            *(steps, held, samples, features, width, finite, self._layer.reverse, torch.get_num_threads()),
        )
        last = states[0 if self._layer.reverse else -1].clone() if self._layer.reads_last else first
        results = (states, last, cells)
        return results if source.dtype is torch.float32 else tuple(result.to(source.dtype) for result in results)

    def _pack(self) -> tuple[torch.Tensor, torch.Tensor, bool]:
        """The weights of the input and of the state, and whether those of the state are finite."""
        inputs, state = (self._memory.parameters[name].float() for name in self._layer.names)
        return self._pack_weight(inputs), self._pack_weight(state), bool(state.isfinite().all())

    def _pack_weight(self, weight: torch.Tensor) -> torch.Tensor:
        """In blocks: columns, gates, units of the block."""
        columns, lanes = weight.shape[1], self._code.lanes
        exponents = torch.tensor(self._code.exponents, dtype=torch.float32)
        gates = weight.reshape(4, -1, columns) * exponents.view(4, 1, 1)
        filled = torch.nn.functional.pad(gates, (0, 0, 0, -gates.shape[1] % lanes))
        return filled.view(4, -1, lanes, columns).permute(1, 3, 0, 2).contiguous()


def pays_for_layers(draft: Draft) -> bool:
    """Whether there are LSTM layers that native code is worth being compiled for."""
    return sum(layer.multiplications for layer in find_held_layers(draft).values()) >= _LEAST_WORK


def use_native_layers(draft: Draft, memory: DeviceMemory, code: LstmCode) -> None:
    """Put native code in the place of LSTM layers whose weights nothing writes."""
    replace_layers(draft, lambda layer: NativeLayer(memory, layer, code).apply, "native_layer")
