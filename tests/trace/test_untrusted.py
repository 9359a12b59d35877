"""Traces from somebody else are shown or refused."""

import os
import sqlite3
from contextlib import closing

import pytest

from openipu.errors import TraceError
from openipu.trace import RUN, find_recorder, mark_moment, stop_tracing
from openipu.trace.read import read_trace

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS tid, 'x' AS name FROM n"


@pytest.fixture
def path(record):
    directory = record()
    mark_moment(RUN, "first")
    find_recorder().add_sample("memory", "host", "MB", float("inf"))
    find_recorder().add_histogram("latency", [0.0, 1.0, 2.0], "us", [3, 4])
    stop_tracing()
    (found,) = directory.iterdir()
    return found


def change(path, *statements):
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        (
            ["DROP TABLE threads", f"CREATE VIEW threads AS {ENDLESS}"],
            "threads is missing, or is not as openipu makes it",
        ),
        (["UPDATE events SET label = 99"], "a name that is not in the file"),
        (["UPDATE events SET start_ns = -5"], "Expected `int` >= 0"),
        (["UPDATE events SET start_ns = 9223372036854775807"], "Expected `int` <="),
        (["UPDATE events SET details_json = '{'"], "details of an event, is not JSON"),
        (["UPDATE heatmaps SET edges_json = '[1]'"], "as many entries as the edges say"),
        (["UPDATE histograms SET counts_json = '[1e999]'"], "table heatmaps"),
        (["UPDATE meta SET value = 'x' WHERE key = 'pid'"], "Expected `int`"),
        (["DELETE FROM meta"], "missing required field"),
    ],
)
def test_what_no_run_could_record_is_refused(statements, problem, path):
    change(path, *statements)
    with pytest.raises(TraceError, match=problem) as caught:
        read_trace(path)
    assert "Run the program again" in str(caught.value)


def test_a_fifo_in_place_of_a_trace_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "run.pvti")
    with pytest.raises(TraceError, match="is a FIFO"):
        read_trace(tmp_path)


def test_a_sample_that_is_not_finite_breaks_neither_the_file_nor_what_is_made_of_it(path):
    from openipu.report.system import render_system_page, to_chrome_trace

    trace = read_trace(path)
    assert trace.processes[0].series[0].values.tolist() == [float("inf")]
    render_system_page(trace)
    counters = [event for event in to_chrome_trace(trace)["traceEvents"] if event["name"] == "memory [MB]"]
    assert [event["args"] for event in counters] == [{"host": None}]
