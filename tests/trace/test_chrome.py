"""Chrome trace events of others, and through them `.pvti` files of the original, open like traces of openipu."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from openipu.errors import TraceError
from openipu.report.system import render_system_page, summarise_trace
from openipu.trace.options import TraceOptions
from openipu.trace.read import MOMENT, HostTrace, read_trace
from openipu.trace.recorder import Recorder

EXPORT = Path(__file__).parents[2] / "examples" / "export_pvti.py"


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def list_events(trace: HostTrace) -> list[tuple[str, str, int, int, int]]:
    return [
        (thread.names[thread.channel[at]], thread.names[thread.label[at]], start, thread.duration_ns[at], depth)
        for thread in trace.list_threads()
        for at, (start, depth) in enumerate(zip(thread.start_ns, thread.depths, strict=True))
    ]


def test_events_pairs_moments_and_counters_are_read(tmp_path: Path) -> None:
    events = [
        {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "train.py"}},
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": {"name": "main"}},
        {"ph": "B", "name": "epoch", "cat": "loop", "pid": 7, "tid": 8, "ts": 10},
        {"ph": "X", "name": "step", "cat": "loop", "pid": 7, "tid": 8, "ts": 12.5, "dur": 3, "args": {"loss": 2.5}},
        {"ph": "E", "pid": 7, "tid": 8, "ts": 20},
        {"ph": "i", "name": "saved", "pid": 7, "tid": 8, "ts": 15, "s": "t"},
        {"ph": "C", "name": "loss", "pid": 7, "ts": 15, "args": {"training": 2.5}},
        {"ph": "s", "name": "a flow: left out", "id": 3, "ts": 1},
    ]
    trace = read_trace(write(tmp_path / "trace.json", {"traceEvents": events, "displayTimeUnit": "ms"}))
    (process,) = trace.processes
    assert (process.pid, process.command, process.threads[0].name) == (7, "train.py", "main")
    assert list_events(trace) == [
        ("loop", "epoch", 10_000, 10_000, 0),
        ("loop", "step", 12_500, 3_000, 1),
        ("events", "saved", 15_000, MOMENT, 2),
    ]
    (series,) = process.series
    assert (series.graph, series.label, series.values.tolist()) == ("loss", "training", [2.5])
    assert "train.py" in render_system_page(trace)
    assert read_trace(write(tmp_path / "list.json", events)).event_count == 3  # a bare list is one too


def test_the_example_exports_what_pva_reads_and_the_page_shows_the_same(tmp_path: Path) -> None:
    recorder = Recorder(TraceOptions(enabled=True, directory=tmp_path))
    recorder.add_event("run", "micro-batch", 4_000_000, 2_000_000)
    recorder.add_event("run", "training", 3_000_000, 4_000_000)
    recorder.add_event("compile", "compile", 0, 1_000_000)
    recorder.close()
    (file,) = tmp_path.glob("*.pvti")
    runpy.run_path(str(EXPORT))["main"](str(file), str(tmp_path / "out.json"))
    exported, original = read_trace(tmp_path / "out.json"), read_trace(file)
    for one, other in zip(list_events(exported), list_events(original), strict=True):
        assert (one[:2], one[3:]) == (other[:2], other[3:])
        assert abs(int(one[2]) - int(other[2])) < 1000  # microseconds since 1970, as pva gives them
    times = [
        {one.channel: one.self_seconds for one in summarise_trace(each).activities} for each in (exported, original)
    ]
    assert times[0] == times[1] == pytest.approx({"compile": 0.001, "run": 0.004})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ('{"traceEvents": 3}', "holds what it should not"),
        ('{"traceEvents": []}', "has no event"),
        ('[{"ph": "X", "ts": -5, "dur": 1}]', "out of bounds"),
        ('[{"ph": "X", "ts": 1e300, "dur": 1}]', "out of bounds"),
        ('[{"ph": "X", "ts": "now"}]', "holds what it should not"),
        ('[{"ph": "E", "ts": 3}]', "has no event"),
    ],
)
def test_what_is_no_such_file_is_one_clear_error(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(TraceError, match=message):
        read_trace(path)


def test_a_file_of_the_original_leads_to_the_script_that_exports_it(tmp_path: Path) -> None:
    path = tmp_path / "Tue_Nov_24_11:59:17_2020_GMT_4532.pvti"
    path.write_bytes(b"SQLite format 3\0" + bytes(200))
    with pytest.raises(TraceError, match=r"not one that openipu wrote.*export_pvti"):
        read_trace(path)
