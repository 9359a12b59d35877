"""The web report: one HTML file that opens from disk, with nothing to fetch.

In: a `Profile`, perhaps a second one to compare it with, and the parts in `web/`. Out: the page with its style, scripts
and data inside.

The data is one block: a little-endian uint32 length, that many bytes of JSON, zeros up to a multiple of eight, then the
columns of the tables as typed arrays, some as differences; all of it zlib-compressed and in base64. Texts of the tables
are numbers of the JSON's list of strings. `web/data.js` is the other end.
"""

from __future__ import annotations

import base64
import html
import json
import re
import struct
import zlib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from openipu.report.atomic import write_aside
from openipu.report.comparison import label_profiles
from openipu.report.json_export import describe_summary
from openipu.report.profile import LineRecord, Profile, StepTileRecord
from openipu.report.summary import element_bytes_by_op, share_of_peak, summarise

SCRIPTS = (
    "data.js",
    "page.js",
    "svg.js",
    "save.js",
    "glossary.js",
    "table.js",
    "axis.js",
    "compare.js",
    "ipus.js",
    "summary.js",
    "levers.js",
    "insights.js",
    "floor_plan.js",
    "tile_columns.js",
    "tile_vertices.js",
    "memory_details.js",
    "memory.js",
    "step_columns.js",
    "liveness.js",
    "tree.js",
    "program_tree.js",
    "programs.js",
    "timeline.js",
    "ticks.js",
    "schedule.js",
    "flame.js",
    "balance.js",
    "other_trace.js",
    "op_details.js",
    "trace_range.js",
    "trace_parts.js",
    "trace.js",
    "pipeline_tables.js",
    "pipeline.js",
    "op_groups.js",
    "operations.js",
    "graph_layout.js",
    "graph_details.js",
    "graph.js",
    "search.js",
    "report.js",
)


def write_html(
    profile: Profile, path: Path, other: Profile | None = None, labels: tuple[str, str] | None = None
) -> Path:
    """Write the report to `path`, replacing an older one in a single move.

    With `other` it compares the two, by these labels beside A and B, else by what differs of system and name.
    """
    path = Path(path)
    with write_aside(path) as part:
        part.write_text(render_html(profile, other, labels), encoding="utf-8")
    return path


def render_html(profile: Profile, other: Profile | None = None, labels: tuple[str, str] | None = None) -> str:
    """The whole page as text."""
    own, theirs = ("", "") if other is None else labels or label_profiles(profile, other)
    names = profile.name if other is None else f"{profile.name} and {other.name}"
    parts = {
        "title": html.escape(f"{names} · openipu (unofficial)"),
        "style": _read_part("report.css"),
        "data": _encode(profile, own),
        "other": "" if other is None else _encode(other, theirs),
        "script": "\n".join(_read_part(name) for name in SCRIPTS),
    }
    # In one pass, so that braces in a program's name stay what they are.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _read_part("report.html"))


def _encode(profile: Profile, label: str) -> str:
    return base64.b64encode(zlib.compress(pack_data(profile, label), 6)).decode("ascii")


def pack_data(profile: Profile, label: str = "") -> bytes:
    """The data block before compression."""
    packer = _Packer()
    _pack_ops(packer, profile)
    _pack_steps(packer, profile)
    _pack_variables(packer, profile)
    _pack_edges(packer, profile)
    memory = []
    for record in profile.memory:
        parts = {
            "alwaysLive": record.always_live,
            "peakNotAlwaysLive": record.peak_not_always_live,
            "peakStep": record.peak_step_by_tile,
            "liveByStep": record.live_by_step,
            "fullestByStep": record.fullest_by_step,
        }
        categories = {name: packer.add_changes(values) for name, values in record.categories.items()}
        columns = {key: packer.add_changes(values) for key, values in parts.items()}
        memory.append({"ipu": record.ipu, "categories": categories, **columns})
    document = {
        "label": label,
        "summary": describe_summary(summarise(profile), profile),
        "executions": {phase: profile.executions(phase) for phase in ("forward", "backward", "update")},
        "memory": memory,
        "tree": [
            [entry.kind, entry.name, entry.parent, entry.count, entry.first_step, entry.steps] for entry in profile.tree
        ],
        "vertexCode": dict(profile.vertex_code_bytes),
        "tables": packer.tables,
        "strings": list(packer.strings),
    }
    head = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("utf-8")
    padding = -(4 + len(head)) % 8
    return struct.pack("<I", len(head)) + head + bytes(padding) + b"".join(packer.blocks)


