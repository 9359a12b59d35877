"""`openipu plan`: from a function's name to a table, JSON and reports."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

MODELS = """\
import torch
from torch import nn

from openipu.jobs import PlanningJob

def _layer(width):
    with torch.device("meta"):
        return nn.Linear(width, width)

def as_job():
    return PlanningJob(model=_layer(64), args=(torch.empty(8, 64),))

def as_tuple():
    return _layer(64), torch.empty(8, 64)

def as_dict():
    return {"model": _layer(64), "args": (torch.empty(8, 64),), "name": "named"}

class WithLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = _layer(64)

    def forward(self, points, labels):
        return nn.functional.cross_entropy(self.layer(points), labels)

def training():
    model = WithLoss()
    return PlanningJob(
        model=model, args=(torch.empty(8, 64), torch.empty(8, dtype=torch.long)),
        training=True, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    )

def huge():
    return PlanningJob(model=_layer(20_000), args=(torch.empty(8, 20_000),))

def with_argument(width):
    return _layer(width), torch.empty(8, width)

def bare_module():
    return _layer(64)

def wrong_key():
    return {"model": _layer(64), "inputs": ()}

def two_minds():
    from openipu.graph import RunOptions
    return PlanningJob(model=_layer(64), args=(torch.empty(8, 64),), options=RunOptions(training=True))
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my_models.py"
    path.write_text(MODELS)
    return path


def plan_json(call, *words):
    code, out, err = call("plan", "--json", *words)
    assert (code, err) == (0, "")
    return json.loads(out)


def test_a_job_a_tuple_and_a_dict_mean_the_same(call, models):
    jobs = plan_json(call, *(f"my_models.py:as_{kind}" for kind in ("job", "tuple", "dict")))["jobs"]
    assert [job["name"] for job in jobs] == ["as_job", "as_tuple", "named"]
    assert len({job["micro_cycles"] for job in jobs}) == 1
    assert jobs[0]["micro_batch"] == 8
    assert jobs[0]["fits"] is True


def test_a_module_on_the_path_works_like_a_file(call, models):
    by_file = plan_json(call, "my_models.py:as_job")["jobs"][0]
    by_module = plan_json(call, "my_models:as_job")["jobs"][0]
    assert by_module["micro_cycles"] == by_file["micro_cycles"]


def test_a_slower_clock_gives_the_same_cycles_of_the_chip_in_more_time(call, models):
    (models.parent / "slow.toml").write_text(
        '[system]\nbase = "bow-2000"\nhost_bytes_per_second = 1.5625e9\nstream_bytes_per_second = 16e9\n'
        '[target]\nbase = "bow"\nclock_hz = 0.925e9\n'
    )
    fast = plan_json(call, "my_models.py:as_job")["jobs"][0]
    slow = plan_json(call, "--system", "slow.toml", "my_models.py:as_job")["jobs"][0]
    # half the clock and half the host's rate: as many cycles, each twice as long
    assert slow["call_cycles"] == pytest.approx(fast["call_cycles"])
    assert slow["call_seconds"] == pytest.approx(2 * fast["call_seconds"])


def test_run_options_of_the_command_line_replace_the_jobs(call, models):
    once = plan_json(call, "my_models.py:training")["jobs"][0]
    words = ("--gradient-accumulation", "4", "--device-iterations", "2")
    often = plan_json(call, *words, "my_models.py:training")["jobs"][0]
    assert often["micro_batch"] == once["micro_batch"] == 8
    # 2 calls of 4 micro-batches and one update each; accumulating may add an op to the micro-batch
    expected = 2 * (4 * often["micro_cycles"] + often["update_cycles"])
    assert often["call_cycles"] == pytest.approx(expected)
    assert once["update_cycles"] > 0


def test_the_table_has_one_row_a_job_and_says_why_one_does_not_fit(call, models):
    code, out, _ = call("plan", "my_models.py:as_job", "my_models.py:huge")
    assert code == 0
    rows = {line.split()[0]: line.split()[1] for line in out.splitlines() if re.search(r" \d+ of \d+ ", line)}
    assert rows == {"as_job": "yes", "huge": "no"}
    assert "huge does not fit" in out
    # 20,000 x 20,000 weights of 4 bytes, more than the 897 MiB of an IPU
    assert "1.49 GiB in all" in out


def test_check_fails_when_something_does_not_fit(call, models):
    assert call("plan", "--check", "my_models.py:as_job")[0] == 0
    assert call("plan", "--check", "my_models.py:as_job", "my_models.py:huge")[0] == 1


def test_profiles_and_reports_are_written_for_each_job(call, models):
    jobs = plan_json(call, "--profile", "out", "my_models.py:as_job", "my_models:as_job")["jobs"]
    assert [job["name"] for job in jobs] == ["as_job", "as_job-2"]
    for job in jobs:
        assert Path(job["report"]).is_file()
        assert Path(job["report"]).with_name("profile.pop").is_file()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("absent.py:job", "there is no file absent.py"),
        ("no_such_package.models:job", "there is no module 'no_such_package'"),
        ("my_models.py", "names no function"),
        ("my_models.py:absent", "has no function 'absent'; functions there: as_job, as_tuple"),
        ("my_models.py:with_argument", "needs the arguments width"),
        ("my_models.py:bare_module", r"a bare module (Linear) without inputs"),
        ("my_models.py:wrong_key", "unknown keys inputs"),
        ("my_models.py:two_minds", "training=False, its options say training=True"),
    ],
)
def test_a_target_that_cannot_be_planned_is_explained(call, models, target, message):
    code, out, err = call("plan", target)
    assert (code, out) == (2, "")
    assert message in err


def test_options_that_cannot_work_name_the_job(call, models):
    code, _, err = call("plan", "--gradient-accumulation", "4", "my_models.py:as_job")
    assert code == 2
    assert err.startswith("openipu plan: my_models.py:as_job: gradient_accumulation needs training")
