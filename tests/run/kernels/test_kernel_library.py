"""Kernels from the compiler to the call: records, broken libraries, missing compilers, operands that do not fit."""

from __future__ import annotations

import ctypes
import logging
import os
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from openipu.capture import capture_program
from openipu.graph import EngineMode, RunOptions
from openipu.run import Executable
from openipu.run.kernels import (
    Function,
    KernelProvider,
    OperandError,
    UnusableLibraryError,
    address_of,
    address_of_lines,
    address_of_matrix,
    address_of_rows,
    load_kernel,
)
from openipu.run.kernels.build import make_kernel_key
from openipu.run.kernels.catalog import COMPUTE_GELU, DROPOUT, GELU, GEMV, KERNELS, DropoutArguments, GeluArguments
from openipu.run.kernels.kernel import CPP_FOLDER
from openipu.run.rewrites.products.weight_gradients import add_columns
from openipu.store import LIBRARIES, Part, open_store

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
PATIENCE_SECONDS = 300  # a guard against hangs on a busy machine, nothing else
KINDS = {"int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32, "float": ctypes.c_float, "double": ctypes.c_double}


@pytest.fixture
def store(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o700)
    return open_store(tmp_path / "cache")


def read_struct(source: str, name: str) -> list[tuple[str, object]]:
    """The fields of a struct of a C++ file, as ctypes has them."""
    (body,) = re.findall(rf"struct {name} {{(.*?)\n}};", source, re.DOTALL)
    fields: list[tuple[str, object]] = []
    for line in re.sub(r"//.*", "", body).split(";"):
        declared = line.replace("const ", "").split(None, 1)
        for variable in declared[1].split(",") if len(declared) == 2 else ():
            pointer = "*" in line
            array = re.fullmatch(r"(\w+)\[(\d+)\]", variable.strip())
            kind = ctypes.c_void_p if pointer else KINDS[declared[0]]
            fields.append((array[1], kind * int(array[2])) if array else (variable.strip(" *\n"), kind))
    return fields


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.source)
def test_records_and_cpp_files_have_the_same_structs(kernel):
    source = (CPP_FOLDER / kernel.source).read_text()
    for function in kernel.functions:
        assert read_struct(source, function.arguments.__name__) == list(function.arguments._fields_)
        assert re.search(rf"\b{function.symbol}\b", source)


def test_records_name_files_and_functions():
    assert {kernel.source for kernel in KERNELS} == {path.name for path in CPP_FOLDER.glob("*.cpp")}
    symbols = [function.symbol for kernel in KERNELS for function in kernel.functions]
    assert len(set(symbols)) == len(symbols)
    assert all(kernel.dtypes for kernel in KERNELS)


def put_compiler(folder: Path, script: str) -> None:
    folder.mkdir(exist_ok=True)
    for name in ("g++", "c++", "clang++"):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)


GARBAGE = 'while [ $# -gt 0 ]; do if [ "$1" = -o ]; then echo garbage > "$2"; fi; shift; done'
HALF_A_LIBRARY = '"{compiler}" "$@" && for last; do :; done && truncate -s $(($(stat -c %s "$last") / 2)) "$last"'


@needs_compiler
@pytest.mark.parametrize("script", [GARBAGE, HALF_A_LIBRARY, "exit 0"], ids=["garbage", "half", "nothing"])
def test_a_compiler_that_writes_no_library_leaves_nothing_in_the_cache(store, tmp_path, monkeypatch, caplog, script):
    real = os.environ["PATH"]
    put_compiler(tmp_path / "bin", script.replace("{compiler}", shutil.which("g++")))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{real}")
    provider = KernelProvider(store)
    assert GEMV not in provider.obtain([GEMV])
    assert provider.explain_failure(GEMV)
    assert store.list() == ()
    assert [record.levelname for record in caplog.records if "matrix-vector" in record.message] == ["WARNING"]
    monkeypatch.setenv("PATH", real)
    assert GEMV in KernelProvider(store).obtain([GEMV])


@needs_compiler
@pytest.mark.parametrize("content", [b"garbage", b"\x7fELF" + bytes(2000)], ids=["text", "header"])
def test_a_broken_library_in_the_cache_is_removed_and_compiled_again(store, caplog, content):
    key = make_kernel_key(GEMV)
    store.write(key, {"kernel.so": Part(content, native=True)}, {"program": "broken"}).close()
    provider = KernelProvider(store)
    assert GEMV not in provider.load([GEMV])
    assert "unusable" in caplog.text
    assert store.read(key) is None
    assert GEMV in provider.obtain([GEMV])


@needs_compiler
def test_the_check_of_a_cache_finds_libraries_that_cannot_be_loaded(store):
    KernelProvider(store).obtain([GEMV])
    described = {"multiply_vector": ctypes.sizeof(GEMV.functions[0].arguments)}
    store.write("0" * 64, {"kernel.so": Part(b"garbage", native=True)}, {LIBRARIES: {"kernel.so": described}}).close()
    (found,) = store.verify()
    assert found.key == "0" * 64
    assert "kernel.so" in found.reason
    assert [entry.key for entry in store.list()] == [make_kernel_key(GEMV)]


