"""Where each field of each vertex of a batch lies, as the bytes that the runner reads.

In: a `Batch` of arrays. Out: `Table`s: for each field of the vertex a mark, and if it is set, offsets in the shared
memory (of states: their values). An array that the process cannot see or step through is copied, and brought back
afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from openipu.graph.mapped import Array, Batch
from openipu.run.mapped import find_shared_memory
from poplar.native.description import FieldType, Kind, Layout, VertexType

_ABSENT, _PRESENT = b"\0", b"\1"


@dataclass(slots=True, eq=False)
class Table:
    """`pieces` has one entry for each field. `twins` is memory that must stay until the run is over."""

    pieces: list[bytes]
    twins: list[Array] = field(default_factory=list)
    _back: list[tuple[Array, Array]] = field(default_factory=list)  # (where it goes, the twin)

    @property
    def table(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def is_lasting(self) -> bool:
        """Will the next run find the same data in the same place?"""
        return not self.twins

    def bring_back(self) -> None:
        """Copy what was written in a twin to where it belongs."""
        for own, twin in self._back:
            own[...] = twin

    def share(self, array: Array, one: FieldType) -> Array:
        """The array itself, or a twin in shared memory."""
        if not array.size or (find_shared_memory().locate(array) is not None and _is_even(array, one)):
            return array
        writes = one.kind is not Kind.INPUT
        shared_row = array.ndim > 0 and array.shape[0] > 1 and array.strides[0] == 0
        rows = array[:1] if shared_row else array
        twin = find_shared_memory().allocate(rows.shape, rows.dtype)
        twin[...] = rows
        self.twins.append(twin)
        if writes and array.flags.writeable:
            self._back.append((rows, twin))
        return np.broadcast_to(twin, array.shape) if shared_row else twin


def write_edges(vertex: VertexType, batch: Batch) -> Table:
    """Inputs and outputs; states are marked absent."""
    made = Table([])
    for one in vertex.fields:
        if one.kind is Kind.STATE:
            made.pieces.append(_ABSENT)
            continue
        values = batch.arrays[one.name]
        arrays = [made.share(array, one) for array in ([values] if isinstance(values, np.ndarray) else values)]
        made.pieces.append(_PRESENT + _point_at(one, arrays, batch.count))
    return made


def write_states(vertex: VertexType, batch: Batch) -> Table:
    """Members of the vertices themselves; edges are marked absent."""
    made = Table([])
    for one in vertex.fields:
        if one.kind is not Kind.STATE or one.name not in batch.state:
            made.pieces.append(_ABSENT)
        elif one.is_plain:
            values = np.ascontiguousarray(np.asarray(batch.state[one.name]))
            made.pieces.append(_PRESENT + values.tobytes() if values.nbytes == batch.count * one.bytes else _ABSENT)
        else:
            values = np.asarray(batch.state[one.name]).reshape(batch.count, -1)
            twin = find_shared_memory().allocate(values.shape, values.dtype)
            twin[...] = values
            made.twins.append(twin)
            made.pieces.append(_PRESENT + _point_at(one, [twin], batch.count))
    return made


def merge_tables(first: Table, second: Table) -> bytes:
    """Of each field the piece that is there."""
    pairs = zip(first.pieces, second.pieces, strict=True)
    return b"".join(other if piece == _ABSENT else piece for piece, other in pairs)


def _is_even(array: Array, one: FieldType) -> bool:
    """Can the runner step through it? A vector needs its elements side by side."""
    return one.layout is Layout.POINTERS or array.ndim < 2 or array.shape[1] <= 1 or array.strides[1] == array.itemsize


def _point_at(one: FieldType, arrays: Sequence[Array], count: int) -> bytes:
    starts = [_list_starts(array) for array in arrays]
    if one.layout is Layout.SCALAR:
        return starts[0].tobytes()
    if one.layout is Layout.VECTOR:
        return _list_spans(starts[0], arrays[0]).tobytes()
    if one.layout is Layout.POINTERS:
        width = arrays[0].shape[1]
        places = starts[0][:, None] + np.arange(width, dtype=np.int64) * (arrays[0].strides[1] if width else 0)
        return np.full(count, width, dtype=np.int64).tobytes() + places.tobytes()
    counts = np.full(count, len(arrays), dtype=np.int64).tobytes()
    if not arrays:
        return counts
    rows = [_list_spans(start, array) for start, array in zip(starts, arrays, strict=True)]
    return counts + np.stack(rows, axis=1).tobytes()


def _list_starts(array: Array) -> npt.NDArray[np.int64]:
    first = find_shared_memory().locate(array) if array.size else 0
    assert first is not None
    return first + np.arange(array.shape[0], dtype=np.int64) * (array.strides[0] if array.size else 0)


def _list_spans(starts: npt.NDArray[np.int64], array: Array) -> npt.NDArray[np.int64]:
    """[vertices, (start, length)]."""
    return np.stack([starts, np.full_like(starts, array.shape[1])], axis=1)
