"""Published measurements and machines for the planner's tests."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from openipu.machine import Target, list_targets
from openipu.ops.cost import CostContext

FIGURES = Path(__file__).parents[2] / "data" / "published_figures.csv"


@dataclass(frozen=True)
class Measurement:
    id: str
    params: dict[str, Any]
    metric: str
    value: float


@pytest.fixture(scope="session")
def published() -> Callable[[str], list[Measurement]]:
    """Rows whose id begins with a prefix."""
    with FIGURES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))

    def select(prefix: str) -> list[Measurement]:
        return [
            Measurement(row["id"], json.loads(row["params"]), row["metric"], float(row["value"]))
            for row in rows
            if row["id"].startswith(prefix)
        ]

    return select


@pytest.fixture(scope="session")
def bow() -> Target:
    return list_targets()["bow"]


@pytest.fixture(scope="session")
def on_bow(bow: Target) -> CostContext:
    """Its published matmuls ran with half partials."""
    return CostContext(bow, tiles=bow.tiles, half_partials=True)


@pytest.fixture(scope="session")
def on_mk1() -> CostContext:
    """Its published convolutions ran with float partials, the default of their day."""
    target = list_targets()["gc2"]
    return CostContext(target, tiles=target.tiles, half_partials=False)
