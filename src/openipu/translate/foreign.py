"""A graph of another framework, as its reader delivers it: plain data, no framework to import.

In: nothing. Out: the types between readers, tables and the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from openipu.capture import quote_line
from openipu.graph import Phase, SourceLine

Dimension = int | str | None  # a size, the name of a size that is not known yet, or neither


@dataclass(frozen=True, slots=True)
class Place:
    """Where a foreign op is to run, as far as its graph says."""

    ipu: int | None = None
    stage: int | None = None
    phase: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ForeignNode:
    """One op of a foreign graph. An input that is left out has the name ""."""

    op: str  # "Conv"
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)  # numbers, texts, tensors, lists of them, graphs
    domain: str = ""
    version: int = 1  # of the operator set that is in force for its domain
    name: str = ""  # as the graph's author knows it; never empty once read
    number: int = 0  # its place in the file
    scope: str = ""  # "encoder.layer.0"
    place: Place = Place()
    notes: Mapping[str, Any] = field(default_factory=dict)  # for Note.attributes: share of memory, checkpoint …
    part: Phase = Phase.FORWARD  # of a step, where the graph has its backward pass and its update written out
    line: SourceLine | None = None  # of the user's code that made it, where this process knows

    @property
    def bodies(self) -> list[ForeignGraph]:
        """The graphs that it runs: a loop's body, the two sides of a branch."""
        return [value for value in self.attributes.values() if isinstance(value, ForeignGraph)]

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"node {self.name!r} ({self.domain + '.' if self.domain else ''}{self.op})"

    @property
    def quoted(self) -> str:
        """The user's line, for the end of a message."""
        return "" if self.line is None else quote_line(self.line)


@dataclass(frozen=True, slots=True)
class TensorType:
    """The declared type of a tensor."""

    dtype: torch.dtype
    shape: tuple[Dimension, ...] | None  # None: not even its rank is known

    @property
    def fixed_shape(self) -> tuple[int, ...] | None:
        """The shape, where every size is known."""
        if self.shape is None or not all(isinstance(size, int) for size in self.shape):
            return None
        return tuple(size for size in self.shape if isinstance(size, int))


@dataclass(frozen=True, eq=False)
class Weight:
    """A tensor that comes with the graph. Its data is read when asked for, and never for a plan."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    read: Callable[[], torch.Tensor]

    @property
    def elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True, eq=False)
class ForeignGraph:
    """Nodes in an order in which they can run, and what goes in and out."""

    name: str
    nodes: tuple[ForeignNode, ...]
    inputs: Mapping[str, TensorType]  # in order; without those that have a weight
    outputs: tuple[str, ...]
    weights: Mapping[str, Weight] = field(default_factory=dict)
    file: str = ""  # for messages
    output_types: Mapping[str, TensorType] = field(default_factory=dict)  # of those outputs that say theirs

    def __deepcopy__(self, memo: dict[int, Any]) -> ForeignGraph:
        """Nothing of a graph changes, so that copies of a model share it."""
        return self

    def list_nodes(self) -> Iterator[ForeignNode]:
        """Its nodes, and those of the graphs inside them."""
        waiting = [self]
        while waiting:
            graph = waiting.pop()
            for node in graph.nodes:
                yield node
                waiting.extend(node.bodies)

    def list_bodies(self) -> Iterator[ForeignGraph]:
        """The graphs inside its nodes, and those inside theirs."""
        for node in self.list_nodes():
            yield from node.bodies
