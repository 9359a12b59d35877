"""`openipu doctor`: what it looks at, and that only essential faults make it fail."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import textwrap

import pytest

from openipu.cli import checks, front_ends
from openipu.cli.checks import State
from openipu.cli.cores import Cores, count_cores
from openipu.cli.front_ends import FrontEnd
from openipu.environment.extras import suggest_install
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
    monkeypatch.setitem(front_ends.PROVIDED, "poptorch_that_is_absent", FrontEnd("absent"))
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
        ("tessellate_ipu", "tessellate_ipu"),
        ("tessellate_ipu.core", "tessellate_ipu"),
        ("tensorflow", None),
        ("nunpy", None),
    ],
)
def test_a_failed_import_is_matched_with_planned_front_ends(missing, planned):
    assert front_ends.find_planned(missing) == planned


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("tessellate_ipu.core", "does not provide tessellate_ipu yet"),
        (
            "tensorflow",
            f"tensorflow.python.ipu needs tensorflow, which is not installed: {suggest_install('tensorflow')}",
        ),
        ("keras", f"keras.ipu needs keras, which is not installed: {suggest_install('tensorflow')}"),
        ("tensorflow.python.ipu.serving2", "openipu has no tensorflow.python.ipu.serving2"),
    ],
)
def test_a_failed_import_of_a_front_end_says_what_to_do(missing, said):
    explanation = front_ends.explain_import(missing)
    assert explanation is not None
    assert said in explanation


def test_a_failed_import_of_anything_else_is_left_alone():
    assert front_ends.explain_import("nunpy") is None
    assert front_ends.explain_import("torchvision") is None


def test_an_absent_package_is_optional():
    check = checks.check_package("a-package-nobody-has", "nobody_has_it", "say why")
    assert (check.state, check.remedy) == (State.ABSENT, "say why")


def test_a_package_that_does_not_import_is_not_called_ok():
    check = checks.check_package("pytest", "a_module_that_pytest_lacks", "say why")
    assert check.state is State.DOUBTFUL
    assert "does not import: ModuleNotFoundError" in check.finding


def write_front_end(folder, monkeypatch, source):
    (folder / "front_end_of_a_test.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "front_end_of_a_test", raising=False)
    front_end = FrontEnd("a title", names=("Trainer",), extra="hf")
    monkeypatch.setattr(front_ends, "PROVIDED", {"front_end_of_a_test": front_end})
    (check,) = checks.check_front_ends()
    return check


def test_a_front_end_is_ok_only_if_its_names_import(tmp_path, monkeypatch):
    source = "def __getattr__(name):\n    import a_package_of_an_extra.deep"
    check = write_front_end(tmp_path, monkeypatch, source)
    assert check.state is State.ABSENT
    assert check.finding == "a title: needs a_package_of_an_extra, which is not installed"
    assert "[hf]" in check.remedy


def test_a_front_end_without_a_name_or_a_module_of_its_own_is_broken(tmp_path, monkeypatch):
    assert write_front_end(tmp_path, monkeypatch, "").state is State.BROKEN
    source = "def __getattr__(name):\n    import front_end_of_a_test.trainer"
    assert write_front_end(tmp_path, monkeypatch, source).state is State.BROKEN


def test_optimum_without_its_extra_is_not_called_ok(tmp_path):
    """In a process of its own, in which the packages of the extra cannot be found."""
    script = """
        import sys
        for package in ("transformers", "datasets", "accelerate"):
            sys.modules[package] = None
        try:
            from optimum.graphcore import IPUTrainer
        except ModuleNotFoundError as error:
            print(error)
        from openipu.cli.front_ends import probe_front_ends
        print(*(state.install for state in probe_front_ends() if state.module == "optimum.graphcore"))
    """
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    sentence, commands = done.stdout.splitlines()
    assert sentence.startswith("optimum.graphcore.IPUTrainer needs ")
    assert sentence.endswith(f"which is not installed: {suggest_install('hf')}")
    assert commands == suggest_install("hf")


@pytest.mark.parametrize(
    ("threads", "cores", "state"),
    [
        (2, Cores(allowed=2, machine=2, load=0.3), State.GOOD),
        (2, Cores(allowed=2, machine=2, load=1.2), State.DOUBTFUL),
        (8, Cores(allowed=2, machine=64, load=0.0), State.DOUBTFUL),
        (2, Cores(allowed=2, machine=64, load=12.0), State.GOOD),
        (1, Cores(allowed=2, machine=2, load=15.0), State.GOOD),
    ],
)
def test_more_threads_than_free_cores_are_doubtful(threads, cores, state):
    check = checks.check_threads(threads, cores)
    assert check.state is state
    assert ("OMP_NUM_THREADS" in check.remedy) == (state is State.DOUBTFUL)


def test_a_containers_quota_limits_the_cores(tmp_path):
    quota = tmp_path / "cpu.max"
    without = count_cores(quota).allowed
    quota.write_text("max 100000\n")
    assert count_cores(quota).allowed == without
    quota.write_text("150000 100000\n")
    assert count_cores(quota).allowed == 1


def test_an_interpreter_without_the_start_up_hook_is_doubtful(monkeypatch):
    assert checks.check_startup().state is State.GOOD
    monkeypatch.setattr(sys, "meta_path", [])
    check = checks.check_startup()
    assert check.state is State.DOUBTFUL
    assert "pip" in check.remedy
