"""From raw results to the figures of tables and aims.

In: a `Store`. Out: ratios, shares and seconds of single cells, None where something was not measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.cells import OPENIPU, Cell
from bench.ratios import Spread, compare, find_limit_seconds, summarize
from bench.store import Store


@dataclass(frozen=True)
class Figures:
    """Questions about the results."""

    store: Store

    def list_models(self, variant: str) -> list[str]:
        """Models of which this variant was measured, in the order of the catalog."""
        from bench.models import MODELS

        return [name for name in MODELS if f"{name}-{variant}" in self.store.read("steps")]

    def find_speed(self, cell: Cell, way: str, against: str) -> Spread | None:
        """How many times faster a way is than another: the spread of the rounds' ratios."""
        return compare_seconds(self._find_seconds(cell, against), self._find_seconds(cell, way))

    def find_own_speed(self, cell: Cell, against: str) -> Spread | None:
        """The speed of openipu over a way."""
        return self.find_speed(cell, OPENIPU.name, against)

    def find_latency(self, model: str, way: str) -> tuple[float, float] | None:
        """Seconds of a single request: the median, and the 99th percentile."""
        seconds = self.store.read("latency").get(model, {}).get("ways", {}).get(way, {}).get("seconds")
        if not seconds:
            return None
        ordered = sorted(seconds)
        return statistics.median(ordered), ordered[math.ceil(0.99 * len(ordered)) - 1]

    def find_seconds(self, cell: Cell, way: str) -> Spread | None:
        """Seconds of a step."""
        seconds = self._find_seconds(cell, way)
        return None if seconds is None else summarize(seconds)

    def find_error(self, cell: Cell, way: str) -> str | None:
        """Why a way could not be measured."""
        error: str | None = self._find_way(cell, way).get("error")
        return error

    def find_limit_share(self, cell: Cell, way: str) -> Spread | None:
        """The least possible time of a step, by the host's rates in the same round, over the time that it took."""
        result = self.store.read("steps").get(cell.key, {})
        seconds = self._find_seconds(cell, way)
        if seconds is None or not result.get("host") or "flops" not in result:
            return None
        limits = [
            find_limit_seconds(
                result["flops"], result["traffic_bytes"], rates["flops_per_second"], rates["bytes_per_second"]
            )
            for rates in result["host"]
        ]
        return compare(limits, seconds)

    def find_memory(self, cell: Cell, way: str) -> int | None:
        """Peak bytes of steady steps above the imports."""
        found: int | None = self._find_way(cell, way).get("peak_bytes")
        return found

    def find_memory_ratio(self, cell: Cell, way: str, against: str) -> float | None:
        """Peak memory of one way over that of another."""
        own, other = self.find_memory(cell, way), self.find_memory(cell, against)
        return own / other if own is not None and other else None

    def find_first_step(self, model: str, way: str, start: str, name: str = "result_seconds") -> float | None:
        """A figure of a fresh process, `cold` or `warm`."""
        found: float | None = self.store.read("first_step").get(f"{model}-{way}", {}).get(start, {}).get(name)
        return found

    def find_planning(self, layers: int) -> Spread | None:
        """Seconds of planning, capture included, of a BERT with so many layers."""
        result = self.store.read("planning").get("bert")
        if result is None:
            return None
        captures, plans = result["capture_seconds"][str(layers)], result["plan_seconds"][str(layers)]
        return summarize(capture + plan for capture, plan in zip(captures, plans, strict=True))

    def _find_way(self, cell: Cell, way: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.store.read("steps").get(cell.key, {}).get("ways", {}).get(way, {})
        return found

    def _find_seconds(self, cell: Cell, way: str) -> Sequence[float | None] | None:
        return self._find_way(cell, way).get("seconds")


def compare_seconds(
    numerators: Sequence[float | None] | None, denominators: Sequence[float | None] | None
) -> Spread | None:
    """`compare`, where either may not have been measured."""
    return None if numerators is None or denominators is None else compare(numerators, denominators)
