"""Cuts a captured program into pipeline stages.

In: a program whose notes say which module each op is of, and a number of stages or of layers a stage. Out: the same
program with stage and IPU in its notes. The chain of units is what stands in `layers`; some come before and after.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from torch import fx

from openipu.graph import NOTE, InputKind, Phase, Program, note_of
from openipu.plan import Plan
from openipu.plan.lowering.recompute import CHECKPOINT

TABLE_WEIGHT = 1.5
_CHAIN = "layers"
_ATTENTION, _FEED = "attention", "feed"
_HALVES = {
    "attention": _ATTENTION,
    "norm_attention": _ATTENTION,
    "widen": _FEED,
    "narrow": _FEED,
    "norm_output": _FEED,
}


def list_units(program: Program, *, halves: bool = False) -> list[str]:
    """The units of forward in order: "words", "layers.0", "layers.1", …, "classify"; or with layers in two halves."""
    units: list[str] = []
    for node in program.micro.module.graph.nodes:
        note = note_of(node)
        if node.op == "call_function" and note.phase is Phase.FORWARD and note.module:
            unit = name_unit(note.module, halves=halves)
            if unit and unit not in units:
                units.append(unit)
    return units


def name_unit(module: str, *, halves: bool = False) -> str:
    """The unit that a module belongs to: a layer of the chain, or a half of one, else the outermost module.

    What belongs to a layer but to neither half stands between the two: it goes with its neighbours, and has no unit.
    """
    parts = [part for part in module.split(".") if part != "body"]
    if not parts:
        return ""
    if parts[0] != _CHAIN or len(parts) == 1:
        return parts[0]
    layer = ".".join(parts[:2])
    if not halves:
        return layer
    half = _HALVES.get(parts[2] if len(parts) > 2 else "")
    return f"{layer}.{half}" if half else ""


def split_by_layers(units: Sequence[str], layers_per_stage: Sequence[int]) -> list[int]:
    """The stage of each unit: so many layers each; what comes before goes to the first, what follows to the last."""
    stages: list[int] = []
    ends = [sum(layers_per_stage[: stage + 1]) for stage in range(len(layers_per_stage))]
    done = 0
    for unit in units:
        if unit.startswith(f"{_CHAIN}."):
            stage = next(number for number, end in enumerate(ends) if done < end or number == len(ends) - 1)
            done += 1
        else:
            stage = 0 if done == 0 else len(ends) - 1
        stages.append(max(stage, stages[-1] if stages else 0))
    return stages


def split_by_parts(units: Sequence[str], parts_per_stage: Sequence[tuple[int, int]]) -> list[int]:
    """The stage of each unit: so many attention and feed-forward parts each; the rest as in `split_by_layers`."""
    ends = [
        {
            _ATTENTION: sum(part[0] for part in parts_per_stage[: stage + 1]),
            _FEED: sum(part[1] for part in parts_per_stage[: stage + 1]),
        }
        for stage in range(len(parts_per_stage))
    ]
    done = {_ATTENTION: 0, _FEED: 0}
    stages: list[int] = []
    for unit in units:
        if unit.startswith(f"{_CHAIN}."):
            half = unit.rsplit(".", 1)[1]
            stage = next(number for number, end in enumerate(ends) if done[half] < end[half] or end is ends[-1])
            done[half] += 1
        else:
            stage = len(ends) - 1 if any(done.values()) else 0
        stages.append(max(stage, stages[-1] if stages else 0))
    return stages


def split_by_cost(costs: Sequence[float], count: int, first_extra: float = 0.0) -> list[int]:
    """The stage of each unit so that the costliest stage is as cheap as can be: neighbours stay together.

    `first_extra` is what the first stage has to carry besides.
    """
    total = [0.0]
    for cost in costs:
        total.append(total[-1] + cost)
    best = [[float("inf")] * (count + 1) for _ in range(len(costs) + 1)]
    cut = [[0] * (count + 1) for _ in range(len(costs) + 1)]
    best[0][0] = 0.0
    for end in range(1, len(costs) + 1):
        for stages in range(1, min(count, end) + 1):
            for start in range(stages - 1, end):
                carried = total[end] - total[start] + (first_extra if stages == 1 else 0.0)
                worst = max(best[start][stages - 1], carried)
                if worst < best[end][stages]:
                    best[end][stages], cut[end][stages] = worst, start
    stages, end = min(count, len(costs)), len(costs)
    result = [0] * len(costs)
    while stages:
        start = cut[end][stages]
        result[start:end] = [stages - 1] * (end - start)
        stages, end = stages - 1, start
    return result


def weigh_units(plan: Plan, program: Program, units: Sequence[str]) -> list[float]:
    """Each unit's share of all cycles plus its share of all weights: an IPU has to have time and room for it."""
    cycles, weights = dict.fromkeys(units, 0.0), dict.fromkeys(units, 0.0)
    for op in plan.ops:
        unit = name_unit(op.module)
        if op.phase is not Phase.UPDATE and unit in cycles:
            cycles[unit] += op.cycles
    for entry in program.micro.inputs:
        unit = name_unit(entry.name)
        if entry.kind is InputKind.PARAMETER and unit in weights:
            weights[unit] += math.prod(entry.shape)
    all_cycles, all_weights = sum(cycles.values()) or 1.0, sum(weights.values()) or 1.0
    return [cycles[unit] / all_cycles + weights[unit] / all_weights for unit in units]


