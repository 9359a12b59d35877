"""Draws predicted against published figures, one panel per kind of work, and prints their table, for the documentation.

In: the JSON of `openipu validate --json`. Out: a PNG, and the table of `docs/fidelity.md` on standard output.

    openipu validate --figures figures.csv --json out.json
    python tools/draw_fidelity.py out.json docs/images/fidelity.png
"""

from __future__ import annotations

import argparse
import json
import math
import textwrap
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot, ticker

INK, GRID, DOT, OUTSIDE = "#1d2433", "#d9dde5", "#2456a6", "#c8501e"
COLUMNS = 4


def group_rows(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Rows with both numbers, by kind of work."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in document["rows"]:
        if row["log_error"] is not None:
            found.setdefault(row["kind"], []).append(row)
    return found


def draw_panel(axes: Any, name: str, rows: list[dict[str, Any]], summary: dict[str, Any]) -> None:
    """Both scaled by the median published value of their unit, so that one panel holds several units."""
    middles = find_middles(rows)
    published = [row["published"] / middles[row["metric"], row["unit"]] for row in rows]
    predicted = [row["predicted"] / middles[row["metric"], row["unit"]] for row in rows]
    low, high = min(published + predicted) / 1.5, max(published + predicted) * 1.5
    axes.fill_between([low, high], [low / 1.25, high / 1.25], [low * 1.25, high * 1.25], color=GRID, alpha=0.5, lw=0)
    axes.plot([low, high], [low, high], color=INK, lw=0.8)
    colours = [DOT if row["in_range"] else OUTSIDE for row in rows]
    axes.scatter(published, predicted, s=11, c=colours, alpha=0.75, lw=0, zorder=3)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    set_ticks(axes, low, high)
    axes.set_title(textwrap.fill(name, 32), fontsize=9, color=INK, loc="left", fontweight="bold", pad=4)
    text = f"{len(rows)} rows, median {100 * summary['median_error']:.1f} %, p90 {100 * summary['p90_error']:.0f} %"
    axes.text(0.03, 0.95, text, transform=axes.transAxes, fontsize=7.5, va="top", color=INK)
    axes.tick_params(labelsize=7, colors=INK, which="both", length=2)
    axes.grid(color=GRID, lw=0.4)
    axes.set_aspect("equal")
    for spine in axes.spines.values():
        spine.set_color(GRID)


def set_ticks(axes: Any, low: float, high: float) -> None:
    """Plain numbers, few enough to be read."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if math.log10(high / low) < 1.7 else (1,)
    ticks = [step * 10.0**power for power in decades for step in steps if low <= step * 10.0**power <= high]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(ticker.FixedLocator(ticks))
        axis.set_minor_locator(ticker.NullLocator())
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,g}"))


def find_middles(rows: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """The geometric mean of the published values of each metric and unit."""
    logs: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        logs.setdefault((row["metric"], row["unit"]), []).append(math.log(row["published"]))
    return {key: math.exp(sum(values) / len(values)) for key, values in logs.items()}


def format_table(document: dict[str, Any]) -> str:
    """The summary as Markdown."""
    lines = [
        "| Kind of work | Rows modelled | Median error | 90th percentile | Goal | In its range | Spearman |",
        "|---|---|---|---|---|---|---|",
    ]
    for entry in [*document["by_kind"], document["all"]]:
        if not entry["scored"]:
            continue
        goals = [format_share(entry[name], 0) for name in ("median_goal", "p90_goal")]
        goal = goals[0] + (f" ({goals[1]})" if goals[1] else "")
        rank = "" if entry["spearman"] is None else f"{entry['spearman']:.3f}"
        cells = (
            entry["name"],
            f"{entry['modelled']} of {entry['rows']}",
            format_share(entry["median_error"], 1),
            format_share(entry["p90_error"], 1),
            goal,
            format_share(entry["share_in_range"], 0),
            rank,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def format_share(share: float | None, digits: int) -> str:
    return "" if share is None else f"{100 * share:.{digits}f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", type=Path)
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    document = json.loads(arguments.document.read_text(encoding="utf-8"))
    print(format_table(document))
    summaries = {entry["name"]: entry for entry in document["by_kind"]}
    groups = {name: rows for name, rows in group_rows(document).items() if len(rows) > 1}
    groups = {name: groups[name] for name in summaries if name in groups}
    lines = -(-len(groups) // COLUMNS)
    figure, panels = pyplot.subplots(lines, COLUMNS, figsize=(3.1 * COLUMNS, 3.25 * lines), squeeze=False)
    for axes, name in zip(panels.flat, groups, strict=False):
        draw_panel(axes, name, groups[name], summaries[name])
    for axes in panels.flat[len(groups) :]:
        axes.set_axis_off()
    figure.supxlabel("published, over the mean of its metric", fontsize=9, color=INK)
    figure.supylabel("predicted, over the same", fontsize=9, color=INK)
    figure.tight_layout(rect=(0.01, 0.01, 1, 1))
    figure.savefig(arguments.picture, dpi=110, facecolor="white")


if __name__ == "__main__":
    main()
