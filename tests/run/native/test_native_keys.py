"""Native code is found again under a key that holds all that it depends on, whatever is added later."""

import subprocess
import sys
from pathlib import Path

import pytest

import openipu
from openipu.graph import RunOptions, describe_options
from openipu.run.native import source_files
from openipu.store.keys import digest_sources

pytestmark = pytest.mark.slow

SOURCES = Path(openipu.__file__).parent
# What the compiling process imports beside the folders that are digested: none of it decides what a graph computes.
_BESIDE = {"activity", "environment", "errors", "files", "heartbeat", "store", "trace"}


def test_a_name_that_is_no_option_cannot_be_left_out():
    with pytest.raises(ValueError, match="There is no option teir"):
        describe_options(RunOptions(), without=("teir",))


def test_all_code_that_can_end_up_in_a_graph_is_in_the_digest():
    script = (
        "import sys, openipu.run.native.worker, openipu.run.engines.supervisor; "
        "print(*(m for m in sys.modules if m.startswith('openipu.')))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = {name.split(".")[1] for name in ended.stdout.split()}
    from openipu.store.keys import COMPILING_FOLDERS

    assert {"numerics", "graph", "run"} <= imported & set(COMPILING_FOLDERS)
    assert imported - set(COMPILING_FOLDERS) <= _BESIDE


@pytest.mark.parametrize("folder", ["numerics", "graph", "run", "run/native"])
def test_an_edit_anywhere_in_that_code_is_noticed(tmp_path, folder):
    package = tmp_path / "openipu"
    for path in SOURCES.rglob("*.py"):
        copy = package / path.relative_to(SOURCES)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    before = digest_sources(package)
    assert before == digest_sources(SOURCES)
    edited = sorted((package / folder).glob("*.py"))[-1]
    edited.write_bytes(edited.read_bytes() + b"# other\n")
    assert digest_sources(package) != before


def test_the_key_of_native_code_holds_that_digest():
    script = (
        "import sys; from openipu.store import keys; "
        "keys.digest_sources = (lambda package: sys.argv[1]); "
        "from openipu.run.native import make_native_key; print(make_native_key({}))"
    )
    found = [
        subprocess.run([sys.executable, "-c", script, text], capture_output=True, text=True, check=True).stdout
        for text in ("a", "b", "a")
    ]
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize(
    ("capability", "machine", "narrower"),
    [
        ("AVX512", "x86_64", []),
        ("AVX2", "x86_64", ["-mno-avx512f"]),
        ("DEFAULT", "x86_64", ["-mno-avx"]),
        ("DEFAULT", "aarch64", []),
    ],
)
def test_our_code_has_vectors_no_wider_than_pytorchs(monkeypatch, capability, machine, narrower):
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: capability)
    monkeypatch.setattr("platform.machine", lambda: machine)
    flags = source_files.list_flags()
    assert [flag for flag in flags if flag.startswith("-mno-")] == narrower


def test_the_key_of_our_code_holds_its_flags(monkeypatch):
    usual = source_files.write_source_job("kernels", "int one;").key
    monkeypatch.setattr(source_files, "list_flags", lambda: ["-mno-fma"])
    assert source_files.write_source_job("kernels", "int one;").key != usual
