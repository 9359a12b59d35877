"""How items of the public suites are counted: reasons of failures are specific, and what an item uses is told from its
code."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import time
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
        ("error: ModuleNotFoundError: No module named 'popef'", "original's own executable files"),
        ("failure: NotImplementedError: precompiled_user_op: an IPU's code in C++ cannot run here", "C++"),
        ("failure: NotImplementedError: export_inputs_to_file: a file", "runtimes"),
    ],
)
def test_a_known_gap_has_its_own_reason(find_reason, outcome, reason):
    assert reason in find_reason(outcome)


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


@pytest.fixture
def run_file(load, tmp_path):
    """What the runner counts of a test file with this text."""

    def run(text, limit=3600, expression=""):
        file = tmp_path / "some_test.py"
        file.write_text(text)
        options = argparse.Namespace(model=False, expression=expression, verbose=False, limit=limit)
        items = load("run_tensorflow").run_file(file, options, "2.6", "no:logging", "tests/some_test.py")
        return {item.name.removeprefix("tests/some_test.py::"): item.outcome for item in items}

    return run


def test_a_file_that_does_not_end_in_time_counts_what_it_came_to(run_file, tmp_path, monkeypatch):
    reached = tmp_path / "reached"

    class Late(subprocess.Popen):
        """Its time is over when it has come to the fourth item."""

        def wait(self, timeout=None):
            while timeout is not None and not reached.exists() and self.poll() is None:
                time.sleep(0.05)
            if timeout is not None and self.poll() is None:
                raise subprocess.TimeoutExpired("pytest", timeout)
            return super().wait()

    monkeypatch.setattr(subprocess, "Popen", Late)
    text = (
        "import time, unittest\n"
        "class A(unittest.TestCase):\n"
        "    def test1(self):\n        pass\n"
        "    def test2(self):\n        self.assertEqual(1, 2)\n"
        "    def test3(self):\n        self.skipTest('not here')\n"
        f"    def test4(self):\n        open({str(reached)!r}, 'w').close(); time.sleep(3600)\n"
        "    def test5(self):\n        pass\n"
    )
    assert run_file(text, limit=10) == {
        "A::test1": "passed",
        "A::test2": "failure: AssertionError: 1 != 2",
        "A::test3": "skipped: Skipped: not here",
        "A::test4": "failed: more than 10 s",
        "A::test5": "failed: more than 10 s",
    }


def test_a_process_that_dies_fails_the_items_that_it_did_not_reach(run_file):
    text = (
        "import os, unittest\n"
        "class A(unittest.TestCase):\n"
        "    def test1(self):\n        pass\n"
        "    def test2(self):\n        os._exit(3)\n"
    )
    assert run_file(text) == {"A::test1": "passed", "A::test2": "failed: the process died"}
    assert run_file(text, expression="test1") == {"A::test1": "passed"}


def test_every_test_of_a_file_that_could_not_be_imported_counts_with_the_module_that_is_missing(run_file):
    text = "import popef\nclass A:\n    def test1(self):\n        pass\n    def test2(self):\n        pass\n"
    outcome = "error: ModuleNotFoundError: No module named 'popef'"
    assert run_file(text) == {"A::test1": outcome, "A::test2": outcome}


def test_two_files_of_one_name_are_kept_apart(load):
    choose = load("run_tensorflow").choose_files
    paths = [Path(name) for name in ("a/horovod/one_test.py", "a/distributed/one_test.py", "a/tests/two_test.py")]
    assert choose(paths, []) == dict(
        zip(["horovod/one_test.py", "distributed/one_test.py", "two_test.py"], paths, strict=True)
    )
    assert list(choose(paths, ["distributed"])) == ["distributed/one_test.py"]


def test_items_that_run_again_alone_replace_themselves_alone(load):
    page = load("tensorflow_page")
    kept = [page.Item("2.6", f"one_test.py::A::test{number}", "failure: x", page.PUBLIC) for number in (1, 2)]
    again = page.Item("2.6", "one_test.py::A::test2", "passed", page.PUBLIC)
    assert page.renew(kept, [again]) == [kept[0], again]