class _Packer:
    """Collects columns: numbers as typed arrays on eight-byte borders, texts as numbers of one list."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self.tables: dict[str, dict[str, list[Any]]] = {}
        self.strings: dict[str, int] = {}
        self._offset = 0

    def add(self, values: Any) -> list[Any]:
        """Add one column; returns how to find it: type, offset after the JSON, length."""
        array = np.asarray(values)
        small = array.dtype.kind in "iu" and (not array.size or abs(array).max() < 2**31)
        block = array.astype("<i4" if small else "<f8").tobytes()
        place = ["i4" if small else "f8", self._offset, int(array.size)]
        block += bytes(-len(block) % 8)
        self.blocks.append(block)
        self._offset += len(block)
        return place

    def add_changes(self, values: Any) -> list[Any]:
        """Add a column that changes seldom, as the differences from entry to entry: they compress to almost nothing."""
        array = np.asarray(values)
        if array.size and abs(array).max() >= 2**31:  # the reader adds up in the same type
            array = array.astype(np.float64)
        place = self.add(np.diff(array, prepend=0))
        return [f"d{place[0][1:]}", *place[1:]]

    def add_texts(self, texts: Iterable[str]) -> list[Any]:
        numbers = [self.strings.setdefault(text, len(self.strings)) for text in texts]
        place = self.add(np.array(numbers, dtype=np.int64))
        return ["text", *place[1:]]


def _pack_ops(packer: _Packer, profile: Profile) -> None:
    ops, sizes = profile.ops, element_bytes_by_op(profile)
    peaks = [share_of_peak(op, sizes.get(op.index), profile.system) for op in ops]
    numbers = ("cycles", "flops", "moved_bytes", "scratch_bytes_per_tile", "first_step", "step_count", "ipu", "stage")
    table = {name: packer.add(_collect(getattr(op, name) for op in ops)) for name in numbers}
    table["share_of_peak"] = packer.add(_collect(-1.0 if share is None else share for share in peaks))
    for name in ("name", "op", "family", "phase", "module", "provenance", "basis"):
        table[name] = packer.add_texts(getattr(op, name) for op in ops)
    table["line"] = packer.add_texts(_write_line(op.line) for op in ops)
    table["plan"] = packer.add_texts(json.dumps(op.plan) if op.plan else "" for op in ops)
    packer.tables["ops"] = table


def _pack_steps(packer: _Packer, profile: Profile) -> None:
    steps = profile.steps
    numbers = ("cycles", "tiles", "moved_bytes", "flops", "op", "repeats", "per_call", "ipu", "stage", "program")
    code = ("first_tile", "vertices_per_tile", "state_bytes", "exchange_code_bytes", "control_code_bytes")
    table = {name: packer.add(getattr(steps, name)) for name in (*numbers, *code)}
    for name in ("kind", "name", "phase", "vertex"):
        table[name] = packer.add_texts(getattr(steps, name))
    balance = {step: _measure_balance(tiles) for step, tiles in steps.by_tile.items()}
    table["balance"] = packer.add(_collect(balance.get(step, -1.0) for step in range(len(steps))))
    packer.tables["steps"] = table
    # Steps whose tiles differ: the cycles and vertices of each tile, one step after the other.
    known = sorted(steps.by_tile)
    tiles = profile.system.target.tiles
    cycles = [steps.by_tile[step].cycles for step in known]
    vertices = [steps.by_tile[step].vertices for step in known]
    packer.tables["tileSteps"] = {
        "step": packer.add(_collect(known)),
        "cycles": packer.add_changes(np.concatenate(cycles) if cycles else np.zeros(0, dtype=np.int64)),
        "vertices": packer.add_changes(
            np.concatenate([np.full(tiles, -1) if counts is None else counts for counts in vertices])
            if vertices
            else np.zeros(0, dtype=np.int64)
        ),
    }


def _measure_balance(tiles: StepTileRecord) -> float:
    """Mean over slowest of all tiles of the IPU; -1 where nothing runs."""
    slowest = int(tiles.cycles.max(initial=0))
    return float(tiles.cycles.mean() / slowest) if slowest else -1.0


def _pack_variables(packer: _Packer, profile: Profile) -> None:
    variables = profile.variables
    numbers = ("first_tile", "tiles", "total_bytes", "grain_bytes", "always_live", "first_step", "last_step", "ipu")
    table = {name: packer.add(_collect(int(getattr(v, name)) for v in variables)) for name in numbers}
    table["op"] = packer.add(_collect(-1 if v.op is None else v.op for v in variables))
    for name in ("name", "kind", "dtype"):
        table[name] = packer.add_texts(getattr(v, name) for v in variables)
    # Of variables whose mapping is their own: where their tiles begin in one list.
    firsts: list[int] = []
    places: list[int] = []
    held: list[int] = []
    for variable in variables:
        firsts.append(len(places) if variable.places else -1)
        places.extend(variable.places)
        held.extend(variable.held)
    table["own_first"] = packer.add(_collect(firsts))
    table["own_count"] = packer.add(_collect(len(variable.places) for variable in variables))
    packer.tables["held"] = {"place": packer.add(_collect(places)), "bytes": packer.add(_collect(held))}
    table["shape"] = packer.add_texts(" × ".join(map(str, v.shape)) or "scalar" for v in variables)
    packer.tables["variables"] = table


def _pack_edges(packer: _Packer, profile: Profile) -> None:
    """Which op reads what another one wrote: the operation graph."""
    writer: dict[int, int] = {}
    edges: list[tuple[int, int, int]] = []
    for op in profile.ops:
        edges += [(writer[variable], op.index, variable) for variable in op.reads if variable in writer]
        writer.update(dict.fromkeys(op.writes, op.index))
    columns = np.array(edges, dtype=np.int64).reshape(-1, 3)
    names = ("source", "target", "variable")
    packer.tables["edges"] = {name: packer.add(columns[:, place]) for place, name in enumerate(names)}


def _collect(values: Iterable[float]) -> np.ndarray[Any, Any]:
    found = list(values)
    return np.array(found, dtype=None if found else np.int64)


def _write_line(line: LineRecord | None) -> str:
    return "" if line is None else str(line)


def _read_part(name: str) -> str:
    return resources.files(__package__).joinpath("web", name).read_text(encoding="utf-8")
