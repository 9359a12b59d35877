"""The reasons why items of the public suites fail are specific: another failure of the same class has none."""

from __future__ import annotations

import importlib.util
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

RUNNER = Path(__file__).parents[1] / "conformance" / "run_tensorflow.py"


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("run_tensorflow", RUNNER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "outcome",
    [
        "failure: NotImplementedError",
        "failure: NotImplementedError: something that ran before",
        "error: ModuleNotFoundError: No module named 'tensorflow.python.ipu.config'",
        "error: ImportError: cannot import name 'IPUConfig' from 'tensorflow.python.ipu.config'",
        "failure: AttributeError: module 'tensorflow.python.ipu' has no attribute 'scopes'",
        "failure: AssertionError: ",
    ],
)
def test_a_failure_that_nobody_has_looked_at_has_no_reason(runner, outcome):
    assert runner.find_reason("some_test.py::SomeTest::testIt", outcome) == ""


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("failure: NotImplementedError: precompiled_user_op: a library that was compiled", "custom ops in C++"),
        ("failure: NotImplementedError: get_current_iteration_counter: rounds are not", "counting"),
        ("error: ImportError: cannot import name 'ipu_estimator' from 'tensorflow.python.ipu'", "estimators"),
    ],
)
def test_a_known_gap_has_its_own_reason(runner, outcome, reason):
    assert reason in runner.find_reason("some_test.py::SomeTest::testIt", outcome)


def test_a_file_that_cannot_be_imported_says_which_module_is_missing(runner):
    text = "ImportError while importing test module\nE   ModuleNotFoundError: No module named 'popef'"
    problem = ElementTree.fromstring(f'<error message="collection failure">{text}</error>')
    assert runner.read_message(problem) == "ModuleNotFoundError: No module named 'popef'"
