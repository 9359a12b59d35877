"""Functions of the user's that say what vertices of a codelet cost: `Graph.registerPerfEstimator`.

In: a batch without estimates, and the function that was registered for its codelet. Out: the batch with cycles and
flops. A function is called once for each set of sizes and states, however many vertices have them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from openipu.graph.mapped import NO_ESTIMATE, Access, Form, MappedComputeSet, VertexBatch
from poplar._errors import type_error, unknown_field
from poplar._vertices import Registered

if TYPE_CHECKING:
    from poplar._target import Target

PerfEstimateFunc = Callable[["VertexIntrospector", "Target"], Any]


@dataclass(frozen=True, slots=True)
class VertexPerfEstimate:
    """What one vertex costs."""

    cycles: int
    flops: int = 0


@dataclass(frozen=True, slots=True)
class FieldData:
    """One field of a vertex: its sizes, and its values if it is a state."""

    name: str
    form: Form
    sizes: tuple[int, ...]  # of each vector of a list; else one
    values: tuple[Any, ...] = ()

    def size(self) -> int:
        """Elements of a vector; vectors of a list."""
        return len(self.sizes) if self.form is Form.VECTOR_LIST else self.sizes[0]

    def rank(self) -> int:
        return {Form.SCALAR: 0, Form.VECTOR: 1, Form.VECTOR_LIST: 2}[self.form]

    def getSizeAtIndex(self, index: int) -> int:
        return self.sizes[index]

    def getInitialValue(self, target: Any = None) -> Any:
        return self.getInitialValues(target)[0]

    def getInitialValues(self, target: Any = None) -> list[Any]:
        if not self.values:
            raise unknown_field(f"Field {self.name!r} is connected to a tensor: its values are known when it runs.")
        return list(self.values)


@dataclass(frozen=True, slots=True)
class VertexIntrospector:
    """A vertex as an estimator sees it: sizes, no data."""

    name: str
    fields: Mapping[str, FieldData]

    def getFieldInfo(self, name: str) -> FieldData:
        if name not in self.fields:
            raise unknown_field(f"{self.name} has no field {name!r}. It has: {', '.join(self.fields)}.")
        return self.fields[name]


def estimate_vertices(
    compute_set: MappedComputeSet, codelets: Sequence[Registered], given: Mapping[str, PerfEstimateFunc], target: Target
) -> MappedComputeSet:
    """Ask the registered functions about vertices that have no estimate of their own."""
    return MappedComputeSet(
        compute_set.name,
        tuple(
            _estimate(batch, codelets[batch.codelet], given[codelets[batch.codelet].codelet.name], target)
            if codelets[batch.codelet].codelet.name in given and (batch.cycles == NO_ESTIMATE).any()
            else batch
            for batch in compute_set.batches
        ),
    )


def _estimate(batch: VertexBatch, one: Registered, function: PerfEstimateFunc, target: Target) -> VertexBatch:
    states = {name: np.asarray(values).reshape(batch.count, -1) for name, values in batch.state.items()}
    first, inverse = np.zeros(1, dtype=np.intp), np.zeros(batch.count, dtype=np.intp)
    if states:
        together = np.concatenate([values.astype(np.float64) for values in states.values()], axis=1)
        _, first, inverse = np.unique(together, axis=0, return_index=True, return_inverse=True)
    found = np.array(
        [_read_answer(one, function(_describe(batch, one, states, int(place)), target)) for place in first],
        dtype=np.int64,
    )[inverse.reshape(-1)]
    missing = batch.cycles == NO_ESTIMATE
    return dataclasses.replace(
        batch,
        cycles=np.where(missing, found[:, 0], batch.cycles),
        flops=np.where(missing, found[:, 1], batch.flops),
    )


def _describe(batch: VertexBatch, one: Registered, states: Mapping[str, Any], place: int) -> VertexIntrospector:
    fields = {}
    for entry in one.fields.values():
        if entry.access is Access.STATE:
            values = tuple(states[entry.name][place].tolist()) if entry.name in states else ()
            fields[entry.name] = FieldData(entry.name, entry.form, (len(values),), values)
        else:
            sizes = tuple(edges.length for edges in batch.edges.get(entry.name, ()))
            fields[entry.name] = FieldData(entry.name, entry.form, sizes)
    return VertexIntrospector(one.codelet.name, fields)


def _read_answer(one: Registered, answer: Any) -> tuple[int, int]:
    given = (answer.cycles, answer.flops) if isinstance(answer, VertexPerfEstimate) else answer
    parts = tuple(given) if isinstance(given, (tuple, list)) else (given, 0)
    if len(parts) != 2 or not all(isinstance(part, Integral) and int(part) >= 0 for part in parts):
        raise type_error(
            f"The perf estimator of {one.codelet.name} returned {answer!r}. It returns cycles, (cycles, flops) or a "
            "VertexPerfEstimate, whole numbers from 0 on."
        )
    return int(parts[0]), int(parts[1])
