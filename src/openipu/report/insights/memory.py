"""Insights on memory: what fills the fullest tile, how even tiles and IPUs are, how much of a tile is code.

In: a `Case`. Out: `Finding`s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from openipu.report.advice import NOT_PLANNED
from openipu.report.insights.finding import EVIDENCE_SHOWN, Case, Evidence, Finding, Level, join_names
from openipu.report.profile import VariableRecord
from openipu.report.units import format_bytes, format_share, format_tile_bytes

NEARLY_FULL = 0.85
UNEVEN = 1.3
CODE_SHARE = 0.35

# What helps against a kind of memory, in the words of the options that do it.
REMEDIES = {
    "activation": "Recompute activations in backward (checkpointing), take a smaller micro-batch with more gradient "
    "accumulation, "
    "or spread the layers over more IPUs.",
    "pipeline stash": "Recompute activations per stage, so that only the input of each stage is stashed; fewer "
    "stages also stash less.",
    "parameter": "Keep parameters in half precision, share them between replicas, or spread the layers over more IPUs.",
    "optimizer state": "Keep the optimizer state off chip, share it between replicas (replicated tensor sharding), "
    "or take an optimizer with less state.",
    "gradient accumulator": "Accumulate gradients in half precision, keep accumulators off chip, or do without "
    "gradient accumulation.",
    "gradient": "Take a smaller micro-batch with more gradient accumulation, or spread the layers over more IPUs.",
    "copy": "Keep one layout through the model, so that ops need no copies of their inputs; take a smaller "
    "micro-batch, or spread the layers over more IPUs.",
    "scratch": "Lower the available-memory proportion, so that matmuls and convolutions take more steps with smaller "
    "temporaries.",
    "host stream buffer": "Send less in one call: fewer device iterations, a narrower number format, or smaller "
    "outputs.",
    "code": "Make layers equal, so that they share one program: the same shapes and number formats, and blocks that "
    "repeat.",
}
OWN_MAPPING = (
    "The program maps its tensors and vertices to tiles itself, so no option moves them: spread the largest over more "
    "tiles, or give library calls a lower available-memory proportion."
)
OTHERWISE = "Take a smaller micro-batch, half precision, or more IPUs."


def explain_fullest_tile(case: Case) -> Iterator[Finding]:
    """What the fullest tile holds at its worst step."""
    profile, fit = case.profile, case.profile.fit
    if not fit.limit_bytes or not fit.peak_bytes:
        return
    tiles, share = profile.system.target.tiles, fit.peak_bytes / fit.limit_bytes
    held = _list_held(profile.variables, fit.peak_ipu, fit.peak_tile, fit.peak_step, tiles)
    by_kind: Counter[str] = Counter()
    for size, variable in held:
        by_kind[profile.kind_of(variable)] += size
    memory = next((entry for entry in profile.memory if entry.ipu == fit.peak_ipu), None)
    if memory is not None:
        by_kind["code"] = sum(int(values[fit.peak_tile]) for values in memory.categories.values())
    parts = [(kind, size) for kind, size in by_kind.most_common(3) if size]
    link: dict[str, int | str] = {"view": "memory", "tile": fit.peak_tile}
    if len(profile.memory) > 1:
        link["ipu"] = next(place for place, entry in enumerate(profile.memory) if entry.ipu == fit.peak_ipu)
    where = f"tile {fit.peak_tile} of IPU {fit.peak_ipu}"
    if not fit.fits:
        level = Level.PROBLEM
        title = f"Does not fit: the fullest tile needs {format_tile_bytes(fit.bytes_over_worst_tile)} more than it has"
    else:
        level = Level.ADVICE if share > NEARLY_FULL else Level.NOTE
        title = f"The fullest tile uses {format_share(share)} of its memory"
    listed = join_names(f"{kind} {format_tile_bytes(size)}" for kind, size in parts)
    yield Finding(
        rule="fullest-tile",
        topic="memory",
        level=level,
        title=title,
        value=float(fit.peak_bytes),
        unit="bytes",
        cause=f"At step {fit.peak_step}, {where} holds {format_tile_bytes(fit.peak_bytes)} of "
        f"{format_tile_bytes(fit.limit_bytes)}: most of it {listed}.",
        remedy=_find_remedy(parts, level) if fit.fits else _find_way_to_fit(case, parts),
        link=link,
        evidence=tuple(
            Evidence(
                variable.name,
                f"{format_tile_bytes(size)} ({profile.kind_of(variable)})",
                _find_line(case, variable),
                {"view": "liveness", "step": fit.peak_step, "tile": fit.peak_tile, **_pick(link, "ipu")},
            )
            for size, variable in held[:EVIDENCE_SHOWN]
        ),
    )


def compare_tiles(case: Case) -> Iterator[Finding]:
    """A tile that is much fuller than the mean of its IPU fails first, while others have room."""
    profile, limit = case.profile, case.profile.fit.limit_bytes
    tiles = profile.system.target.tiles
    for place, memory in enumerate(profile.memory):
        peak = memory.peak
        mean, tile = float(peak.mean()), int(peak.argmax())
        worst = int(peak[tile])
        if not mean or worst < UNEVEN * mean or worst < limit / 2:
            continue
        held = _list_held(profile.variables, memory.ipu, tile, int(memory.peak_step_by_tile[tile]), tiles)
        uneven = [(size - v.total_bytes / tiles, size, v) for size, v in held]
        uneven.sort(key=lambda entry: -entry[0])
        shown = [entry for entry in uneven[:EVIDENCE_SHOWN] if entry[0] > 0]
        few = join_names(f"{variable.name} (on {variable.tiles:,} tiles)" for _, _, variable in shown[:2])
        yield Finding(
            rule="uneven-tiles",
            topic="memory",
            level=Level.ADVICE,
            title=f"Tile {tile} of IPU {memory.ipu} holds {worst / mean:.1f}x the mean of its IPU",
            value=worst / mean,
            unit="ratio",
            cause=f"{format_tile_bytes(worst)} against {format_tile_bytes(mean)}; the largest that lie unevenly: "
            f"{few or 'code'}.",
            remedy="Dimensions with few or large grains spread badly: pad or reshape them so that they divide over "
            "many "
            "tiles, or reserve fewer tiles for input and output.",
            link={"view": "memory", "tile": tile, **({"ipu": place} if len(profile.memory) > 1 else {})},
            evidence=tuple(
                Evidence(
                    variable.name,
                    f"{format_tile_bytes(size)} here, "
                    f"{format_tile_bytes(variable.total_bytes / tiles)} if spread evenly",
                    _find_line(case, variable),
                )
                for _, size, variable in shown
            ),
        )


def compare_ipus(case: Case) -> Iterator[Finding]:
    """IPUs of one program that hold very different amounts."""
    profile = case.profile
    needed = {memory.ipu: int(memory.peak.sum()) for memory in profile.memory}
    if len(needed) < 2:
        return
    mean = sum(needed.values()) / len(needed)
    fullest = max(needed, key=lambda ipu: needed[ipu])
    emptiest = min(needed, key=lambda ipu: needed[ipu])
    if not mean or needed[fullest] < UNEVEN * mean:
        return
    room = profile.fit.limit_bytes * profile.system.target.tiles
    yield Finding(
        rule="uneven-ipus",
        topic="memory",
        level=Level.ADVICE if needed[fullest] > room / 2 else Level.NOTE,
        title=f"IPU {fullest} needs {needed[fullest] / mean:.1f}x the memory of the mean IPU",
        value=needed[fullest] / mean,
        unit="ratio",
        cause=f"IPU {fullest} needs {format_bytes(needed[fullest])}, IPU {emptiest} only "
        f"{format_bytes(needed[emptiest])}.",
        remedy=f"Move layers from IPU {fullest} to IPU {emptiest}: early stages of a pipeline also stash more.",
        link={"view": "memory"},
        evidence=tuple(
            Evidence(f"IPU {ipu}", format_bytes(size), "", {"view": "memory", "ipu": place})
            for place, (ipu, size) in enumerate(needed.items())
        ),
    )


def weigh_code(case: Case) -> Iterator[Finding]:
    """Code that takes much of the fullest tile: a program with many different ops."""
    profile, fit = case.profile, case.profile.fit
    memory = next((entry for entry in profile.memory if entry.ipu == fit.peak_ipu), None)
    if memory is None or not fit.limit_bytes:
        return
    parts = sorted(((int(values[fit.peak_tile]), name) for name, values in memory.categories.items()), reverse=True)
    code = sum(size for size, _ in parts)
    if code < CODE_SHARE * fit.limit_bytes:
        return
    programs = len(set(profile.steps.program[profile.steps.program >= 0].tolist()))
    yield Finding(
        rule="much-code",
        topic="memory",
        level=Level.ADVICE,
        title=f"Code and its descriptors fill {format_share(code / fit.limit_bytes)} of the fullest tile",
        value=float(code),
        unit="bytes",
        cause=f"{programs:,} different programs for {len(profile.steps):,} steps; most bytes: {parts[0][1]}.",
        remedy=REMEDIES["code"],
        link={"view": "programs"},
        evidence=tuple(Evidence(name, format_bytes(size)) for size, name in parts if size),
    )


def _find_remedy(parts: list[tuple[str, int]], level: Level) -> str:
    if level is Level.NOTE:
        return "There is room: a larger micro-batch, or a higher available-memory proportion, may run faster."
    return REMEDIES.get(parts[0][0], OTHERWISE) if parts else OTHERWISE


def _find_way_to_fit(case: Case, parts: list[tuple[str, int]]) -> str:
    """What the levers say where they were planned: a rule of thumb must not contradict them."""
    if case.profile.advice is not None:
        return case.profile.advice.verdict
    if case.profile.tree:
        return OWN_MAPPING
    return f"{_find_remedy(parts, Level.PROBLEM)} {NOT_PLANNED}"


def _list_held(
    variables: tuple[VariableRecord, ...], ipu: int, tile: int, step: int, tiles: int
) -> list[tuple[int, VariableRecord]]:
    """What a tile holds at a step, largest first."""
    held = [
        (variable.bytes_on_tile(tile, tiles), variable)
        for variable in variables
        if variable.ipu == ipu and (variable.always_live or variable.first_step <= step <= variable.last_step)
    ]
    return sorted((entry for entry in held if entry[0]), key=lambda entry: -entry[0])


def _find_line(case: Case, variable: VariableRecord) -> str:
    return "" if variable.op is None else str(case.profile.ops[variable.op].line or "")


def _pick(link: dict[str, int | str], name: str) -> dict[str, int | str]:
    return {name: link[name]} if name in link else {}
