"""The pytest plug-in, as a user's CI meets it: tests inside tests."""

from __future__ import annotations

import json

import pytest

pytest_plugins = ["pytester"]

USER_TEST = """
import torch
from openipu.jobs import PlanningJob

def make_job(width=64):
    with torch.device("meta"):
        return PlanningJob(model=torch.nn.Linear(width, width), args=torch.empty(8, width))

def test_it_fits(plan_job, golden_plan):
    plan = plan_job(make_job(WIDTH), system="bow-2000", device_iterations=ITERATIONS)
    assert plan.fits()
    assert plan.peak_tile_bytes < 500_000
    assert plan.samples_per_second > 0
    golden_plan(plan)
"""


@pytest.fixture
def run_user_test(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(*words, width=64, iterations=1, body=USER_TEST):
        text = body.replace("WIDTH", str(width)).replace("ITERATIONS", str(iterations))
        pytester.makepyfile(test_model=text)
        return pytester.runpytest_inprocess("-p", "openipu.pytest_plugin", *words)

    return run


def find_golden(pytester):
    return pytester.path / "golden_plans" / "test_model" / "test_it_fits.json"


def test_a_missing_golden_plan_fails_and_says_how_to_write_it(run_user_test):
    result = run_user_test()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*There is no golden plan*", "*--update-golden-plans*"])


def test_a_golden_plan_is_written_with_provenance_and_then_compared(run_user_test, pytester):
    run_user_test("--update-golden-plans").assert_outcomes(passed=1)
    document = json.loads(find_golden(pytester).read_text())
    assert document["provenance"]["system"] == "bow-2000"
    assert document["provenance"]["options"]["device_iterations"] == 1
    assert "engine" not in document["provenance"]["options"]
    assert sum(document["cycles"].values()) == pytest.approx(document["figures"]["call_cycles"])
    assert sum(document["peak_bytes"].values()) == document["figures"]["peak_tile_bytes"]
    run_user_test().assert_outcomes(passed=1)


def test_a_plan_that_changed_fails_with_the_terms_of_the_change(run_user_test):
    run_user_test("--update-golden-plans")
    result = run_user_test(width=512)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*call_cycles is*more than*", "*cycles of a call changed by*", "*forward matmul*"])


def test_small_changes_are_within_the_tolerance(run_user_test, pytester):
    run_user_test("--update-golden-plans")
    golden = json.loads(find_golden(pytester).read_text())
    golden["figures"]["call_cycles"] *= 1.015
    find_golden(pytester).write_text(json.dumps(golden))
    run_user_test().assert_outcomes(passed=1)
    run_user_test("--golden-plan-tolerance", "0.001").assert_outcomes(failed=1)


def test_a_golden_plan_of_other_options_is_not_compared(run_user_test):
    run_user_test("--update-golden-plans")
    result = run_user_test(iterations=2)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*was made for another plan*device_iterations was 1 and is 2*"])


def test_a_damaged_file_says_so(run_user_test, pytester):
    run_user_test("--update-golden-plans")
    find_golden(pytester).write_text("{}")
    result = run_user_test()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*The golden plan * holds what it should not*missing required field `version`*"])


def test_two_plans_of_one_test_need_names(run_user_test, pytester):
    twice = USER_TEST + "    golden_plan(plan, 'second')\n    golden_plan(plan, 'second')\n"
    result = run_user_test("--update-golden-plans", body=twice)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Give each plan a name*"])
    assert (find_golden(pytester).parent / "second.json").exists()
