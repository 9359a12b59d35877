"""The system report: figures of a trace, the command line, Perfetto's format, and the page in a real browser."""

import gzip
import json

import pytest
from browser_page import SIZES, Page, needs_browser

from openipu.cli import main
from openipu.report.system import render_system_page, summarise_trace, to_chrome_trace
from openipu.trace import COMPILE, DATA, RUN
from openipu.trace.options import TraceOptions
from openipu.trace.read import read_trace
from openipu.trace.recorder import Recorder

NASTY = '</script><img src=x onerror="document.title=1"> {{data}} "quoted" 🦊'
MILLISECOND = 1_000_000


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Ten calls of 4 ms after 20 ms of compilation; before each call 3 ms of data loading, after it 3 ms of nothing."""
    directory = tmp_path_factory.mktemp("traces")
    recorder = Recorder(TraceOptions(enabled=True, directory=directory))
    recorder.add_event(COMPILE, "compile", 0, 20 * MILLISECOND)
    for call in range(10):
        begin = (20 + 10 * call) * MILLISECOND
        recorder.add_event(DATA, "next batch", begin, 3 * MILLISECOND)
        recorder.add_event(RUN, "micro-batch", begin + 4 * MILLISECOND, 2 * MILLISECOND, {"samples": 8})
        recorder.add_event(RUN, "training", begin + 3 * MILLISECOND, 4 * MILLISECOND)
    recorder.add_event("mine", NASTY, 25 * MILLISECOND, None)
    recorder.add_sample("Loss", "training", "nats", 2.5)
    recorder.add_histogram("weights", [0.0, 1.0, 2.0], "", [3, 4])
    recorder.close()
    return directory


@pytest.fixture(scope="module")
def trace(directory):
    return read_trace(directory)


def test_activities_are_counted_without_what_is_inside_them(trace):
    summary = summarise_trace(trace)
    seconds = {entry.channel: entry.self_seconds for entry in summary.activities}
    assert seconds == pytest.approx({"compile": 0.020, "data loading": 0.030, "run": 0.040, "mine": 0})
    label = next(entry for entry in summary.labels if entry.label == "training")
    assert label.total_seconds == pytest.approx(10 * 0.004)
    assert label.self_seconds == pytest.approx(10 * (0.004 - 0.002))


def test_the_loop_is_split_between_the_first_call_and_the_last(trace):
    loop = summarise_trace(trace).loop
    assert loop.calls == 10
    assert loop.seconds == pytest.approx(9 * 0.010 + 0.004)
    assert loop.running == pytest.approx(10 * 0.004 / 0.094)
    assert loop.waiting_for_data == pytest.approx(9 * 0.003 / 0.094)
    assert loop.unmarked == pytest.approx(9 * 0.003 / 0.094)


def test_a_loop_that_waits_for_data_is_told_so_with_the_remedy(trace):
    (finding,) = summarise_trace(trace).findings
    assert finding.startswith("The loop of 10 calls spent 28.7 % of its time waiting for data.")
    assert "Load in the background" in finding


def test_perfetto_gets_all_events_in_microseconds(trace):
    events = to_chrome_trace(trace)["traceEvents"]
    assert [entry["ph"] for entry in events].count("X") == 1 + 3 * 10
    call = next(entry for entry in events if entry["name"] == "training")
    assert (call["ts"], call["dur"], call["cat"]) == (23_000, 4_000, "run")
    assert next(entry for entry in events if entry["name"] == "micro-batch")["args"] == {"samples": 8}
    assert next(entry for entry in events if entry["ph"] == "i")["name"] == NASTY
    counters = {entry["name"]: entry["args"] for entry in events if entry["ph"] == "C"}
    assert counters == {"Loss [nats]": {"training": 2.5}, "weights": {"0": 3, "1": 4}}
    assert {entry["name"] for entry in events if entry["ph"] == "M"} == {"process_name", "thread_name"}


def test_the_command_writes_a_page_and_prints_text_json_and_perfetto(directory, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["trace", str(directory), "--html", str(page)]) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert main(["trace", str(directory), "--text"]) == 0
    assert "Loop of 10 calls" in capsys.readouterr().out
    assert main(["trace", str(directory), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["loop"]["calls"] == 10
    assert main(["trace", str(directory), "--perfetto", str(tmp_path / "run.json.gz")]) == 0
    assert "traceEvents" in json.loads(gzip.decompress((tmp_path / "run.json.gz").read_bytes()))


def test_a_directory_without_traces_is_one_clear_error(tmp_path, capsys):
    assert main(["trace", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"openipu trace: There is no trace at {tmp_path}")


def test_a_script_is_recorded_and_shown_by_one_option(tmp_path, capsys, monkeypatch):
    from openipu.trace import stop_tracing

    monkeypatch.setenv("PVTI_OPTIONS", "")  # restored at the end, whatever the command sets
    stop_tracing()
    script = tmp_path / "script.py"
    script.write_text(
        "from openipu.trace import start_tracing\nstart_tracing()\nimport libpvti\n"
        "with libpvti.Tracepoint(libpvti.createTraceChannel('mine'), 'section'): print('ran')\n"
    )
    assert main(["run", "--trace", str(tmp_path / "out"), str(script)]) == 0
    told = capsys.readouterr()
    assert told.out == "ran\n"
    assert "what this host did" in told.err
    assert (tmp_path / "out" / "system.html").is_file()
    assert read_trace(tmp_path / "out").event_count == 1


def test_names_cannot_leave_the_data(trace):
    assert "onerror" not in render_system_page(trace)  # it is packed, and shown as text


@pytest.mark.browser
@needs_browser
def test_the_page_shows_searches_zooms_and_selects(trace, tmp_path, driver):
    path = tmp_path / "system.html"
    path.write_text(render_system_page(trace), encoding="utf-8")
    page = Page(driver, path)
    page.open()
    page.wait_until("return document.body.dataset.ready === 'yes'")
    assert "10 calls in 94.0 ms" in page.text("#lead")
    assert "waiting for data" in page.text("#findings")
    page.wait_until("return document.querySelectorAll('#totals tbody tr').length === 5")
    lanes = "document.getElementById('lanes')"
    press = f"{lanes}.dispatchEvent(new KeyboardEvent('keydown', {{key: arguments[0]}}))"
    page.run(press, "+")
    page.wait_until("return Number(new URLSearchParams(location.hash.slice(1)).get('from')) > 1000")
    link = page.run("return location.hash")
    page.run(press, "]")
    assert "Activity" in page.text("#event")
    page.find("#search").send_keys("micro")
    assert page.text("#matches") == "10 found"
    page.find("#next").click()
    assert page.text("#matches") == "1 of 10"
    assert "8" in page.text("#event")  # its details
    page.find("#search").clear()
    page.find("#search").send_keys("onerror")
    page.find("#next").click()
    assert NASTY in page.text("#event")
    page.find("#by-activity").click()
    assert "data loading" in page.text("#gutter")
    page.find("#theme").click()
    page.open(link + "&rows=activity")
    page.wait_until("return document.body.dataset.ready === 'yes'")
    assert page.run("return document.querySelectorAll('#main img').length") == 0
    assert page.run("return document.title") != "1"
    colours = page.run(
        f"const {{data}} = {lanes}.getContext('2d').getImageData(0, 0, {lanes}.width, {lanes}.height);"
        "const seen = new Set(); for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255)"
        " seen.add(data[at] * 65536 + data[at + 1] * 256 + data[at + 2]); return seen.size"
    )
    assert colours > 4
    assert page.severe_log() == []


@pytest.mark.browser
@needs_browser
@pytest.mark.parametrize("size", SIZES)
def test_a_pinned_row_stays_in_sight_until_it_is_let_go(trace, tmp_path, driver, size):
    path = tmp_path / "trace.html"
    path.write_text(render_system_page(trace), encoding="utf-8")
    page = Page(driver, path)
    page.resize(size)
    try:
        page.open("#rows=activity")
        assert page.run("return document.getElementById('pinned').hidden")
        pins = "return [...document.querySelectorAll('#gutter .pin')].map((pin) => pin.ariaLabel)"
        at = page.run(pins).index("Keep “run” in sight")
        page.run(f"document.querySelectorAll('#gutter .pin')[{at}].click()")
        page.settle()
        assert page.run("return document.querySelector('#pinned-gutter span').textContent") == "run"
        assert page.count_shades("#pinned-lanes") > 2
        wide = "const box = document.querySelector('.table-scroll'); return box.scrollWidth - box.clientWidth"
        assert page.run(wide) <= 1
        assert page.run("return [...document.querySelectorAll('thead th')].every((head) => head.title)")
        page.run("scrollTo(0, document.body.scrollHeight)")
        page.settle()
        assert page.run("return document.getElementById('pinned').getBoundingClientRect().top") >= 0
        assert page.run("return document.documentElement.scrollWidth <= innerWidth")
        page.run("document.querySelector('#pinned-gutter .pin').click()")
        assert page.run("return document.getElementById('pinned').hidden")
    finally:
        page.resize(None)
    assert page.severe_log() == []
