"""A program of Paddle as the module that capture sees.

In: its forward ops, the weights that they read, what is fetched. Out: an `nn.Module` with Paddle's names. What the
program writes to its own variables, such as statistics, is written to the module's buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from openipu.capture import is_capturing, lift, mark_loss
from openipu.errors import TranslationError
from openipu.translate.foreign import ForeignGraph
from openipu.translate.interpret import Interpreter
from openipu.translate.paddle.custom import choose_table
from openipu.translate.paddle.table import TABLE


class PaddleModule(nn.Module):
    """Runs forward ops on the fed tensors, in their order, and answers with the fetched ones."""

    def __init__(
        self,
        graph: ForeignGraph,
        weights: Mapping[str, torch.Tensor],
        *,
        trained: Sequence[str] = (),
        loss: str | None = None,
        constants: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.graph = graph
        self.loss = loss
        self.input_names = tuple(graph.inputs)
        self._openipu_input_names = self.input_names  # for capture
        self._fixed = dict(constants or {})
        written = {name for node in graph.nodes for name in node.outputs}
        self.written = tuple(name for name in weights if name in written)
        for name, value in weights.items():
            if name not in written and value.dtype.is_floating_point:
                self._parameters[name] = nn.Parameter(value, requires_grad=name in trained)
            else:
                self._buffers[name] = value

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The fetched tensors, in order."""
        held = (*self._parameters.items(), *self._buffers.items())
        own = {name: value for name, value in held if value is not None}
        values = {**self._fixed, **own, **dict(zip(self.input_names, inputs, strict=True))}
        loss = [] if self.loss is None else [self.loss]
        interpreter = Interpreter(choose_table(self.graph, TABLE), training=self.loss is not None, file=self.graph.file)
        results = interpreter.run(self.graph, values, dict.fromkeys([*self.graph.outputs, *self.written, *loss]))
        if self.loss is not None:
            mark_loss(lift(results[self.loss]) if is_capturing() else results[self.loss], "none")
        fetched = tuple(lift(results[name]) for name in self.graph.outputs)
        for name in self.written:
            if results[name] is not own[name]:  # a norm that is only used hands its statistics through
                _write(own[name], lift(results[name]), name)
        return fetched


def _write(buffer: torch.Tensor, value: torch.Tensor, name: str) -> None:
    if buffer.shape != value.shape:
        raise TranslationError(
            f"The program writes {list(value.shape)} to {name!r}, which has the shape {list(buffer.shape)}: on an IPU "
            "the shape of a variable does not change."
        )
    with torch.no_grad():
        buffer.copy_(value)
