"""Ops that run graphs: calls, repeats, branches.

In: a graph and the tensors for its inputs. Out: ops that say which tensor of the parent stands for which of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from popxl._ir.operation import Op

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.tensor import Tensor


@dataclass(eq=False)
class CallOp(Op):
    """Runs a graph once. Inputs are passed by value, but those in `modified`, which the graph may write over."""

    target: Graph = None  # type: ignore[assignment]
    modified: set[int] = field(default_factory=set)

    @property
    def called(self) -> tuple[Graph, ...]:
        return (self.target,)

    def add_output(self, inner: Tensor) -> None:
        """The graph returns one more tensor."""
        made = self.graph._add_tensor(inner.name, inner.shape, inner.dtype, inner.meta_shape)
        made._producer = self
        self.outputs.append(made)


@dataclass(eq=False)
class RepeatOp(CallOp):
    """Runs a graph `count` times. Its outputs are its first inputs in the next pass; other inputs stay as they are."""

    count: int = 0


@dataclass(eq=False)
class ConditionalOp(Op):
    """Runs one of two graphs. Inputs: the condition, those of `chosen`, those of `otherwise`."""

    chosen: Graph = None  # type: ignore[assignment]
    otherwise: Graph = None  # type: ignore[assignment]

    @property
    def called(self) -> tuple[Graph, ...]:
        return (self.chosen, self.otherwise)