def weigh_memory(program: Program, units: Sequence[str]) -> list[float]:
    """Each unit's weights. A table outside the chain counts more: its gradient comes from both ends of the model."""
    weights = dict.fromkeys(units, 0.0)
    for entry in program.micro.inputs:
        unit = name_unit(entry.name)
        if entry.kind is InputKind.PARAMETER and unit in weights:
            weights[unit] += math.prod(entry.shape) * (1.0 if unit.startswith(f"{_CHAIN}.") else TABLE_WEIGHT)
    return [weights[unit] for unit in units]


def find_end_of_chain(units: Sequence[str]) -> int:
    """How many units come before what follows the chain."""
    return 1 + max((index for index, unit in enumerate(units) if unit.startswith(f"{_CHAIN}.")), default=len(units) - 1)


def return_to_start(units: Sequence[str], stages: Sequence[int]) -> list[int]:
    """What follows the chain as one more stage: it shares the first IPU, and its weights, with what comes before."""
    end = find_end_of_chain(units)
    return [stage if index < end else max(stages[:end]) + 1 for index, stage in enumerate(stages)]


def place_on_stages(
    program: Program, units: Sequence[str], stages: Sequence[int], ipus: int = 0, *, halves: bool = False
) -> Program:
    """Write stage and IPU into the notes; an op outside all modules goes with its neighbours.

    With more stages than `ipus` the rest begins at the first IPU again.
    """
    of_unit = dict(zip(units, stages, strict=True))
    current = 0
    for node in program.micro.module.graph.nodes:
        current = _place_node(node, of_unit, current, ipus or max(stages, default=0) + 1, halves)
    return program


def _place_node(node: fx.Node, of_unit: dict[str, int], current: int, ipus: int, halves: bool) -> int:
    note = note_of(node)
    unit = name_unit(note.module, halves=halves)
    stage = of_unit.get(unit, current)
    if note.phase is Phase.FORWARD:
        stage = max(stage, current)
    if node.op == "call_function":
        node.meta[NOTE] = replace(note, stage=stage, ipu=stage % ipus)
        return stage
    return current


def mark_checkpoints(program: Program) -> None:
    """Keep what a layer reads or leaves, as the public applications do: backward makes one layer at a time again.

    What comes before the layers, and what follows them, is made again in one go. A model without layers has its
    outermost modules instead.
    """
    has_layers = any(_is_layer(unit) for unit in list_units(program))
    for node in program.micro.module.graph.nodes:
        note = note_of(node)
        if node.op != "call_function" or note.phase is not Phase.FORWARD:
            continue
        part = _name_part(note.module, has_layers)
        readers = [user for user in node.users if note_of(user).phase is Phase.FORWARD]
        if any(_name_part(note_of(user).module, has_layers) != part for user in readers):
            node.meta[NOTE] = replace(note, attributes={**note.attributes, CHECKPOINT: True})


def _is_layer(unit: str) -> bool:
    return unit.startswith(f"{_CHAIN}.")


def _name_part(module: str, has_layers: bool) -> str:
    """What is made again in one go with a module: its layer, or everything that is in no layer."""
    unit = name_unit(module)
    return unit if _is_layer(unit) or not has_layers else ""
