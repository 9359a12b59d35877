"""docs/applications.md from the outcomes of the runner. In: outcomes as plain records. Out: the page's text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[3] / "docs" / "applications.md"
WORDS = {"train": "trains", "infer": "infers", "both": "trains and infers", "plan": "planned"}
HEAD = """# Public applications

The applications of [graphcore/examples](https://github.com/graphcore/examples), run as they are: no program of theirs
is changed. `tests/conformance/run_applications.py` takes each from the tag that is named here, gives it the packages of
its time, generated data in the format that it reads, and what a machine without a network lacks: one process instead of
Horovod, models with random weights instead of a hub's, empty libraries in the place of C++ ops, which openipu
[has itself](custom_ops.md). Where sizes can be chosen in a file of configurations alone, a small one of ours is added
to its end. A run that trains must end well, with a loss that falls.

Sizes are small and steps are few: this page shows that programs run, not what they learn. Rates are modelled for the
configuration of that run; a sample is a row of the first input, which is a node where graphs are trained on. Where the
application's own pages state a rate for the same one, it stands beside.

```console
$ OPENIPU_EXAMPLES_CHECKOUT=path/to/examples make applications
```
"""


def write_page(outcomes: Sequence[Mapping[str, Any]], described: Sequence[str] = ()) -> str:
    """The whole page. `described` are the folders of the catalogue: those without an outcome are named."""
    parts = (write_counts, write_table, write_failures)
    lines = [HEAD, *(line for part in parts for line in part(outcomes))]
    counted = {entry["folder"] for entry in outcomes}
    waiting = [folder for folder in dict.fromkeys(described) if folder not in counted]
    if waiting:
        lines.append(f"Described in the catalogue, and without a run that is counted here yet: {', '.join(waiting)}.\n")
    return "\n".join(lines)


def write_counts(outcomes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    folders = {entry["folder"] for entry in outcomes}
    trained = {entry["folder"] for entry in outcomes if entry["kind"] in ("train", "both") and entry["passed"]}
    inferred = {entry["folder"] for entry in outcomes if entry["kind"] in ("infer", "both") and entry["passed"]}
    yield (
        f"{len(trained | inferred)} of {len(folders)} applications run: {len(trained)} train, {len(inferred)} infer, "
        "by a command of their own or after training.\n"
    )


def write_table(outcomes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| Application | Tag | Runs | Loss | Modelled, samples/s | Guesses | Published | Error |"
    yield "|---|---|---|---|---:|---:|---:|---:|"
    for entry in outcomes:
        cells = [
            entry["folder"],
            entry["tag"],
            WORDS[entry["kind"]] if entry["passed"] else f"no: {entry['fault'] or 'not known whose fault'}",
            write_losses(entry["losses"]),
            write_rate(entry["modelled"]) + ("" if entry["fits"] in (True, None) else ", does not fit"),
            "" if entry["guessed"] is None else f"{entry['guessed']:.0%}",
            write_rate(entry["published"]),
            write_error(entry["modelled"], entry["published"]),
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""


def write_losses(losses: Sequence[float]) -> str:
    return f"{losses[0]:.4g} to {losses[-1]:.4g} in {len(losses)} reports" if losses else ""


def write_rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def write_error(modelled: float | None, published: float | None) -> str:
    return "" if not modelled or not published else f"{modelled / published - 1:+.0%}"


def write_failures(outcomes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    failed = [entry for entry in outcomes if not entry["passed"]]
    if failed:
        yield "## What does not run, and why\n"
        yield "| Application | Command | Whose | Why |"
        yield "|---|---|---|---|"
        for entry in failed:
            program = entry["command"].split()[0]
            why = entry["detail"].replace("|", "\\|")
            yield f"| {entry['folder']} | `{program}` | {entry['fault'] or 'not known yet'} | {why} |"
        yield ""
    sources = {entry["source"]: None for entry in outcomes if entry["source"]}
    if sources:
        yield "Published rates: " + "; ".join(sources) + ".\n"
