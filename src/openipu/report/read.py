"""Reads `profile.pop`.

In: the path of the file, or of the directory that holds it. Out: a `Profile`, from the file alone.
Everything that can be wrong with a file is a `ProfileError` that says what to do.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np

from openipu.errors import ProfileError
from openipu.machine import Provenance, Source, System, Target
from openipu.report.profile import (
    CulpritRecord,
    FitRecord,
    LineRecord,
    MemoryRecord,
    OpRecord,
    PipelineRecord,
    Profile,
    StageRecord,
    StepColumns,
    TimingRecord,
    VariableRecord,
)
from openipu.report.schema import APPLICATION_ID, FILE_NAME, SCHEMA_VERSION, unpack_series

Record = TypeVar("Record")

_WRITE_AGAIN = "Plan the program again to write a new one."


def read_profile(path: Path) -> Profile:
    """The profile of a file, or of `profile.pop` in a directory."""
    path = Path(path)
    if path.is_dir():
        path = path / FILE_NAME
    if not path.is_file():
        raise ProfileError(
            f"There is no profile at {path}. Give the path of a {FILE_NAME} or of the directory that holds one; "
            "a program writes its profile when it is compiled with profiling on."
        )
    address = f"file:{quote(str(path.resolve()))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            _check_header(connection, path)
            return _read_tables(connection)
    except (sqlite3.Error, zlib.error, ValueError, KeyError, TypeError, IndexError) as error:
        raise ProfileError(f"{path} is damaged, or is no profile: {error}. {_WRITE_AGAIN}") from error


def _check_header(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise ProfileError(
            f"{path} is a database, but not one that openipu wrote (a profile of another tool cannot be read). "
            + _WRITE_AGAIN
        )
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        advice = "Upgrade openipu to read it, or plan" if version > SCHEMA_VERSION else "Plan"
        raise ProfileError(
            f"{path} has version {version} of the profile format; this openipu reads version {SCHEMA_VERSION}. "
            f"{advice} the program again with this version."
        )
    finding = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if finding != "ok":
        raise ProfileError(f"{path} is damaged: {finding}. {_WRITE_AGAIN}")


def _read_tables(connection: sqlite3.Connection) -> Profile:
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    lines = {key: LineRecord(*line) for key, *line in connection.execute("SELECT * FROM source_lines")}
    return Profile(
        openipu_version=meta["openipu_version"],
        created=meta["created"],
        name=meta["name"],
        micro_batch=meta["micro_batch"],
        system=_read_system(connection),
        options={
            name: json.loads(text)
            for name, text in connection.execute("SELECT name, value_json FROM options ORDER BY id")
        },
        ops=tuple(_read_ops(connection, lines)),
        steps=_read_steps(connection),
        variables=tuple(_read_variables(connection)),
        memory=tuple(_read_memory(connection)),
        fit=_read_fit(connection, lines),
        timing=TimingRecord(*_read_single(connection, "timing")),
        guesses=dict(connection.execute("SELECT op, count FROM guesses ORDER BY id")),
        planning_seconds=meta["planning_seconds"],
        passes=dict(connection.execute("SELECT name, seconds FROM passes ORDER BY id")),
        warnings=tuple(text for (text,) in connection.execute("SELECT text FROM warnings ORDER BY id")),
        pipeline=_read_pipeline(connection),
        vertex_code_bytes=dict(connection.execute("SELECT name, code_bytes FROM vertex_types ORDER BY name")),
    )


def _make(kind: Callable[..., Record], *values: Any) -> Record:
    """A record from a row: the columns stand in the order of the fields."""
    return kind(*values)


def _read_single(connection: sqlite3.Connection, table: str) -> tuple[Any, ...]:
    rows: list[tuple[Any, ...]] = connection.execute(f"SELECT * FROM {table}").fetchall()
    if len(rows) != 1:
        raise ValueError(f"table {table} has {len(rows)} rows instead of one")
    return rows[0]


def _read_system(connection: sqlite3.Connection) -> System:
    values: dict[str, dict[str, Any]] = {"target": {}, "system": {}}
    sources: dict[str, dict[str, Source]] = {"target": {}, "system": {}}
    for scope, name, value, provenance, reference in connection.execute("SELECT * FROM figures"):
        values[scope][name] = value
        if provenance is not None:
            sources[scope][name] = Source(Provenance(provenance), reference)
    target = Target(**values["target"], sources=sources["target"])
    return System(**{**values["system"], "target": target}, sources=sources["system"])


def _read_ops(connection: sqlite3.Connection, lines: dict[int, LineRecord]) -> Iterable[OpRecord]:
    for row in connection.execute("SELECT * FROM ops ORDER BY id"):
        line = None if row[6] is None else lines[row[6]]
        plan, reads, writes = (json.loads(text) for text in row[-3:])
        yield _make(OpRecord, *row[:6], line, *row[7:-3], plan, tuple(reads), tuple(writes))


def _read_steps(connection: sqlite3.Connection) -> StepColumns:
    rows = connection.execute("SELECT * FROM steps ORDER BY id").fetchall()
    columns = list(zip(*rows, strict=True)) or [()] * 20
    _, kind, name, phase, cycles, tiles, moved_bytes, flops, op, *rest = columns
    whole = [np.array(column, dtype=np.int64) for column in (tiles, moved_bytes, flops)]
    ops = np.array([-1 if entry is None else entry for entry in op], dtype=np.int64)
    before, vertex, after = rest[:6], rest[6], rest[7:]
    numbers = [[np.array(column, dtype=np.int64) for column in part] for part in (before, after)]
    cycles_of_steps = np.array(cycles, dtype=np.float64)
    return _make(StepColumns, kind, name, phase, cycles_of_steps, *whole, ops, *numbers[0], vertex, *numbers[1])


def _read_variables(connection: sqlite3.Connection) -> Iterable[VariableRecord]:
    for row in connection.execute("SELECT * FROM variables ORDER BY id"):
        shape = tuple(json.loads(row[3]))
        yield _make(VariableRecord, *row[:3], shape, *row[4:9], bool(row[9]), *row[10:])


def _read_memory(connection: sqlite3.Connection) -> Iterable[MemoryRecord]:
    for ipu, all_tiles, fullest in connection.execute("SELECT * FROM live_by_step ORDER BY ipu").fetchall():
        rows = connection.execute(
            "SELECT always_live_bytes, peak_not_always_live_bytes, peak_step FROM memory_by_tile "
            "WHERE ipu = ? ORDER BY tile",
            (ipu,),
        ).fetchall()
        tiles = np.array(rows, dtype=np.int64).reshape(-1, 3)
        categories = connection.execute(
            "SELECT category, bytes_by_tile FROM memory_categories WHERE ipu = ? ORDER BY id", (ipu,)
        ).fetchall()
        yield MemoryRecord(
            ipu=ipu,
            always_live=tiles[:, 0].copy(),
            categories={category: unpack_series(blob) for category, blob in categories},
            peak_not_always_live=tiles[:, 1].copy(),
            peak_step_by_tile=tiles[:, 2].copy(),
            live_by_step=unpack_series(all_tiles),
            fullest_by_step=unpack_series(fullest),
        )


def _read_fit(connection: sqlite3.Connection, lines: dict[int, LineRecord]) -> FitRecord:
    culprits = tuple(
        _make(CulpritRecord, *row[1:-1], None if row[-1] is None else lines[row[-1]])
        for row in connection.execute("SELECT * FROM culprits ORDER BY id")
    )
    names = [field.name for field in dataclasses.fields(FitRecord) if field.name != "culprits"]
    values = dict(zip(names, _read_single(connection, "fit"), strict=True))
    return FitRecord(**{**values, "fits": bool(values["fits"])}, culprits=culprits)


def _read_pipeline(connection: sqlite3.Connection) -> PipelineRecord | None:
    if not connection.execute("SELECT count(*) FROM pipeline").fetchone()[0]:
        return None
    micro_batches, steady_cycles, steady_ticks = _read_single(connection, "pipeline")
    ticks: dict[str, list[float]] = {"fill": [], "drain": []}
    for part, cycles in connection.execute("SELECT part, cycles FROM pipeline_ticks ORDER BY part, place"):
        ticks[part].append(cycles)
    return PipelineRecord(
        stages=tuple(
            StageRecord(index, ipu, bool(forward), bool(backward), cycles)
            for index, ipu, forward, backward, cycles in connection.execute("SELECT * FROM pipeline_stages ORDER BY id")
        ),
        micro_batches=micro_batches,
        fill_cycles=tuple(ticks["fill"]),
        steady_cycles=steady_cycles,
        steady_ticks=steady_ticks,
        drain_cycles=tuple(ticks["drain"]),
    )
