"""Writes a plan or a profile as `profile.pop`.

In: a `Plan` (or a `Profile`) and a directory. Out: the path of a complete file; a reader never sees half of one.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openipu.files.documents import dump_json
from openipu.machine import System, Target
from openipu.report.atomic import write_aside
from openipu.report.convert import build_profile
from openipu.report.profile import LineRecord, Profile
from openipu.report.schema import APPLICATION_ID, FILE_NAME, INDEXES, SCHEMA_VERSION, TABLES, pack_series

if TYPE_CHECKING:
    from openipu.plan.types import Plan


def write_profile(plan: Plan | Profile, directory: Path) -> Path:
    """Write `directory/profile.pop`, replacing an older one in a single move."""
    profile = plan if isinstance(plan, Profile) else build_profile(plan)
    path = Path(directory) / FILE_NAME
    with write_aside(path) as part, closing(_connect(part)) as connection:
        _write_tables(connection, profile)
    return path


def _connect(part: Path) -> sqlite3.Connection:
    """A file of this process alone. SQLite's own locks would get into the way of the one that says who writes it."""
    return sqlite3.connect(f"{part.absolute().as_uri()}?nolock=1", uri=True)


def _write_tables(connection: sqlite3.Connection, profile: Profile) -> None:
    # No journal: a file that is not finished is thrown away as a whole.
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.executescript(TABLES)
    lines = _number_lines(profile)
    with connection:
        _insert(connection, "meta", _list_meta(profile).items())
        _insert(connection, "figures", _list_figures(profile.system))
        _insert(connection, "options", ((None, name, dump_json(value)) for name, value in profile.options.items()))
        _insert(connection, "source_lines", ((key, *_fields(line)) for line, key in lines.items()))
        _insert(connection, "ops", _list_ops(profile, lines))
        _insert(connection, "steps", _list_steps(profile))
        _insert(connection, "variables", _list_variables(profile))
        _insert(connection, "variable_tiles", _list_variable_tiles(profile))
        _insert(connection, "step_tiles", _list_step_tiles(profile))
        _insert(connection, "programs", (_fields(program) for program in profile.tree))
        _write_memory(connection, profile)
        fit = profile.fit
        _insert(connection, "fit", [tuple(value for value in _fields(fit) if not isinstance(value, tuple))])
        _insert(
            connection,
            "culprits",
            (
                (key, *_fields(culprit)[:-1], None if culprit.line is None else lines[culprit.line])
                for key, culprit in enumerate(fit.culprits)
            ),
        )
        _insert(connection, "timing", [_fields(profile.timing)])
        _write_pipeline(connection, profile)
        _write_advice(connection, profile)
        _insert(connection, "vertex_types", profile.vertex_code_bytes.items())
        _insert(connection, "guesses", ((key, *pair) for key, pair in enumerate(profile.guesses.items())))
        _insert(connection, "passes", ((key, *pair) for key, pair in enumerate(profile.passes.items())))
        _insert(connection, "warnings", enumerate(profile.warnings))
    connection.executescript(INDEXES)


def _insert(connection: sqlite3.Connection, table: str, rows: Any) -> None:
    rows = list(rows)
    if rows:
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)


def _fields(record: Any) -> tuple[Any, ...]:
    return tuple(getattr(record, field.name) for field in dataclasses.fields(record))


def _number_lines(profile: Profile) -> dict[LineRecord, int]:
    found = [op.line for op in profile.ops] + [culprit.line for culprit in profile.fit.culprits]
    unique = dict.fromkeys(line for line in found if line is not None)
    return {line: key for key, line in enumerate(unique)}


def _list_meta(profile: Profile) -> Mapping[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "openipu_version": profile.openipu_version,
        "created": profile.created,
        "name": profile.name,
        "micro_batch": profile.micro_batch,
        "planning_seconds": profile.planning_seconds,
        "modelled": "every figure is modelled by openipu (unofficial); nothing here was measured on an IPU",
    }


