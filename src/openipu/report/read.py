"""Reads `profile.pop`.

In: the path of the file, or of the directory that holds it. Out: a `Profile`, from the file alone.
Everything that can be wrong with a file is a `ProfileError` that says what to do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from openipu.errors import ProfileError
from openipu.files.databases import Database, DatabaseFormat, open_database
from openipu.files.documents import parse_json
from openipu.files.origin import Origin
from openipu.files.values import Count, convert
from openipu.machine import Provenance, Source, System, Target, build_machine
from openipu.report import rows
from openipu.report.advice import AdviceRecord, LeverRecord
from openipu.report.consistency import check_profile
from openipu.report.profile import (
    CulpritRecord,
    FitRecord,
    LineRecord,
    MemoryRecord,
    OpRecord,
    PipelineRecord,
    Profile,
    ProgramRecord,
    StageRecord,
    StepColumns,
    StepTileRecord,
    TimingRecord,
    VariableRecord,
)
from openipu.report.schema import APPLICATION_ID, FILE_NAME, INDEXES, SCHEMA_VERSION, TABLES, unpack_series

Record = TypeVar("Record")

WRITE_AGAIN = "Plan the program again with this version of openipu to write a new one."
FORMAT = DatabaseFormat("profile", APPLICATION_ID, SCHEMA_VERSION, TABLES + INDEXES)


def read_profile(path: Path) -> Profile:
    """The profile of a file, or of `profile.pop` in a directory."""
    path = Path(path)
    if path.is_dir():
        path = path / FILE_NAME
    if not path.exists():
        raise ProfileError(
            f"There is no profile at {path}. Give the path of a {FILE_NAME} or of the directory that holds one; "
            "a program writes its profile when it is compiled with profiling on."
        )
    origin = Origin(str(path), ProfileError, WRITE_AGAIN)
    with open_database(path, FORMAT, origin) as database:
        try:
            profile = _Reader(database, origin).read()
        except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
            raise origin.fail(f"is damaged: {error!r}") from error
    check_profile(profile, origin)
    return profile


class _Reader:
    """One pass over the tables."""

    def __init__(self, database: Database, origin: Origin) -> None:
        self._database = database
        self._origin = origin
        self._lines = {
            key: LineRecord(*line) for key, *line in database.read("SELECT * FROM source_lines", rows.LineRow)
        }

    def read(self) -> Profile:
        meta = convert(dict(self._select("key, value FROM meta", rows.MetaRow)), rows.MetaValues, self._origin)
        options = {
            name: parse_json(text, Any, self._origin.within(f"option {name}"))
            for name, text in self._select("name, value_json FROM options ORDER BY id", rows.OptionRow)
        }
        convert(options, rows.KnownOptions, self._origin.within("table options"))
        system = self._read_system()
        steps = self._read_steps(system.target.tiles)
        return Profile(
            openipu_version=meta.openipu_version,
            created=meta.created,
            name=meta.name,
            micro_batch=meta.micro_batch,
            system=system,
            options=options,
            ops=tuple(self._read_ops()),
            steps=steps,
            variables=tuple(self._read_variables(system.target.tiles)),
            memory=tuple(self._read_memory(system.target.tiles, len(steps))),
            fit=self._read_fit(),
            timing=TimingRecord(*self._read_single("timing", rows.TimingRow)),
            guesses=dict(self._select("op, count FROM guesses ORDER BY id", rows.NumberRow)),
            planning_seconds=meta.planning_seconds,
            passes=dict(self._select("name, seconds FROM passes ORDER BY id", rows.SecondsRow)),
            warnings=tuple(text for (text,) in self._select("text FROM warnings ORDER BY id", tuple[str])),
            pipeline=self._read_pipeline(),
            vertex_code_bytes=dict(self._select("name, code_bytes FROM vertex_types ORDER BY name", rows.NumberRow)),
            tree=tuple(ProgramRecord(*row) for row in self._select("* FROM programs ORDER BY id", rows.ProgramRow)),
            advice=self._read_advice(),
        )

    def _select(self, query: str, row: Any, *parameters: object) -> list[Any]:
        return self._database.read(f"SELECT {query}", row, *parameters)

    def _read_single(self, table: str, row: Any) -> Any:
        found = self._select(f"* FROM {table}", row)
        if len(found) != 1:
            raise self._origin.fail(f"is damaged: table {table} has {len(found)} rows instead of one")
        return found[0]

    def _read_system(self) -> System:
        values: dict[str, dict[str, Any]] = {"target": {}, "system": {}}
        sources: dict[str, dict[str, Source]] = {"target": {}, "system": {}}
        for scope, name, value, provenance, reference in self._select("* FROM figures", rows.FigureRow):
            values[scope][name] = value
            if provenance is not None:
                sources[scope][name] = Source(Provenance(provenance), reference or "")
        place = self._origin.within("table figures")
        target = build_machine(Target, values["target"], sources["target"], place)
        return build_machine(System, {**values["system"], "target": target}, sources["system"], place)

    def _read_ops(self) -> Iterable[OpRecord]:
        for row in self._select("* FROM ops ORDER BY id", rows.OpRow):
            place = self._origin.within("table ops")
            line = None if row[6] is None else self._lines[row[6]]
            plan = parse_json(row[17], dict[str, Any], place)
            reads, writes = (tuple(parse_json(text, list[Count], place)) for text in row[18:])
            yield _make(OpRecord, *row[:6], line, *row[7:17], plan, reads, writes)

    def _read_steps(self, tile_count: int) -> StepColumns:
        found = self._select("* FROM steps ORDER BY id", rows.StepRow)
        columns: list[Any] = list(zip(*found, strict=True)) or [()] * 20
        _, kind, name, phase, cycles, tiles, moved_bytes, flops, op, *rest = columns
        whole = [np.array(column, dtype=np.int64) for column in (tiles, moved_bytes, flops)]
        ops = np.array([-1 if entry is None else entry for entry in op], dtype=np.int64)
        before, vertex, after = rest[:6], rest[6], rest[7:]
        numbers = [[np.array(column, dtype=np.int64) for column in part] for part in (before, after)]
        cycles_of_steps = np.array(cycles, dtype=np.float64)
        by_tile = {
            step: _make(
                StepTileRecord,
                executions,
                *(None if blob is None else unpack_series(blob, tile_count, self._origin) for blob in blobs),
            )
            for step, executions, *blobs in self._select("* FROM step_tiles ORDER BY step", rows.StepTilesRow)
        }
        ordered = (kind, name, phase, cycles_of_steps, *whole, ops, *numbers[0], vertex, *numbers[1])
        return _make(StepColumns, *ordered, by_tile)

    def _read_variables(self, tile_count: int) -> Iterable[VariableRecord]:
        own: dict[int, tuple[tuple[int, ...], ...]] = {}
        for variable, count, *blobs in self._select("* FROM variable_tiles", rows.VariableTilesRow):
            if count > tile_count:
                raise self._origin.fail(f"is damaged: variable {variable} lies on {count} of {tile_count} tiles")
            own[variable] = tuple(tuple(unpack_series(blob, count, self._origin).tolist()) for blob in blobs)
        for row in self._select("* FROM variables ORDER BY id", rows.VariableRow):
            shape = tuple(parse_json(row[3], list[Count], self._origin.within("table variables")))
            yield _make(VariableRecord, *row[:3], shape, *row[4:9], bool(row[9]), *row[10:], *own.get(row[0], ((), ())))

    def _read_memory(self, tiles: int, steps: int) -> Iterable[MemoryRecord]:
        for ipu, all_tiles, fullest in self._select("* FROM live_by_step ORDER BY ipu", rows.LiveRow):
            query = "always_live_bytes, peak_not_always_live_bytes, peak_step FROM memory_by_tile"
            by_tile = self._select(f"{query} WHERE ipu = ? ORDER BY tile", rows.TileRow, ipu)
            columns = np.array(by_tile, dtype=np.int64).reshape(-1, 3)
            query = "category, bytes_by_tile FROM memory_categories WHERE ipu = ? ORDER BY id"
            categories = self._select(query, rows.CategoryRow, ipu)
            yield MemoryRecord(
                ipu=ipu,
                always_live=columns[:, 0].copy(),
                categories={category: unpack_series(blob, tiles, self._origin) for category, blob in categories},
                peak_not_always_live=columns[:, 1].copy(),
                peak_step_by_tile=columns[:, 2].copy(),
                live_by_step=unpack_series(all_tiles, steps, self._origin),
                fullest_by_step=unpack_series(fullest, steps, self._origin),
            )

    def _read_fit(self) -> FitRecord:
        culprits = tuple(
            _make(CulpritRecord, *row[1:-1], None if row[-1] is None else self._lines[row[-1]])
            for row in self._select("* FROM culprits ORDER BY id", rows.CulpritRow)
        )
        names = [field.name for field in dataclasses.fields(FitRecord) if field.name != "culprits"]
        values: dict[str, Any] = dict(zip(names, self._read_single("fit", rows.FitRow), strict=True))
        return FitRecord(**{**values, "fits": bool(values["fits"])}, culprits=culprits)

    def _read_pipeline(self) -> PipelineRecord | None:
        if not self._select("micro_batches FROM pipeline", tuple[Count]):
            return None
        micro_batches, steady_cycles, steady_ticks = self._read_single("pipeline", rows.PipelineRow)
        ticks: dict[str, list[float]] = {"fill": [], "drain": []}
        for part, _, cycles in self._select("* FROM pipeline_ticks ORDER BY part, place", rows.TickRow):
            ticks[part].append(cycles)
        return PipelineRecord(
            stages=tuple(
                StageRecord(index, ipu, bool(forward), bool(backward), cycles)
                for index, ipu, forward, backward, cycles in self._select(
                    "* FROM pipeline_stages ORDER BY id", rows.StageRow
                )
            ),
            micro_batches=micro_batches,
            fill_cycles=tuple(ticks["fill"]),
            steady_cycles=steady_cycles,
            steady_ticks=steady_ticks,
            drain_cycles=tuple(ticks["drain"]),
        )

    def _read_advice(self) -> AdviceRecord | None:
        if not self._select("front_end FROM advice", tuple[str]):
            return None
        words: dict[int, dict[str, str]] = {}
        for lever, front_end, line in self._select("* FROM lever_words ORDER BY lever, front_end", rows.WordsRow):
            words.setdefault(lever, {})[front_end] = line
        levers = tuple(
            _make(LeverRecord, title, bool(fits), *figures, words.get(index, {}))
            for index, title, fits, *figures in self._select("* FROM levers ORDER BY id", rows.LeverRow)
        )
        return _make(AdviceRecord, levers, *self._read_single("advice", rows.AdviceRow))


def _make(kind: Callable[..., Record], *values: Any) -> Record:
    """A record from a row: the columns stand in the order of the fields."""
    return kind(*values)
