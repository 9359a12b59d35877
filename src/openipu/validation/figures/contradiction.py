"""Misfits that cannot be a lack of memory, because a program that holds them ran on the same machine.

In: rows with values. Out: which published misfits are contradicted. Predictions are not looked at. A program
contradicts a misfit where the misfit could be computed by it, with zeros in the rest:

- the same work, all else equal, with a batch at least as large;
- a convolution with as many groups, a kernel and channels at least as large, and no more stride, whose images hold as
  many of the smaller ones side by side, with the padding of its kernel between them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from openipu.validation.figures.rows import FigureRow

_WORDS = ("note", "source")  # parameters that say nothing of the program
_CONVOLUTION = ("cin", "cout", "field", "kernel")


@dataclass(frozen=True, slots=True)
class _Layer:
    batch: float
    field: float
    kernel: float
    stride: float
    in_channels: float
    out_channels: float

    def holds(self, other: _Layer) -> bool:
        """Whether this layer can compute `other`; a stride of one computes every result that a larger one keeps."""
        if self.stride not in (1, other.stride):
            return False
        gap = self.kernel // 2
        along = (self.field + gap) // (other.field + gap)
        return (
            self.kernel >= other.kernel
            and self.in_channels >= other.in_channels
            and self.out_channels >= other.out_channels
            and self.batch * along**2 >= other.batch
        )


def find_contradicted(rows: Iterable[FigureRow]) -> frozenset[str]:
    """Ids of misfits that a program that ran contradicts."""
    misfits: list[FigureRow] = []
    batches: dict[Hashable, float] = {}  # of work that ran: the largest
    layers: dict[Hashable, list[_Layer]] = {}
    for row in rows:
        if row.asks_fit and row.value == 0:
            misfits.append(row)
        elif row.value is not None:
            key = _name_work(row)
            batches[key] = max(batches.get(key, 0.0), _read(row.params, "batch"))
            layer = _read_layer(row)
            if layer is not None:
                layers.setdefault(_name_machine(row), []).append(layer)
    return frozenset(row.id for row in misfits if _is_contradicted(row, batches, layers))


def _is_contradicted(
    row: FigureRow, batches: Mapping[Hashable, float], layers: Mapping[Hashable, list[_Layer]]
) -> bool:
    layer = _read_layer(row)
    if layer is not None:
        return any(other.holds(layer) for other in layers.get(_name_machine(row), ()))
    return 0 < _read(row.params, "batch") <= batches.get(_name_work(row), 0.0)


def _read_layer(row: FigureRow) -> _Layer | None:
    """The sizes of a convolution, if that is what a row describes."""
    params = row.params
    if any(not _read(params, name) for name in _CONVOLUTION):
        return None
    cin, cout, field, kernel = (_read(params, name) for name in _CONVOLUTION)
    return _Layer(_read(params, "batch", 1.0), field, kernel, _read(params, "stride", 1.0), cin, cout)


def _name_machine(row: FigureRow) -> Hashable:
    """What two convolutions must share besides their sizes."""
    kind = row.workload.partition(" ")[0]
    return row.system, row.ipus, row.sdk, kind, str(row.params.get("dtype")), _read(row.params, "groups", 1.0)


def _name_work(row: FigureRow) -> Hashable:
    """A row's program without its batch."""
    rest = sorted((name, str(value)) for name, value in row.params.items() if name not in ("batch", *_WORDS))
    return row.system, row.ipus, row.sdk, row.workload, tuple(rest)


def _read(params: Mapping[str, Any], name: str, default: float = 0.0) -> float:
    value = params.get(name, default)
    return float(value) if isinstance(value, int | float) else 0.0
