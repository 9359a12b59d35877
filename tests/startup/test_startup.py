"""The start-up hook: there in every process, costs nothing before it is needed, and breaks nobody's import."""

import os
import subprocess
import sys
import textwrap
from importlib.metadata import files
from pathlib import Path

import pytest

import openipu_startup

SOURCE = str(Path(openipu_startup.__file__).parents[1])


def run_python(tmp_path, script, *flags, **environment):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    command = [sys.executable, *flags, str(path)]
    environment = {**os.environ, "OPENIPU_ENGINE": "operators", **environment}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def write_package(tmp_path, monkeypatch, name, extension):
    """A package to be extended, and the module that extends it."""
    (tmp_path / f"{name}.py").write_text("value = 1\n")
    (tmp_path / "extending.py").write_text(textwrap.dedent(extension))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(openipu_startup.EXTENSIONS, name, "extending:extend")
    for module in (name, "extending"):
        monkeypatch.delitem(sys.modules, module, raising=False)


def test_the_hook_is_part_of_this_installation():
    assert "openipu.pth" in [str(file) for file in files("openipu")]


@pytest.mark.parametrize("flags", [(), ("-E",), ("-I",), ("-s",), ("-O",)])
def test_every_interpreter_of_the_environment_has_the_hook(tmp_path, flags):
    script = "import sys; print([type(finder).__module__ for finder in sys.meta_path if not isinstance(finder, type)])"
    assert "openipu_startup" in run_python(tmp_path, script, *flags).stdout


def test_an_interpreter_without_site_packages_starts_as_ever(tmp_path):
    done = run_python(tmp_path, "import sys; print('openipu_startup' in sys.modules)", "-S")
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_the_hook_imports_itself_and_nothing_more(tmp_path):
    script = f"""
        import sys
        sys.path.insert(0, {SOURCE!r})
        before = set(sys.modules)
        import openipu_startup
        openipu_startup.install()
        print(sorted(set(sys.modules) - before))
    """
    assert run_python(tmp_path, script, "-I", "-S").stdout.strip() == "['openipu_startup']"


def test_installing_twice_leaves_one_finder():
    openipu_startup.install()
    openipu_startup.install()
    assert [type(finder).__name__ for finder in sys.meta_path].count("_Finder") == 1
    assert openipu_startup.is_installed()


def test_an_extension_runs_once_its_package_is_loaded(tmp_path, monkeypatch):
    extension = "import sys\ndef extend(name): sys.modules[name].added = sys.modules[name].value + 1"
    write_package(tmp_path, monkeypatch, "extended_package", extension)
    import extended_package

    assert extended_package.added == 2


def test_looking_for_a_package_does_not_load_its_extension(tmp_path, monkeypatch):
    import importlib.util

    write_package(tmp_path, monkeypatch, "sought_package", "raise SystemExit('loaded')")
    assert importlib.util.find_spec("sought_package") is not None
    monkeypatch.setitem(openipu_startup.EXTENSIONS, "a_package_nobody_has", "extending:extend")
    assert importlib.util.find_spec("a_package_nobody_has") is None


@pytest.mark.parametrize("extension", ["raise OSError('no such thing')", "def extend(name): raise KeyError('new')", ""])
def test_an_extension_that_fails_leaves_the_package_usable_and_warns(tmp_path, monkeypatch, extension):
    write_package(tmp_path, monkeypatch, "plain_package", extension)
    with pytest.warns(RuntimeWarning, match="could not make IPUs known to plain_package"):
        import plain_package

    assert plain_package.value == 1


def test_a_package_that_fails_itself_fails_as_without_the_hook(tmp_path, monkeypatch):
    write_package(tmp_path, monkeypatch, "broken_package", "raise SystemExit('loaded')")
    (tmp_path / "broken_package.py").write_text("raise ValueError('of its own')")
    with pytest.raises(ValueError, match="of its own"):
        import broken_package  # noqa: F401


def test_packages_in_a_zip_file_are_extended_alone(tmp_path, monkeypatch):
    import zipfile

    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("packed_package.py", "import packed_other\nvalue = 1\n")
        archive.writestr("packed_other.py", "value = 2\n")
    (tmp_path / "extending.py").write_text("calls = []\ndef extend(name): calls.append(name)")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path / "packed.zip"))
    monkeypatch.setitem(openipu_startup.EXTENSIONS, "packed_package", "extending:extend")
    monkeypatch.delitem(sys.modules, "extending", raising=False)
    import extending
    import packed_package

    assert (packed_package.value, extending.calls) == (1, ["packed_package"])


def test_pytest_does_not_complain_of_the_hook(tmp_path):
    """It rewrites the modules of its plugins' distributions, and warns of those that are imported already."""
    script = "import pytest; print(pytest.main(['-W', 'error::pytest.PytestAssertRewriteWarning', '--collect-only']))"
    assert "no tests collected" in run_python(tmp_path, script).stdout
