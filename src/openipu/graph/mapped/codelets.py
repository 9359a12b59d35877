"""Codelets: what a vertex has for fields, and how many vertices of one kind run at once.

In: from a front end, an object with `name`, `fields` and `run`. Out: the types between it and the engine. Python
classes and compiled C++ both come through here; the engine knows neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from openipu.graph.mapped.elements import ElementType

Array = npt.NDArray[Any]


class Access(StrEnum):
    """What a vertex does with a field."""

    INPUT = "input"
    OUTPUT = "output"
    INOUT = "inout"
    STATE = "state"  # a plain member: a value that was set when the graph was built

    @property
    def reads(self) -> bool:
        return self in (Access.INPUT, Access.INOUT)

    @property
    def writes(self) -> bool:
        return self in (Access.OUTPUT, Access.INOUT)


class Form(StrEnum):
    """How many elements a field has."""

    SCALAR = "scalar"
    VECTOR = "vector"
    VECTOR_LIST = "vector list"


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a codelet. A state without a type takes any number."""

    name: str
    access: Access
    form: Form
    type: ElementType | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Vertices of one codelet whose fields have the same sizes.

    `arrays` has for a scalar field an array [count], for a vector [count, length], for a list of vectors one array
    [count, length] for each vector of the list. Outputs are to be written into their arrays in place. What an output
    holds before is what memory holds. With `goes_on`, all vertices run also where one of them fails.
    """

    count: int
    arrays: Mapping[str, Array | Sequence[Array]]
    state: Mapping[str, Array] = field(default_factory=dict)  # [count], or [count, length]
    goes_on: bool = False


class VertexFault(Exception):  # noqa: N818 - what happened, not what is wrong with a call
    """A vertex crashed, did not end, or took too much: `vertex` is its number in the batch, if it is known."""

    def __init__(self, message: str, vertex: int = -1) -> None:
        super().__init__(message)
        self.vertex = vertex


class Codelet(Protocol):
    """What the engine runs."""

    @property
    def name(self) -> str: ...

    @property
    def fields(self) -> Sequence[Field]: ...

    @property
    def reference(self) -> Mapping[str, str]:
        """How another process finds it: a kind, and names or paths. Empty: it cannot."""
        ...

    def run(self, batch: Batch) -> int:
        """Run all vertices of a batch. -1, or the first one that failed; `VertexFault` for one that broke."""
        ...

    def estimate(self, batch: Batch) -> npt.NDArray[np.int64] | None:
        """Cycles of each vertex counted from the code, where a codelet can do better than the general rule."""
        ...
