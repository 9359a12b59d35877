"""`openipu doctor`: what it looks at, and that only essential faults make it fail."""

from __future__ import annotations

import importlib.metadata
import json

import pytest

from openipu.cli import checks, front_ends
from openipu.cli.checks import State
from openipu.machine import SYSTEM_VARIABLE


def test_a_working_installation_is_healthy(call):
    code, out, _ = call("doctor")
    assert code == 0
    assert "Everything essential works." in out


def test_json_names_every_check(call):
    document = json.loads(call("doctor", "--json")[1])
    assert document["healthy"] is True
    names = {check["name"] for check in document["checks"]}
    assert {"python", "torch", "poptorch", "default system", "C++ compiler", "cache", "transformers"} <= names


def test_a_wrong_default_system_is_essential(call, monkeypatch):
    monkeypatch.setenv(SYSTEM_VARIABLE, "pod17")
    code, out, _ = call("doctor")
    assert code == 1
    assert "broken" in out
    assert f"unset {SYSTEM_VARIABLE}" in out


def test_the_default_system_says_where_it_comes_from(monkeypatch):
    assert "built-in default" in checks.check_system().finding
    monkeypatch.setenv(SYSTEM_VARIABLE, "c600")
    assert SYSTEM_VARIABLE in checks.check_system().finding


def test_a_front_end_that_does_not_import_is_essential(call, monkeypatch):
    monkeypatch.setitem(front_ends.PROVIDED, "poptorch_that_is_absent", "absent")
    code, out, _ = call("doctor")
    assert code == 1
    assert "poptorch_that_is_absent" in out


def test_an_old_python_or_torch_is_essential():
    assert checks.check_python((3, 10)).state is State.BROKEN
    assert checks.check_torch(lambda name: "2.9.1").state is State.BROKEN
    assert checks.check_torch(lambda name: "2.13.0+cpu").state is State.GOOD
    assert checks.check_torch(lambda name: "3.0").state is State.GOOD


def test_no_torch_at_all_says_how_to_install_it():
    def find(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    check = checks.check_torch(find)
    assert check.state is State.BROKEN
    assert "pip install" in check.remedy


def test_no_compiler_is_mentioned_but_not_a_fault(monkeypatch):
    monkeypatch.setattr(checks.shutil, "which", lambda name: None)
    check = checks.check_compiler()
    assert check.state is State.ABSENT
    assert "g++" in check.remedy


def test_the_users_own_compiler_comes_first(monkeypatch):
    monkeypatch.setenv("CXX", "my-compiler")
    monkeypatch.setattr(checks.shutil, "which", lambda name: f"/opt/{name}")
    assert checks.check_compiler().finding == "/opt/my-compiler"


def test_a_cache_that_cannot_be_written_is_mentioned(monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv(checks.CACHE_VARIABLE, str(file))
    check = checks.check_cache()
    assert check.state is State.ABSENT
    assert checks.CACHE_VARIABLE in check.remedy


def test_a_cache_that_is_not_there_yet_is_fine(monkeypatch, tmp_path):
    monkeypatch.setenv(checks.CACHE_VARIABLE, str(tmp_path / "a" / "b"))
    assert checks.check_cache().state is State.GOOD
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("missing", "planned"),
    [
        ("popxl", "popxl"),
        ("tensorflow", "tensorflow.python.ipu"),
        ("popxl.ops", "popxl"),
        ("tensorflow.python.ipu.ops", "tensorflow.python.ipu"),
        ("nunpy", None),
    ],
)
def test_a_failed_import_is_matched_with_planned_front_ends(missing, planned):
    assert front_ends.find_planned(missing) == planned


def test_an_absent_package_is_optional():
    check = checks.check_package("a-package-nobody-has", "say why")
    assert (check.state, check.remedy) == (State.ABSENT, "say why")
