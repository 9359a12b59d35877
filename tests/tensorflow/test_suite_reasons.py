"""How items of the public suites are counted: reasons of failures are specific, and what an item uses is told from its
code."""

from __future__ import annotations

import importlib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

CONFORMANCE = Path(__file__).parents[1] / "conformance"
REPORTS = "reads profiles, compute sets, or events of the original's driver"
RAW = "uses raw ops or messages of the original's plugin"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(CONFORMANCE))
    return importlib.import_module


@pytest.fixture
def find_reason(load):
    page = load("tensorflow_page")
    reasons = page.Reasons()
    return lambda outcome: reasons.find(page.Item("2.6", "some_test.py::SomeTest::testIt", outcome, page.PUBLIC))


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
def test_a_failure_that_nobody_has_looked_at_has_no_reason(find_reason, outcome):
    assert find_reason(outcome) == ""


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("error: ModuleNotFoundError: No module named 'popef'", "files and runtimes"),
        ("failure: NotImplementedError: precompiled_user_op: an IPU's code in C++ cannot run here", "C++"),
        ("failure: NotImplementedError: get_current_iteration_counter: rounds are not", "counting"),
    ],
)
def test_a_known_gap_has_its_own_reason(find_reason, outcome, reason):
    assert reason in find_reason(outcome)


def test_a_file_that_cannot_be_imported_says_which_module_is_missing(load):
    text = "ImportError while importing test module\nE   ModuleNotFoundError: No module named 'popef'"
    problem = ElementTree.fromstring(f'<error message="collection failure">{text}</error>')
    assert load("run_tensorflow").read_message(problem) == "ModuleNotFoundError: No module named 'popef'"


def test_what_an_item_uses_is_followed_through_its_own_file(load, tmp_path):
    scope = load("tensorflow_scope")
    file = tmp_path / "some_test.py"
    file.write_text(
        "import pva\n"
        "from tensorflow.compiler.plugin.poplar.ops import gen_popops_ops\n"
        "def look(report):\n    return pva.openReport(report)\n"
        "class OneTest:\n"
        "    def _help(self):\n        return gen_popops_ops.ipu_cross_replica_sum(1)\n"
        "    def testPlain(self):\n        self.run()\n"
        "    def testReport(self):\n        look(1)\n"
        "    def testRaw(self):\n        self._help()\n"
        "    def testAsked(self):\n        compare(return_report=True)\n"
        "class TwoTest:\n"
        "    def setUp(self):\n        look(2)\n"
        "    def testPlain(self):\n        pass\n"
    )
    kinds = scope.classify(file)
    assert kinds == {
        "OneTest.testPlain": scope.PUBLIC,
        "OneTest.testReport": REPORTS,
        "OneTest.testRaw": RAW,
        "OneTest.testAsked": REPORTS,
        "TwoTest.testPlain": REPORTS,
    }
    assert scope.classify_item("OneTest::testRaw_float16", kinds) == RAW
    assert scope.classify_item("OneTest::testPlain0", kinds) == scope.PUBLIC
    assert scope.classify_item("TwoTest::testPlain", kinds) == REPORTS


def test_a_file_that_is_counted_again_replaces_its_own_items_alone(load, tmp_path):
    page = load("tensorflow_page")
    first = [page.Item("2.6", f"{name}_test.py::A::test", "failure: x", page.PUBLIC) for name in ("one", "two")]
    again = [page.Item("2.6", "one_test.py::A::test", "passed", page.PUBLIC)]
    other = [page.Item("1.15", "one_test.py::A::test", "failure: y", page.PUBLIC)]
    page.save_items(tmp_path / "kept.json", first)
    merged = page.merge([page.read_items(tmp_path / "kept.json"), other, again])
    assert sorted((item.suite, item.name[:3], item.outcome) for item in merged) == [
        ("1.15", "one", "failure: y"),
        ("2.6", "one", "passed"),
        ("2.6", "two", "failure: x"),
    ]
    assert page.write_shares(merged)[-1].startswith("all: 1 of 3 (33.3 %)")


def test_every_test_of_a_file_that_could_not_run_counts(load, tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="" name="some_test"><error message="collection failure">'
        "E   ModuleNotFoundError: No module named 'popef'</error></testcase></testsuite></testsuites>"
    )
    found = load("run_tensorflow").read_report(report)
    assert found == {"": "error: ModuleNotFoundError: No module named 'popef'"}