@needs_compiler
def test_a_library_whose_structs_have_another_size_is_not_used(store):
    loaded = KernelProvider(store).obtain([GELU])[GELU]
    entry = store.read(make_kernel_key(GELU))
    other = replace(GELU, functions=(Function("compute_gelu", DropoutArguments),))
    with pytest.raises(UnusableLibraryError, match="bytes"):
        load_kernel(other, entry.find("kernel.so"))
    with pytest.raises(UnusableLibraryError, match="cannot be loaded"):
        load_kernel(replace(GELU, functions=(Function("no_such", GeluArguments),)), entry.find("kernel.so"))
    with pytest.raises(ctypes.ArgumentError):
        loaded[COMPUTE_GELU](DropoutArguments())


def test_without_a_compiler_one_warning_says_what_it_costs(store, monkeypatch, caplog):
    monkeypatch.setenv("CXX", "no-such-compiler")
    provider = KernelProvider(store)
    provider.request([GELU, GEMV])
    assert len(provider.obtain([GELU, DROPOUT])) == 0
    (warning,) = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert "no C++ compiler" in warning
    assert "times" in warning
    assert "g++" in warning


@needs_compiler
def test_kernels_are_compiled_one_after_the_other_in_the_background(store):
    provider = KernelProvider(store)
    provider.request([GEMV, GELU])
    assert provider.busy
    deadline = time.monotonic() + PATIENCE_SECONDS
    while provider.busy:
        assert time.monotonic() < deadline
        provider.poll()
        time.sleep(0.01)
    assert set(provider.library) == {GEMV, GELU}
    assert set(KernelProvider(store).load([GEMV, GELU])) == {GEMV, GELU}


@needs_compiler
def test_two_processes_compile_a_kernel_once(store):
    first, second = KernelProvider(store), KernelProvider(store)
    first.request([GEMV])
    second.request([GEMV])
    assert first.build.process is not None
    assert second.build.process is None, "it waits for the first one"
    first.obtain([GEMV])
    deadline = time.monotonic() + PATIENCE_SECONDS
    while GEMV not in second.poll():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_wanted_no_more_is_stopped(store):
    provider = KernelProvider(store)
    if shutil.which("g++") is None:
        pytest.skip("needs a C++ compiler")
    provider.request([GEMV, GELU])
    provider.close()
    assert not provider.busy
    assert store.list() == ()


def test_addresses_are_those_of_operands_that_fit_alone():
    values = torch.zeros(4, 6)
    assert address_of(values, 24) == values.data_ptr()
    for wrong in (values.half(), values.t(), values[:, :3], values.double(), values[0]):
        with pytest.raises(OperandError):
            address_of(wrong, 24)
    with pytest.raises(OperandError):
        address_of(values.t(), 24, order=torch.contiguous_format)
    assert address_of_rows(values[:, :3], 4, 3) == (values.data_ptr(), 6)
    for wrong in (values.t(), values.half(), values[:1].expand(4, 6)):
        with pytest.raises(OperandError):
            address_of_rows(wrong, *wrong.shape)
    assert address_of_matrix(values.t().half(), 6, 4)[1:] == (1, 6, True)
    for wrong in (values.double(), values[0]):
        with pytest.raises(OperandError):
            address_of_matrix(wrong, 4, 6)
    assert address_of_lines(values[:, :3], (4, 3)) == values.data_ptr()
    with pytest.raises(OperandError):
        address_of_lines(values.t(), (6, 4))


@needs_compiler
def test_a_total_in_half_is_added_to_by_operators(use_kernels):
    def refuse(arguments):
        raise AssertionError("the kernel was called")

    left, right, total = torch.randn(32, 64), torch.randn(32, 64), torch.randn(64, 64).half()
    expected = total.float() + left.t() @ right
    assert add_columns(total, left, right, 1.0, refuse) is total
    torch.testing.assert_close(total.float(), expected, rtol=1e-2, atol=1e-2)


class Words(nn.Module):
    """A matrix-vector product that is large enough."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2048, 2048)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


@needs_compiler
def test_a_program_that_runs_uses_kernels_once_all_of_them_are_there(store, monkeypatch):
    monkeypatch.setenv("OPENIPU_COMPILE_AFTER", "0")
    model, x = Words().eval(), torch.randn(1, 2048)
    program = capture_program(model, (x,), {}, training=False, optimizer=None, name="words")
    provider = KernelProvider(store)
    executable = Executable(program, RunOptions(engine=EngineMode.AUTO), provider)
    executable.load_weights(dict(model.named_parameters()), {})
    deadline = time.monotonic() + PATIENCE_SECONDS
    modes = []
    while not modes or modes[-1] is EngineMode.OPERATORS:
        assert time.monotonic() < deadline
        found = executable.run([x]).outputs[0]
        torch.testing.assert_close(found, model(x).detach(), rtol=1e-4, atol=1e-5)
        modes.append(executable.engine_mode)
    assert modes[0] is EngineMode.OPERATORS
    torch.testing.assert_close(executable.run([x]).outputs[0], model(x).detach(), rtol=1e-4, atol=1e-5)
    started = Executable(program, RunOptions(engine=EngineMode.KERNELS), KernelProvider(store))
    assert started.compile() is EngineMode.KERNELS


def test_tensors_become_pointers_in_one_place_alone():
    """What hands memory to a kernel has checked it."""
    sources = CPP_FOLDER.parents[1].rglob("*.py")
    callers = [
        path for path in sources if "openipu.run.kernels" in path.read_text() and "data_ptr(" in path.read_text()
    ]
    assert [path.name for path in callers if path.name != "codegen.py"] == []
