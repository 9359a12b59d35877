"""What is recorded: spans with their nesting, moments, threads, processes; and nothing while tracing is off."""

import os
import sqlite3
import threading

import pytest

from openipu.errors import TraceError
from openipu.trace import RUN, WAIT, find_recorder, is_tracing, mark_moment, mark_past, span, stop_tracing
from openipu.trace.read import MOMENT, read_trace


def list_events(thread):
    return [
        (thread.names[label], int(depth)) for label, depth in zip(thread.label, thread.depths.tolist(), strict=True)
    ]


def test_spans_inside_spans_are_read_back_with_their_nesting(record, clock):
    directory = record()
    with span(RUN, "outer"):
        clock.advance(10)
        with span(RUN, "first"):
            clock.advance(1000)
        clock.advance(1)
        mark_moment(RUN, "now")
        clock.advance(1)
        with span(WAIT, "second", {"bytes": 3}):
            clock.advance(200)
    stop_tracing()
    (process,) = read_trace(directory).processes
    (thread,) = process.threads
    assert process.pid == os.getpid()
    assert list_events(thread) == [("outer", 0), ("first", 1), ("now", 1), ("second", 1)]
    assert thread.duration_ns[2] == MOMENT
    assert thread.details[3] == '{"bytes":3}'
    assert [int(thread.duration_ns[index]) for index in (0, 1, 3)] == [1212, 1000, 200]
    assert thread.self_ns[0] == 1212 - 1000 - 200  # what the outer one took without the two inside it


def test_times_are_those_of_the_wall_clock(record, clock):
    directory = record()
    clock.advance(40)
    mark_moment(RUN, "now")
    stop_tracing()
    assert read_trace(directory).first_ns == clock.epoch_ns + clock.ticks_ns


def test_an_error_ends_a_span_and_is_named(record):
    directory = record()
    with pytest.raises(KeyError), span(RUN, "broken"):
        raise KeyError("x")
    stop_tracing()
    assert read_trace(directory).list_threads()[0].details == ('{"error":"KeyError"}',)


def test_work_that_somebody_else_timed_takes_its_place(record, clock):
    directory = record()
    with span(RUN, "call"):
        begin = clock.seconds
        clock.advance(5000)
        mark_past(RUN, "micro-batch", begin, begin + 2e-6)
    stop_tracing()
    thread = read_trace(directory).list_threads()[0]
    assert list_events(thread) == [("call", 0), ("micro-batch", 1)]
    assert thread.duration_ns[1] == pytest.approx(2000, abs=2)


def test_each_thread_has_a_row_of_its_own(record):
    directory = record()

    def work():
        with span(RUN, "there"):
            pass

    with span(RUN, "here"):
        other = threading.Thread(target=work, name="worker")
        other.start()
        other.join()
    stop_tracing()
    threads = read_trace(directory).list_threads()
    assert {(thread.name, list_events(thread)[0]) for thread in threads} == {
        ("MainThread", ("here", 0)),
        ("worker", ("there", 0)),
    }


def test_a_forked_process_writes_a_file_of_its_own(record):
    directory = record()
    with span(RUN, "parent"):
        pass
    child = os.fork()
    if child == 0:
        with span(RUN, "child"):
            pass
        os._exit(0)  # not even a chance to clean up: the first event of a process is written at once
    os.waitpid(child, 0)
    stop_tracing()
    processes = read_trace(directory).processes
    assert {process.pid for process in processes} == {os.getpid(), child}
    assert {process.pid: list_events(process.threads[0]) for process in processes} == {
        os.getpid(): [("parent", 0)],
        child: [("child", 0)],
    }


def test_while_tracing_is_off_a_span_is_one_shared_object_and_no_file_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stop_tracing()
    assert not is_tracing()
    assert span(RUN, "a") is span(WAIT, "b")
    with span(RUN, "a"):
        mark_moment(RUN, "now")
    assert list(tmp_path.iterdir()) == []


def test_only_the_channels_that_were_named_are_recorded_and_groups_name_their_members(record):
    directory = record(channels=("Drivers",))
    for channel in (RUN, WAIT, "mine"):
        with span(channel, channel):
            pass
    find_recorder().channels.switch("mine", True)
    with span("mine", "later"):
        pass
    stop_tracing()
    thread = read_trace(directory).list_threads()[0]
    assert list_events(thread) == [("wait", 0), ("later", 0)]


def test_after_its_duration_nothing_more_is_recorded(record, clock):
    directory = record(duration_seconds=600)
    for name in ("early", "late"):
        clock.advance(599_000_000_000)
        mark_moment(RUN, name)
    stop_tracing()
    assert list_events(read_trace(directory).list_threads()[0]) == [("early", 0)]


def test_a_file_can_be_read_while_it_is_written(record):
    directory = record()
    mark_moment(RUN, "first")
    assert read_trace(directory).event_count == 1


def test_a_run_goes_on_when_its_trace_cannot_be_written_any_more(record, caplog):
    directory = record()
    mark_moment(RUN, "first")
    find_recorder()._file.close()  # as a full disk would: every further write fails
    mark_moment(RUN, "second")
    find_recorder().flush()
    mark_moment(RUN, "third")
    assert [entry.message.split(";")[0] for entry in caplog.records] == ["Tracing ends here"]
    assert read_trace(directory).event_count == 1


@pytest.mark.parametrize("content", [b"", b"not a database at all, but a text of some length", b"SQLite format 3\0"])
def test_a_foreign_file_is_one_clear_error(tmp_path, content):
    (tmp_path / "x.pvti").write_bytes(content)
    with pytest.raises(TraceError, match=r"x\.pvti is (damaged, or is no trace|a database, but no trace)"):
        read_trace(tmp_path / "x.pvti")


def test_a_truncated_file_is_one_clear_error(record):
    directory = record()
    for number in range(2000):
        mark_moment(RUN, f"event {number}")
    stop_tracing()
    (path,) = directory.iterdir()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(TraceError, match="is damaged"):
        read_trace(path)


def test_a_newer_format_and_a_missing_file_say_what_to_do(record, tmp_path):
    directory = record()
    mark_moment(RUN, "x")
    stop_tracing()
    (path,) = directory.iterdir()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(TraceError, match="version 9 of the trace format"):
        read_trace(path)
    with pytest.raises(TraceError, match=r"There is no trace at .* PVTI_OPTIONS"):
        read_trace(tmp_path)
