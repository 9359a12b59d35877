"""Conditions on a profile: read from text, applied with units, and the exit code of `openipu report --check`."""

import os
import subprocess
import sys

import pytest
import torch

import poptorch
from openipu.cli import main
from openipu.errors import OptionError, ProfileError
from openipu.jobs import PlanningJob, run_job
from openipu.report import build_profile, read_profile, summarise, write_profile
from openipu.report.checks import FIGURES, Check, check_profile, read_check


def plan_linear(width):
    with torch.device("meta"):
        model = torch.nn.Linear(32, width)
    return run_job(PlanningJob(model=model, args=(torch.empty(4, 32),), name="small"), "c600")


@pytest.fixture(scope="module")
def plan():
    return plan_linear(16)


@pytest.fixture
def directory(plan, tmp_path):
    write_profile(plan, tmp_path / "small")
    return tmp_path / "small"


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("peak_tile_bytes<600kB", Check("peak_tile_bytes", "<", 600_000)),
        ("peak_tile_bytes <= 600 KiB", Check("peak_tile_bytes", "<=", 600 * 1024)),
        ("call_seconds<1.5ms", Check("call_seconds", "<", 1.5e-3)),
        ("exchange_share<25%", Check("exchange_share", "<", 0.25)),
        ("samples_per_second>=10k", Check("samples_per_second", ">=", 10_000)),
        ("tiles_over=0", Check("tiles_over", "==", 0)),
        ("free_tile_bytes>-1e3", Check("free_tile_bytes", ">", -1000)),
        ("call_cycles<=1.05x", Check("call_cycles", "<=", 1.05, relative=True)),
        ("fits", Check("fits", "==", 1)),
    ],
)
def test_conditions_are_read_with_their_units(text, check):
    assert read_check(text) == check


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("peak_tile_bytes", "cannot be read"),
        ("peak_tile_bytes<", "cannot be read"),
        ("", "cannot be read"),
        ("peak_tile_byte<1kB", "Did you mean peak_tile_bytes"),
        ("peak_tile_bytes<1ms", "units of peak_tile_bytes are B, kB"),
        ("call_cycles<1.2.3", "has no number after <"),
    ],
)
def test_what_cannot_be_read_says_what_would_be_possible(text, told):
    with pytest.raises(OptionError, match=told):
        read_check(text)


def test_every_figure_is_a_number_of_the_plan(plan):
    summary = summarise(build_profile(plan))
    values = {name: float(measure(summary)) for name, (_, _, measure) in FIGURES.items()}
    assert values["peak_tile_bytes"] == plan.fit.peak_bytes
    assert values["free_tile_bytes"] == plan.fit.limit_bytes - plan.fit.peak_bytes
    assert values["call_seconds"] == values["call_cycles"] / plan.timing.clock_hz
    assert values["steps"] == len(plan.steps)
    shares = sum(values[f"{kind}_share"] for kind in ("compute", "exchange", "sync", "host", "link"))
    assert shares == pytest.approx(1)


def test_relative_limits_are_multiples_of_the_other_profile(plan):
    one, other = build_profile(plan), build_profile(plan_linear(64))
    ratio = plan.fit.peak_bytes / other.fit.peak_bytes
    (above,) = check_profile(one, [read_check(f"peak_tile_bytes<={ratio + 0.001}x")], other)
    (below,) = check_profile(one, [read_check(f"peak_tile_bytes<={ratio - 0.001}x")], other)
    assert (above.holds, below.holds) == (True, False)
    with pytest.raises(OptionError, match="compares two profiles"):
        check_profile(one, [read_check("peak_tile_bytes<=1x")])


def test_the_command_says_what_holds_and_ends_with_0(directory, capsys):
    assert main(["report", str(directory), "--check", "fits", "--check", "peak_tile_bytes<600kB"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "small: ok: fits is 1, wanted == 1"
    assert "600,000 bytes" in lines[1]
    assert not (directory / "report.html").exists()


def test_a_condition_that_fails_ends_with_1_and_the_reason_on_standard_error(directory, capsys):
    assert main(["report", str(directory), "--check", "fits", "--check", "peak_tile_bytes<10B", "--json"]) == 1
    told = capsys.readouterr()
    assert told.out.startswith("{")  # nothing but the document
    assert "FAILED: peak_tile_bytes is" in told.err
    assert "wanted < 10 bytes" in told.err


def test_a_mistake_in_a_condition_ends_with_2_before_the_profile_is_looked_for(tmp_path, capsys):
    assert main(["report", str(tmp_path / "nowhere"), "--check", "size<3"]) == 2
    assert "There is no figure 'size' to check" in capsys.readouterr().err


def test_the_figures_are_listed(capsys, tmp_path):
    assert main(["report", str(tmp_path), "--check", "help"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(FIGURES)


def test_a_program_without_room_still_leaves_a_report_that_fails_the_check(tmp_path, capsys, caplog):
    class Large(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1).expand(4096, 80_000).clone())

        def forward(self, x):
            return x @ self.weight

    options = poptorch.Options().enableProfiling(str(tmp_path))
    model = poptorch.inferenceModel(Large(), options)
    model.compile(torch.ones(1, 4096))
    model.destroy()
    assert "would not fit" in caplog.text
    profile = read_profile(tmp_path / "inference")
    assert not profile.fit.fits
    assert profile.fit.culprits
    assert profile.advice is not None  # what the warning says, with the levers behind it
    assert profile.advice.front_end == "poptorch"
    assert all(lever.title in caplog.text for lever in profile.advice.levers[:5])
    assert main(["report", str(tmp_path), "--check", "fits"]) == 1
    assert "FAILED: fits is 0" in capsys.readouterr().err


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_a_truncated_profile_is_a_clear_error(directory, share):
    path = directory / "profile.pop"
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(ProfileError, match="is damaged"):
        read_profile(path)


def test_a_notebook_shows_the_whole_page_in_a_frame(directory):
    shown = read_profile(directory)._repr_html_()
    assert shown.startswith('<iframe title="Report of small" srcdoc="&lt;!doctype html&gt;')
    assert shown.count("<") == 2  # the frame, and its end: the page inside is text


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("POPLAR_LOG_LEVEL", "LOUD", "POPLAR_LOG_LEVEL is 'LOUD', which is not a log level"),
        ("POPTORCH_LOG_LEVEL", "LOUD", "POPTORCH_LOG_LEVEL is 'LOUD'. Unknown log level"),
    ],
)
def test_a_wrong_log_level_ends_the_import_with_one_error(variable, value, told):
    ended = subprocess.run(
        [sys.executable, "-c", "import poptorch"],
        env={**os.environ, variable: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert told in ended.stderr.splitlines()[-1]
