"""A program as a chain of segments: where it may be cut.

In: a captured `Program`. Out: a `Chain`: segments in execution order, and the segment of every node of `micro`.
The unit is a module. Modules are opened until no unit holds more than its share of the work; the layers of a list are
opened only where there are fewer of them than stages. What a parent does between its children stays with the child
before.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import fx

from openipu.explore.auto.types import Segment
from openipu.graph import Phase, Program, note_of

UNITS_PER_STAGE = 4  # so that stages can be of equal weight
MOST_SEGMENTS = 96  # beyond, units stay whole: the search is quadratic in their number

Path = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Chain:
    """Segments, and the segment of every node that runs."""

    segments: tuple[Segment, ...]
    segment_of: dict[fx.Node, int]
    most_stages: int  # what the cut was made for: the same number gives the same segments


def find_chain(program: Program, most_stages: int) -> Chain:
    """Cut a program into segments, none of which holds much more than one stage's share of the work."""
    nodes = [node for node in program.micro.module.graph.nodes if node.op == "call_function"]
    forward = [node for node in nodes if note_of(node).phase is Phase.FORWARD]
    if not forward:
        return Chain((Segment(0, "", None),), dict.fromkeys(nodes, 0), most_stages)
    units = _choose_units(forward, most_stages)
    segments, segment_of = _join_neighbours(forward, units)
    _follow_backward([node for node in nodes if note_of(node).phase is Phase.BACKWARD], segment_of, len(segments))
    return Chain(tuple(segments), segment_of, most_stages)


def _choose_units(forward: Sequence[fx.Node], most_stages: int) -> dict[Path, Path]:
    """The unit of each module path. The heaviest is opened, with all that are as heavy, until none is too heavy."""
    weights: dict[Path, float] = defaultdict(float)
    for node in forward:
        weights[_read_path(node)] += _weigh(node)
    total = sum(weights.values()) or 1.0
    unit_of: dict[Path, Path] = dict.fromkeys(weights, ())
    closed: set[Path] = set()
    while True:
        held: dict[Path, float] = defaultdict(float)
        for path, unit in unit_of.items():
            held[unit] += weights[path]
        heavy = [unit for unit in held if unit not in closed and held[unit] * _share(unit, most_stages) > total]
        if not heavy:
            return unit_of
        heaviest = max(held[unit] for unit in heavy)
        alike = [unit for unit in heavy if held[unit] >= 0.98 * heaviest]
        opened = {
            path: path[: len(unit) + 1] if unit in alike and len(path) > len(unit) else unit
            for path, unit in unit_of.items()
        }
        closed.update(alike)  # what a module does itself cannot be opened further
        if len(set(opened.values())) <= MOST_SEGMENTS:
            unit_of = opened


def _share(unit: Path, most_stages: int) -> int:
    """A unit is light enough when it is one of so many. Members of a list of layers are better left whole."""
    is_layer = bool(unit) and unit[-1].isdigit()
    return most_stages if is_layer else UNITS_PER_STAGE * most_stages


def _join_neighbours(forward: Sequence[fx.Node], units: dict[Path, Path]) -> tuple[list[Segment], dict[fx.Node, int]]:
    """One segment for each run of nodes of one unit; a parent's own nodes belong to the run before."""
    found = set(units.values())
    parents = {unit for unit in found if any(other != unit and other[: len(unit)] == unit for other in found)}
    segments: list[Segment] = []
    segment_of: dict[fx.Node, int] = {}
    current: tuple[Path, str | None] | None = None
    early: list[fx.Node] = []  # a parent's nodes before its first child
    for node in forward:
        note = note_of(node)
        unit = units[_read_path(node)]
        key = (unit, note.block)
        if unit in parents and current is not None and note.block == current[1]:
            segment_of[node] = len(segments) - 1
            continue
        if unit in parents and current is None:
            early.append(node)
            continue
        if key != current:
            segments.append(Segment(len(segments), ".".join(unit), note.block))
            current = key
        segment_of[node] = len(segments) - 1
    if not segments:
        segments.append(Segment(0, "", None))
    segment_of.update(dict.fromkeys(early, 0))
    return segments, segment_of


def _follow_backward(backward: Sequence[fx.Node], segment_of: dict[fx.Node, int], count: int) -> None:
    """A backward node belongs with the op that it differentiates. Backward runs from the last segment to the first."""
    places: dict[tuple[object, ...], set[int]] = defaultdict(set)
    for node, index in segment_of.items():
        note = note_of(node)
        places[note.module, note.line, note.block].add(index)
    current = count - 1
    for node in backward:
        note = note_of(node)
        candidates = places.get((note.module, note.line, note.block), set())
        if candidates:
            before = [index for index in candidates if index <= current]
            current = max(before) if before else min(candidates)
        segment_of[node] = current


def _read_path(node: fx.Node) -> Path:
    module = note_of(node).module
    return tuple(module.replace("/", ".").split(".")) if module else ()


def _weigh(node: fx.Node) -> float:
    """A rough measure of work: the numbers that an op reads and writes, times the inner size of a product."""
    value = node.meta.get("val")
    results = value if isinstance(value, list | tuple) else (value,)
    size = float(sum(math.prod(result.shape) for result in results if isinstance(result, torch.Tensor)))
    name = str(node.target)
    if ".mm" in name or "addmm" in name or "bmm" in name or "linear" in name or "convolution" in name:
        shapes = [part.meta["val"].shape for part in node.all_input_nodes if hasattr(part.meta.get("val"), "shape")]
        if "convolution" in name and len(shapes) > 1:
            return size * float(math.prod(shapes[1][1:]))
        inner = max((shape[-1] for shape in shapes if len(shape) > 1), default=1)
        return size * float(inner)
    return size
