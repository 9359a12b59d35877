"""A TensorFlow graph over values as the module that capture sees.

In: nodes, a table, which variables are held, what is wanted, and what is left in variables. Out: an `nn.Module` without
data: a plan needs none, and an executable is given the values of variables when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from openipu.capture import Traced, lift
from openipu.translate.foreign import ForeignGraph, TensorType
from openipu.translate.interpret import Interpreter
from openipu.translate.rules import Table


class ValueModule(nn.Module):
    """Runs a graph on its inputs, in their order. Variables that it writes are buffers, the others parameters."""

    def __init__(
        self,
        graph: ForeignGraph,
        table: Table,
        *,
        variables: Mapping[str, TensorType],
        wanted: Sequence[str],
        written: Mapping[str, str],
        constants: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.graph = graph
        self.table = table
        self.wanted = tuple(wanted)
        self.written = dict(written)
        self.input_names = tuple(graph.inputs)
        self._openipu_input_names = self.input_names  # for capture
        self._fixed = dict(constants or {})
        for name, kind in variables.items():
            value = torch.empty(kind.fixed_shape or (), dtype=kind.dtype, device="meta")
            if name in written or not kind.dtype.is_floating_point:
                self._buffers[name] = value
            else:
                self._parameters[name] = nn.Parameter(value, requires_grad=False)

    def forward(self, *inputs: torch.Tensor) -> Traced:
        held = (*self._parameters.items(), *self._buffers.items())
        values = {
            **self._fixed,
            **{name: value for name, value in held if value is not None},
            **dict(zip(self.input_names, inputs, strict=True)),
        }
        interpreter = Interpreter(self.table, file=self.graph.file)
        results = interpreter.run(self.graph, values, dict.fromkeys([*self.wanted, *self.written.values()]))
        mine = {id(value) for _, value in held}
        outputs = {f"{place}": _separate(lift(results[name]), mine) for place, name in enumerate(self.wanted)}
        written: dict[str, torch.Tensor] = {}
        for name, value in self.written.items():
            tensor = lift(results[value])
            shared = any(tensor is other for other in written.values())  # two variables hold two tensors
            written[name] = tensor.clone() if shared else tensor
        return Traced(outputs=outputs, written=written)


def _separate(value: torch.Tensor, held: set[int]) -> torch.Tensor:
    """A result that is, or shows, a variable as it was: of its own, because the run writes over the variable."""
    shown = value._base if value._is_view() else value
    return value.clone() if id(value) in held or id(shown) in held else value
