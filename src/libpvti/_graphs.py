"""Numbers over time: line graphs, and heatmaps of many values at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from openipu.trace import find_recorder


class GraphSeries:
    """One line of a graph."""

    def __init__(self, graph: str, label: str, unit: str) -> None:
        self._key = (graph, label, unit)

    def add(self, value: float) -> None:
        """The value now."""
        recorder = find_recorder()
        if recorder is not None:
            recorder.add_sample(*self._key, float(value))


class Graph:
    """A line graph with a name and a unit."""

    def __init__(self, name: str, unit: str = "") -> None:
        self._name, self._unit = name, unit

    def addSeries(self, label: str) -> GraphSeries:
        return GraphSeries(self._name, label, self._unit)


class _Heatmap:
    """Counts, at each moment, how many values lie between each two edges. Values outside them are not counted."""

    def __init__(self, name: str, edges: Iterable[float], unit: str = "") -> None:
        self._name, self._unit = name, unit
        self._edges = np.asarray(list(edges))
        if self._edges.ndim != 1 or len(self._edges) < 2 or not (np.diff(self._edges) > 0).all():
            raise ValueError(f"The edges of heatmap {name!r} must be at least two numbers that rise")
        if not np.isfinite(self._edges).all():
            raise ValueError(f"The edges of heatmap {name!r} must be finite; values outside them are not counted")

    def add(self, values: Iterable[Any]) -> None:
        """The values of this moment."""
        recorder = find_recorder()
        if recorder is not None:
            counts, _ = np.histogram(np.asarray(list(values)), self._edges)
            recorder.add_histogram(self._name, self._edges.tolist(), self._unit, counts.tolist())


class HeatmapDouble(_Heatmap):
    """A heatmap of real numbers."""


class HeatmapInt(_Heatmap):
    """A heatmap of whole numbers."""
