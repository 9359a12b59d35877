"""The tables of `profile.pop`: an SQLite 3 database of openipu's own, versioned.

Rows where people will query (ops, steps, variables, tiles); compressed blobs for the two long series by step.
A change of any table raises `SCHEMA_VERSION`; `read` accepts that version alone.
"""

from __future__ import annotations

import zlib

import numpy as np

from openipu.files.origin import Origin
from openipu.files.series import inflate
from openipu.report.profile import Integers

SCHEMA_VERSION = 5
APPLICATION_ID = 0x4F495055  # "OIPU", in the header of the file: tells ours from other SQLite files
FILE_NAME = "profile.pop"

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE figures (
    scope TEXT NOT NULL CHECK (scope IN ('target', 'system')),
    name TEXT NOT NULL, value, provenance TEXT, reference TEXT,
    PRIMARY KEY (scope, name)
) WITHOUT ROWID;
CREATE TABLE options (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, value_json TEXT NOT NULL);
CREATE TABLE source_lines (
    id INTEGER PRIMARY KEY, file TEXT NOT NULL, line INTEGER NOT NULL, function TEXT NOT NULL
);
CREATE TABLE ops (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, op TEXT NOT NULL, family TEXT NOT NULL, phase TEXT NOT NULL,
    module TEXT NOT NULL, source_line INTEGER REFERENCES source_lines (id),
    cycles REAL NOT NULL, flops INTEGER NOT NULL, moved_bytes INTEGER NOT NULL,
    scratch_bytes_per_tile INTEGER NOT NULL, first_step INTEGER NOT NULL, step_count INTEGER NOT NULL,
    provenance TEXT NOT NULL, basis TEXT NOT NULL, ipu INTEGER NOT NULL, stage INTEGER NOT NULL,
    plan_json TEXT NOT NULL, reads_json TEXT NOT NULL, writes_json TEXT NOT NULL
);
CREATE TABLE steps (
    id INTEGER PRIMARY KEY, type TEXT NOT NULL, program TEXT NOT NULL, phase TEXT NOT NULL,
    cycles REAL NOT NULL, tiles INTEGER NOT NULL, moved_bytes INTEGER NOT NULL, flops INTEGER NOT NULL,
    op INTEGER REFERENCES ops (id), repeats INTEGER NOT NULL, per_call INTEGER NOT NULL, ipu INTEGER NOT NULL,
    stage INTEGER NOT NULL, code_program INTEGER NOT NULL, first_tile INTEGER NOT NULL, vertex TEXT NOT NULL,
    vertices_per_tile INTEGER NOT NULL, state_bytes INTEGER NOT NULL, exchange_code_bytes INTEGER NOT NULL,
    control_code_bytes INTEGER NOT NULL
);
CREATE TABLE vertex_types (name TEXT PRIMARY KEY, code_bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE variables (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, shape_json TEXT NOT NULL, dtype TEXT NOT NULL,
    first_tile INTEGER NOT NULL, tiles INTEGER NOT NULL, total_bytes INTEGER NOT NULL, grain_bytes INTEGER NOT NULL,
    always_live INTEGER NOT NULL, first_step INTEGER NOT NULL, last_step INTEGER NOT NULL,
    op INTEGER REFERENCES ops (id), ipu INTEGER NOT NULL
);
CREATE TABLE variable_tiles (
    variable INTEGER PRIMARY KEY REFERENCES variables (id), count INTEGER NOT NULL, places BLOB NOT NULL,
    held_bytes BLOB NOT NULL
);
CREATE TABLE step_tiles (
    step INTEGER PRIMARY KEY REFERENCES steps (id), executions INTEGER NOT NULL, cycles BLOB NOT NULL,
    busy_cycles BLOB, vertices BLOB
);
CREATE TABLE programs (
    id INTEGER PRIMARY KEY, type TEXT NOT NULL, name TEXT NOT NULL, parent INTEGER NOT NULL, count INTEGER NOT NULL,
    first_step INTEGER NOT NULL, steps INTEGER NOT NULL
);
CREATE TABLE memory_by_tile (
    ipu INTEGER NOT NULL, tile INTEGER NOT NULL, always_live_bytes INTEGER NOT NULL,
    peak_not_always_live_bytes INTEGER NOT NULL, peak_step INTEGER NOT NULL, total_bytes INTEGER NOT NULL,
    PRIMARY KEY (ipu, tile)
) WITHOUT ROWID;
CREATE TABLE memory_categories (
    id INTEGER PRIMARY KEY, ipu INTEGER NOT NULL, category TEXT NOT NULL, total_bytes INTEGER NOT NULL,
    bytes_by_tile BLOB NOT NULL, UNIQUE (ipu, category)
);
CREATE TABLE live_by_step (
    ipu INTEGER PRIMARY KEY, all_tiles_bytes BLOB NOT NULL, fullest_tile_bytes BLOB NOT NULL
);
CREATE TABLE fit (
    fits INTEGER NOT NULL, limit_bytes INTEGER NOT NULL, peak_bytes INTEGER NOT NULL, peak_tile INTEGER NOT NULL,
    peak_ipu INTEGER NOT NULL, peak_step INTEGER NOT NULL, tiles_over INTEGER NOT NULL,
    bytes_over INTEGER NOT NULL, needed_bytes INTEGER NOT NULL
);
CREATE TABLE culprits (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, bytes_on_tile INTEGER NOT NULL,
    bytes_total INTEGER NOT NULL, module TEXT NOT NULL, source_line INTEGER REFERENCES source_lines (id)
);
CREATE TABLE timing (
    micro_cycles REAL NOT NULL, update_cycles REAL NOT NULL, host_cycles REAL NOT NULL, call_cycles REAL NOT NULL,
    clock_hz REAL NOT NULL, samples_per_call INTEGER NOT NULL, guessed_cycles REAL NOT NULL
);
CREATE TABLE pipeline (
    micro_batches INTEGER NOT NULL, steady_cycles REAL NOT NULL, steady_ticks INTEGER NOT NULL
);
CREATE TABLE pipeline_stages (
    id INTEGER PRIMARY KEY, ipu INTEGER NOT NULL, forward INTEGER NOT NULL, backward INTEGER NOT NULL,
    cycles REAL NOT NULL
);
CREATE TABLE pipeline_ticks (
    part TEXT NOT NULL CHECK (part IN ('fill', 'drain')), place INTEGER NOT NULL, cycles REAL NOT NULL,
    PRIMARY KEY (part, place)
) WITHOUT ROWID;
CREATE TABLE advice (
    front_end TEXT NOT NULL, not_tried TEXT NOT NULL, plans_made INTEGER NOT NULL, seconds REAL NOT NULL
);
CREATE TABLE levers (
    id INTEGER PRIMARY KEY, title TEXT NOT NULL, fits INTEGER NOT NULL, peak_tile_bytes INTEGER NOT NULL,
    saved_tile_bytes INTEGER NOT NULL, saved_bytes INTEGER NOT NULL, paid_ipu_cycles_per_sample REAL NOT NULL,
    slowdown REAL
);
CREATE TABLE lever_words (
    lever INTEGER NOT NULL REFERENCES levers (id), front_end TEXT NOT NULL, line TEXT NOT NULL,
    PRIMARY KEY (lever, front_end)
) WITHOUT ROWID;
CREATE TABLE guesses (id INTEGER PRIMARY KEY, op TEXT NOT NULL UNIQUE, count INTEGER NOT NULL);
CREATE TABLE passes (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, seconds REAL NOT NULL);
CREATE TABLE warnings (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
"""

# Made after the rows: an index over a full table is quicker to build than to keep.
INDEXES = """
CREATE INDEX steps_by_op ON steps (op);
CREATE INDEX variables_by_life ON variables (first_step, last_step);
CREATE INDEX ops_by_module ON ops (module);
"""


def pack_series(values: Integers) -> bytes:
    """A long series as a blob: zlib of little-endian int64."""
    return zlib.compress(np.ascontiguousarray(values, dtype="<i8").tobytes(), 6)


def unpack_series(blob: bytes, length: int, origin: Origin) -> Integers:
    """The series of a blob, which must have this length."""
    content = inflate(blob, origin, 8 * length)
    if len(content) != 8 * length:
        raise origin.fail(f"is damaged: a series has {len(content) // 8} entries instead of {length}")
    return np.frombuffer(content, dtype="<i8").astype(np.int64)
