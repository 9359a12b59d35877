"""LSTM layers of inference by a C++ kernel.

In: a draft of an inference program whose LSTM layers are oneDNN's. Out: whether the kernel is worth being compiled; or,
with the kernel, a rule that calls it. It multiplies the inputs of some steps by packed weights; then each of
them multiplies the state by weights that stay in the caches of the threads that share them out, and computes gates,
cell and state on the way.
"""

from __future__ import annotations

import torch

from openipu.graph import InputKind
from openipu.run import thresholds
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.onednn_lstm import Tensors, infer_layer
from openipu.run.drafts.rules import Rule
from openipu.run.kernels import OperandError, address_of, address_of_lines, address_or_none
from openipu.run.kernels.catalog import DESCRIBE_LSTM, RUN_LSTM, LstmArguments, LstmFormat
from openipu.run.kernels.library import LoadedKernel
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.rewrites.recurrent.packed_recurrent import HeldLayer, read_layer, replace_layers


class LstmLayer:
    """One LSTM layer with packed copies of its weights, which follow newly loaded ones."""

    def __init__(self, memory: DeviceMemory, layer: HeldLayer, kernel: LoadedKernel) -> None:
        self._memory, self._layer, self._run = memory, layer, kernel[RUN_LSTM]
        self._format = LstmFormat()
        kernel[DESCRIBE_LSTM](self._format)
        self._packed: tuple[torch.Tensor, torch.Tensor, bool] | None = None  # until they are asked for
        memory.follow(self, layer.names)

    def refresh(self) -> None:
        """Forget the old weights."""
        self._packed = None

    def apply(
        self, source: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, bias: torch.Tensor | None
    ) -> Tensors:
        """Output of all steps, last state, last cell."""
        (steps, samples, features), width = source.shape, hidden.shape[-1]
        if not min(steps, samples, features, width):
            return self._run_plainly(source, hidden, cell, bias)
        if self._packed is None:
            self._packed = self._pack()
        inputs_weight, state_weight, finite = self._packed
        inputs = source.float()
        if inputs.stride(-1) != 1:
            inputs = inputs.contiguous()
        offsets = None if bias is None else bias.float().contiguous()
        first = hidden.float().contiguous()
        first_cells = cell.float().contiguous()
        cells = torch.empty(samples, width, dtype=torch.float32)
        states = torch.empty(steps, samples, width, dtype=torch.float32)
        held = min(steps, max(1, thresholds.LSTM_HELD_ROWS // samples))
        units = -(-width // self._format.lanes) * self._format.lanes
        given = torch.empty(held * samples * 4 * units, dtype=torch.float32)
        try:
            arguments = LstmArguments(
                source=address_of_lines(inputs, (steps, samples, features)),
                input_weights=address_of(inputs_weight, 4 * units * features),
                state_weights=address_of(state_weight, 4 * units * width),
                bias=address_or_none(offsets, 4 * width),
                first_state=address_of(first, samples * width),
                first_cells=address_of(first_cells, samples * width),
                given=address_of(given, given.numel()),
                cells=address_of(cells, cells.numel()),
                states=address_of(states, states.numel()),
                step_stride=inputs.stride(0),
                sample_stride=inputs.stride(1),
                steps=steps,
                held=held,
                samples=samples,
                features=features,
                width=width,
                finite=finite,
                reverse=self._layer.reverse,
                threads=torch.get_num_threads(),
            )
        except OperandError:
            return self._run_plainly(source, hidden, cell, bias)
        self._run(arguments)
        last = states[0 if self._layer.reverse else -1].clone() if self._layer.reads_last else first
        results = (states, last, cells)
        return results if source.dtype is torch.float32 else tuple(result.to(source.dtype) for result in results)

    def _run_plainly(
        self, source: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, bias: torch.Tensor | None
    ) -> Tensors:
        """The same by oneDNN."""
        weights = [self._memory.parameters[name].float().contiguous() for name in self._layer.names]
        return infer_layer(source, hidden, cell, weights[0], weights[1], bias, self._layer.reverse)

    def _pack(self) -> tuple[torch.Tensor, torch.Tensor, bool]:
        """The weights of the input and of the state, and whether those of the state are finite."""
        inputs, state = (self._memory.parameters[name].float() for name in self._layer.names)
        return self._pack_weight(inputs), self._pack_weight(state), bool(state.isfinite().all())

    def _pack_weight(self, weight: torch.Tensor) -> torch.Tensor:
        """In blocks: columns, gates, units of the block."""
        columns, lanes = weight.shape[1], self._format.lanes
        exponents = torch.tensor(list(self._format.exponents), dtype=torch.float32)
        gates = weight.reshape(4, -1, columns) * exponents.view(4, 1, 1)
        filled = torch.nn.functional.pad(gates, (0, 0, 0, -gates.shape[1] % lanes))
        return filled.view(4, -1, lanes, columns).permute(1, 3, 0, 2).contiguous()


def is_worth_lstm(draft: Draft) -> bool:
    """Whether there are LSTM layers that are worth compiling the kernel."""
    held = draft.list_held(InputKind.PARAMETER)
    layers = (read_layer(node, held) for node in draft.graph.nodes)
    return sum(layer.multiplications for layer in layers if layer is not None) >= thresholds.LSTM_WORK


def make_rules(draft: Draft, memory: DeviceMemory, kernel: LoadedKernel) -> tuple[Rule, ...]:
    """Let the kernel compute LSTM layers whose weights nothing writes."""
    return (replace_layers("LSTM layer", draft, lambda layer: LstmLayer(memory, layer, kernel)),)
