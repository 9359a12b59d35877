"""Golden plans: the figures of a plan in a small JSON file, with where they are from, to notice when they change.

In: a plan, a file. Out: nothing, or a text that says which figures have moved, by how much, and in which terms. The
file carries version, program, system and options: a plan is only compared with one that was made alike.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

import openipu
from openipu.errors import ArchiveError
from openipu.explore.compare import Grouping, sum_call, sum_peak
from openipu.files.documents import read_json
from openipu.files.origin import Origin
from openipu.files.values import Finite, Text
from openipu.graph import HOST_ONLY
from openipu.plan import Plan
from openipu.report import build_profile
from openipu.report.atomic import write_aside
from openipu.report.units import format_share

GOLDEN_VERSION = 1
DEFAULT_TOLERANCE = 0.02
_TERMS = 5  # named in a message
_LARGEST = 16 << 20


class _Golden(msgspec.Struct, frozen=True):
    """A golden file. Provenance is compared value by value, whatever it is."""

    version: int
    provenance: dict[str, Any]
    figures: dict[str, bool | Finite | Text | None]
    cycles: dict[str, Finite]
    peak_bytes: dict[str, Finite]


def describe_golden(plan: Plan) -> dict[str, Any]:
    """What a golden file holds."""
    profile = build_profile(plan)
    return {
        "version": GOLDEN_VERSION,
        "provenance": {
            "openipu": openipu.__version__,
            "program": plan.name,
            "system": plan.system.name,
            "target": plan.system.target.name,
            "micro_batch": plan.micro_batch,
            "options": {name: value for name, value in profile.options.items() if name not in HOST_ONLY},
        },
        "figures": {
            "fits": bool(plan.fit.fits),
            "ipus": plan.ipus,
            "peak_tile_bytes": int(plan.fit.peak_bytes),
            "needed_bytes": int(plan.fit.needed_bytes),
            "call_cycles": float(plan.timing.call_cycles),
            "samples_per_second": float(plan.timing.samples_per_second),
        },
        "cycles": {name: float(cycles) for name, cycles in sorted(sum_call(profile, Grouping.FAMILY).items())},
        "peak_bytes": dict(sorted(sum_peak(profile).items())),
    }


def write_golden(plan: Plan, path: Path) -> None:
    """Write the file, whole or not at all."""
    content = json.dumps(describe_golden(plan), indent=2, ensure_ascii=False) + "\n"
    with write_aside(path) as part:
        part.write_text(content, encoding="utf-8")


def check_golden(plan: Plan, path: Path, tolerance: float | None = None) -> str:
    """What has changed, or an empty text."""
    if not path.is_file():
        return f"There is no golden plan {path}."
    golden = _read(path)
    now = describe_golden(plan)
    now = json.loads(json.dumps(now))  # tuples are lists in a file
    moved = _compare_provenance(golden["provenance"], now["provenance"])
    if moved:
        return f"{path} was made for another plan: {moved}."
    allowed = DEFAULT_TOLERANCE if tolerance is None else tolerance
    problems = []
    for name, expected in golden["figures"].items():
        found = now["figures"].get(name)
        if isinstance(expected, bool) or not isinstance(expected, int | float):
            if found != expected:
                problems.append(f"{name} is {found}, and was {expected}")
        elif isinstance(found, bool) or not isinstance(found, int | float):
            problems.append(f"{name} is {found}, and was {expected}")
        elif abs(found - expected) > allowed * abs(expected):
            share = format_share(abs(found - expected) / abs(expected)) if expected else "all"
            direction = "more" if found > expected else "less"
            problems.append(f"{name} is {found:,.6g}, {share} {direction} than {expected:,.6g}")
    if not problems:
        return ""
    made = golden["provenance"].get("openipu")
    lines = [f"{plan.name} differs from {path} (openipu {made}) by more than {format_share(allowed)}:"]
    lines += [f"  {problem}" for problem in problems]
    lines += _list_terms("cycles of a call", golden["cycles"], now["cycles"])
    lines += _list_terms("bytes on the fullest tile", golden["peak_bytes"], now["peak_bytes"])
    return "\n".join(lines)


def _read(path: Path) -> dict[str, Any]:
    origin = Origin(f"The golden plan {path}", ArchiveError, "Write it anew with --update-golden-plans.")
    document = read_json(path, _Golden, origin, _LARGEST)
    if document.version != GOLDEN_VERSION:
        raise origin.fail(f"has version {document.version}, and this openipu writes {GOLDEN_VERSION}")
    return msgspec.structs.asdict(document)


def _compare_provenance(golden: dict[str, Any], now: dict[str, Any]) -> str:
    """The version may differ: that is what a golden plan is for."""
    named = [name for name in ("program", "system", "target", "micro_batch") if golden.get(name) != now[name]]
    changes = [f"{name} was {golden.get(name)!r} and is {now[name]!r}" for name in named]
    given, after = golden.get("options"), now["options"]
    before = given if isinstance(given, dict) else {}
    both = sorted({*before} & {*after})  # an option that is new has its default
    changes += [
        f"the option {name} was {before[name]!r} and is {after[name]!r}" for name in both if before[name] != after[name]
    ]
    return "; ".join(changes)


def _list_terms(title: str, before: dict[str, float], after: dict[str, float]) -> list[str]:
    changes = {name: after.get(name, 0) - before.get(name, 0) for name in {*before, *after}}
    largest = sorted(changes, key=lambda name: (-abs(changes[name]), name))[:_TERMS]
    lines = [f"    {changes[name]:+,.6g}  {name}" for name in largest if changes[name]]
    return [f"  {title} changed by {sum(changes.values()):+,.6g}, most of it:", *lines] if lines else []