def _list_figures(system: System) -> Iterator[tuple[Any, ...]]:
    holders: tuple[tuple[str, System | Target], ...] = (("target", system.target), ("system", system))
    for scope, holder in holders:
        for field in dataclasses.fields(holder):
            if field.name == "sources":
                continue
            value = getattr(holder, field.name)
            source = holder.sources.get(field.name)
            origin = (source.provenance.value, source.reference) if source else (None, None)
            yield (scope, field.name, value.name if isinstance(value, Target) else value, *origin)


def _list_ops(profile: Profile, lines: Mapping[LineRecord, int]) -> Iterator[tuple[Any, ...]]:
    for op in profile.ops:
        before, after = _fields(op)[:6], _fields(op)[7:-3]
        line = None if op.line is None else lines[op.line]
        yield (*before, line, *after, *(dump_json(value) for value in (op.plan, op.reads, op.writes)))


def _list_steps(profile: Profile) -> Iterator[tuple[Any, ...]]:
    steps = profile.steps
    ops = (None if op < 0 else op for op in steps.op.tolist())
    columns = (steps.cycles, steps.tiles, steps.moved_bytes, steps.flops)
    rest = (steps.repeats, steps.per_call, steps.ipu, steps.stage, steps.program, steps.first_tile)
    code = (steps.vertices_per_tile, steps.state_bytes, steps.exchange_code_bytes, steps.control_code_bytes)
    return zip(
        range(len(steps)),
        steps.kind,
        steps.name,
        steps.phase,
        *(column.tolist() for column in columns),
        ops,
        *(column.tolist() for column in rest),
        steps.vertex,
        *(column.tolist() for column in code),
        strict=True,
    )


def _list_variables(profile: Profile) -> Iterator[tuple[Any, ...]]:
    for variable in profile.variables:
        fields = _fields(variable)[:-2]
        yield (*fields[:3], dump_json(list(variable.shape)), *fields[4:])


def _list_variable_tiles(profile: Profile) -> Iterator[tuple[Any, ...]]:
    for variable in profile.variables:
        if variable.places:
            places, held = (pack_series(np.array(values)) for values in (variable.places, variable.held))
            yield variable.index, len(variable.places), places, held


def _list_step_tiles(profile: Profile) -> Iterator[tuple[Any, ...]]:
    for step, tiles in profile.steps.by_tile.items():
        parts = (tiles.cycles, tiles.busy_cycles, tiles.vertices)
        yield step, tiles.executions, *(None if part is None else pack_series(part) for part in parts)


def _write_memory(connection: sqlite3.Connection, profile: Profile) -> None:
    for memory in profile.memory:
        columns = (memory.always_live, memory.peak_not_always_live, memory.peak_step_by_tile, memory.peak)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        _insert(connection, "memory_by_tile", ((memory.ipu, tile, *row) for tile, row in enumerate(rows)))
        _insert(
            connection,
            "memory_categories",
            (
                (None, memory.ipu, category, int(values.sum()), pack_series(values))
                for category, values in memory.categories.items()
            ),
        )
        series = (pack_series(memory.live_by_step), pack_series(memory.fullest_by_step))
        _insert(connection, "live_by_step", [(memory.ipu, *series)])


def _write_pipeline(connection: sqlite3.Connection, profile: Profile) -> None:
    """One row, with its stages and the ticks that differ from each other; no row where nothing is pipelined."""
    pipeline = profile.pipeline
    if pipeline is None:
        return
    _insert(connection, "pipeline", [(pipeline.micro_batches, pipeline.steady_cycles, pipeline.steady_ticks)])
    _insert(connection, "pipeline_stages", (_fields(stage) for stage in pipeline.stages))
    for part, ticks in (("fill", pipeline.fill_cycles), ("drain", pipeline.drain_cycles)):
        _insert(connection, "pipeline_ticks", ((part, place, cycles) for place, cycles in enumerate(ticks)))


def _write_advice(connection: sqlite3.Connection, profile: Profile) -> None:
    """One row, with its levers; no row where nothing was planned again."""
    advice = profile.advice
    if advice is None:
        return
    _insert(connection, "advice", [_fields(advice)[1:]])
    _insert(connection, "levers", ((key, *_fields(lever)[:-1]) for key, lever in enumerate(advice.levers)))
    words = ((key, *pair) for key, lever in enumerate(advice.levers) for pair in lever.words.items())
    _insert(connection, "lever_words", words)
