"""Does a profile from a file speak of what it holds?

In: a `Profile` whose values have their types. Out: nothing, or an error. Everything that names something else, an op, a
step, a variable, a tile, an IPU, must name one that is there, so that no report has to ask again.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from openipu.files.origin import Origin
from openipu.report.profile import Integers, PipelineRecord, Profile

_PHASES = {"forward", "backward", "update"}


def check_profile(profile: Profile, origin: Origin) -> None:
    """Refuse a profile that reports could not read to the end."""
    problem = next(iter(_find_problems(profile)), None)
    if problem is not None:
        raise origin.fail(f"is damaged: {problem}")


def _find_problems(profile: Profile) -> Iterable[str]:
    if not profile.memory:
        yield "it has no memory of any IPU"
    if profile.timing.clock_hz <= 0:
        yield "its clock stands still"
    yield from _check_ops(profile)
    yield from _check_steps(profile)
    yield from _check_variables(profile)
    yield from _check_memory(profile)
    yield from _check_tree(profile)
    if profile.pipeline is not None:
        yield from _check_pipeline(profile.pipeline, profile.system.ipus)


def _check_ops(profile: Profile) -> Iterable[str]:
    steps, variables = len(profile.steps), len(profile.variables)
    for index, op in enumerate(profile.ops):
        if op.index != index:
            yield f"op {index} has the number {op.index}"
        if op.step_count and op.first_step + op.step_count > steps:
            yield f"op {index} has steps that are not there"
        if op.phase not in _PHASES:
            yield f"op {index} is of the unknown phase {op.phase!r}"
        if any(place >= variables for place in (*op.reads, *op.writes)):
            yield f"op {index} speaks of variables that are not there"


def _check_steps(profile: Profile) -> Iterable[str]:
    steps, tiles = profile.steps, profile.system.target.tiles
    known = {*profile.vertex_code_bytes, ""}
    for name, values, limit in (
        ("ops", steps.op, len(profile.ops)),
        ("tiles", steps.tiles, tiles + 1),
        ("tiles", steps.first_tile, tiles),
        ("programs", steps.program, max(1, len(steps))),
        ("IPUs", steps.ipu, len(profile.memory)),
    ):
        if _exceeds(values, limit):
            yield f"steps speak of {name} that are not there"
    if any(step >= len(steps) for step in steps.by_tile):
        yield "tiles have cycles of steps that are not there"
    if not _PHASES.issuperset(steps.phase):
        yield "steps are of unknown phases"
    if not known.issuperset(steps.vertex):
        yield "steps run vertices that are not there"


def _check_variables(profile: Profile) -> Iterable[str]:
    tiles, ops = profile.system.target.tiles, len(profile.ops)
    for index, variable in enumerate(profile.variables):
        if variable.index != index:
            yield f"variable {index} has the number {variable.index}"
        if variable.first_tile >= tiles or variable.tiles > tiles:
            yield f"variable {index} lies on tiles that are not there"
        if any(not 0 <= tile < tiles for tile in variable.places):
            yield f"variable {index} lies on tiles that are not there"
        if variable.total_bytes and not (variable.grain_bytes and variable.tiles):
            yield f"variable {index} has bytes and no place for them"
        if variable.op is not None and variable.op >= ops:
            yield f"variable {index} is of an op that is not there"
        if variable.ipu >= len(profile.memory):
            yield f"variable {index} is on an IPU that is not there"


def _check_tree(profile: Profile) -> Iterable[str]:
    for index, program in enumerate(profile.tree):
        if program.index != index or not -1 <= program.parent < index:
            yield f"program {index} of its tree has no place there"
        if program.steps and not 0 <= program.first_step <= len(profile.steps) - program.steps:
            yield f"program {index} of its tree has steps that are not there"


def _check_memory(profile: Profile) -> Iterable[str]:
    tiles, steps, fit = profile.system.target.tiles, len(profile.steps), profile.fit
    for place, memory in enumerate(profile.memory):
        if memory.ipu != place or [*memory.categories] != [*profile.memory[0].categories]:
            yield f"the memory of IPU {place} is not whole"
        if len(memory.always_live) != tiles:
            yield f"IPU {place} has memory of {len(memory.always_live)} tiles instead of {tiles}"
        if steps and _exceeds(memory.peak_step_by_tile, steps):
            yield f"tiles of IPU {place} are full at steps that are not there"
    if fit.peak_tile >= tiles or fit.peak_ipu >= len(profile.memory):
        yield "its fullest tile is not there"


def _check_pipeline(pipeline: PipelineRecord, ipus: int) -> Iterable[str]:
    if not pipeline.stages:
        yield "its pipeline has no stages"
    for place, stage in enumerate(pipeline.stages):
        if stage.index != place or stage.ipu >= ipus or not (stage.forward or stage.backward):
            yield f"stage {place} of its pipeline is not whole"


def _exceeds(values: Integers, limit: int) -> bool:
    return bool(values.size and (int(values.max()) >= limit or int(np.min(values)) < -1))
