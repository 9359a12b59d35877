"""`openipu garden list`: the families, and what is published of them."""

from __future__ import annotations

import argparse
from typing import Any

from rich.markup import escape

from openipu.cli.rows import Column, print_rows
from openipu.cli.terminal import format_quantity, open_console, print_json
from openipu.validation.figures import FigureRow
from openipu_garden.family import Family
from openipu_garden.figures import count_weights, list_published
from openipu_garden.registry import list_families

_COLUMNS = (
    Column("family", figures=False),
    Column("area", figures=False, spare=1),
    Column("front end", figures=False),
    Column("weights"),
    Column("published rates", words=True),
)


def execute(arguments: argparse.Namespace) -> int:
    families = list_families()
    if arguments.json:
        print_json([describe_family(family) for family in families])
        return 0
    console = open_console()
    rows = [
        (
            f"[bold]{escape(family.name)}[/]",
            escape(family.area.value),
            family.front_end.value,
            format_quantity(count_weights(family), "").strip(),
            escape(", ".join(name_rate(row) for row in list_published(family))) or "[dim]none known here[/]",
        )
        for family in families
    ]
    print_rows(console, _COLUMNS, rows)
    console.print(
        f"\n{len(families)} families. `openipu garden run NAME` trains a small one, `plan NAME` plans it whole."
    )
    return 0


def name_rate(row: FigureRow) -> str:
    """A published figure in a few words: "37,061 items/s on 16 IPUs of Bow Pod16"."""
    assert row.value is not None
    kind = "" if "throughput" in row.metric else f"{row.metric.partition(' (')[0]} "
    return f"{kind}{format_figure(row.value)} {row.unit} on {row.system}"


def format_figure(value: float) -> str:
    """Without exponents: 39,830 or 3.62."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def describe_family(family: Family) -> dict[str, Any]:
    """A family as plain data."""
    return {
        "name": family.name,
        "title": family.title,
        "area": family.area.value,
        "front_end": family.front_end.value,
        "paper": family.paper,
        "weights": count_weights(family),
        "learns": family.learns,
        "goal": describe_goal(family),
        "published": [
            {
                "id": row.id,
                "system": row.system,
                "ipus": row.ipus,
                "workload": row.workload,
                "metric": row.metric,
                "value": row.value,
                "unit": row.unit,
                "source": row.source,
            }
            for row in list_published(family)
        ],
    }


def describe_goal(family: Family) -> dict[str, Any]:
    """A goal as plain data."""
    goal = family.goal
    return {
        "measure": goal.measure,
        "bar": goal.bar,
        "guess": goal.guess,
        "more_is_better": goal.more_is_better,
    }
