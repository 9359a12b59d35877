"""C++ programs against our own headers and library: built by the system's compiler, run beside the engine's process."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from openipu.cli.main import main
from poplar.native.prefix import find_prefix

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")

SOURCES = Path(__file__).parent / "cxx"


@pytest.fixture(scope="module")
def prefix() -> Path:
    return find_prefix()


@pytest.fixture
def build(prefix: Path, tmp_path: Path):
    """Compile as the oldest standard that programs use, with warnings as errors, and return how to run it."""

    def compile_and_run(name: str, **environment: str) -> subprocess.CompletedProcess[str]:
        program = tmp_path / name
        source = SOURCES / f"{name}.cpp"
        flags = ["-std=c++11", "-Wall", "-Werror", "-isystem", str(prefix / "include")]
        subprocess.run(
            ["g++", *flags, str(source), f"-L{prefix}/lib", "-lpoplar", "-lpoputil", "-o", str(program)], check=True
        )
        return subprocess.run(
            [str(program)], capture_output=True, text=True, timeout=1800, env={**os.environ, **environment}
        )

    return compile_and_run


def read_table(output: str) -> dict[str, list[str]]:
    return {line.split("|")[0]: line.split("|")[1:] for line in output.splitlines()}


def test_views_have_the_elements_that_numpy_says(build) -> None:
    done = build("views")
    assert done.returncode == 0, done.stderr
    found = read_table(done.stdout)
    t = np.arange(24).reshape(2, 3, 4)
    expected = {
        "index": t[1],
        "index twice": t[1][2],
        "slice": t[:, 1:3],
        "slice all": t[:, 1:3, 1:3],
        "shuffle": t.transpose(2, 0, 1),
        "shuffle partial": t.transpose(2, 0, 1),
        "roll": t.transpose(2, 0, 1),
        "reverse": t[:, ::-1],
        "sample": t[:, :, ::2],
        "flatten": t.transpose(1, 0, 2).reshape(-1),
        "flatten partial": t.reshape(2, 12),
        "reshape": t.reshape(4, 6),
        "reshape shuffled": t.transpose(1, 2, 0).reshape(6, 4),
        "broadcast": np.tile(t[:1], (3, 1, 1)),
        "broadcast more": np.tile(t[:, :2], (1, 2, 1)),
        "upsample": np.repeat(t[:1], 2, axis=2),
        "concat": np.concatenate([t[0], t[1][::-1]], axis=1),
        "concat sliced": np.concatenate([t[0], t[1]])[2:5].T,
        "append": np.concatenate([t[0][:2], t[1][:1]]),
        "expand": t.reshape(1, 2, 3, 1, 4),
        "squeeze": t[:, 0],
    }
    for name, array in expected.items():
        shape, elements = found[name]
        assert shape == "{" + ",".join(map(str, array.shape)) + "}", name
        assert [int(one) for one in elements.split()] == array.reshape(-1).tolist(), name
    assert found["mapping"] == ["4", "[0,24)"]
    assert found["regions"] == ["2", "1"]


def test_programs_streams_callbacks_and_codelets_work_from_cpp(build) -> None:
    done = build("programs")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "repeat 16 17",  # 1 + 4 * 3, and once more: nothing has set `go`
        "while 22 23",  # 16, 19, 22: the first that is not below 20
        "switch 28 29",  # case 7 calls the function: twice
        "while and one 31 32",  # not below 20, and the addition after the loop
        "ring 10 11 12 13",
        "ring again 40 15 10 11",
        "no end 10 11 10 11",
        "callback 102 103",
        "drained 204 completed 2",
        "host function 204 206",
        "remote 102 103",
        "thrown mine",  # by a host function: the program's own exception comes through, and the engine goes on
        "x: [204 206]",
        f"application_runtime_error enough ({SOURCES / 'programs.cpp'}:95 in main)",
    ]


def test_mistakes_are_the_originals_exceptions_and_name_the_place(build) -> None:
    done = build("mistakes")
    assert done.returncode == 0, done.stderr
    found = read_table(done.stdout)
    line = f"{SOURCES / 'mistakes.cpp'}:"
    expected = {
        "vertex": ("unknown_vertex_type", "There is no codelet 'Nothing'"),
        "field": ("unknown_field", "has no field 'c'. Its fields: a, b"),
        "type": ("type_error", f"a Copy1 (added at {line}"),
        "rank": ("graph_connection_error", "needs a scalar"),
        "tile": ("invalid_tile_mapping", "tile 2 does not exist: the graph has 2 tiles"),
        "index": ("index_error", "Index 4 is outside of a tensor of shape {4}"),
        "slice": ("index_error", "slice(3, 5, 0) is outside"),
        "reshape": ("poplar_error", "{3} has 3 elements, and the tensor has 4"),
        "codelets": ("file_load_error", "missing.cpp cannot be read"),
        "unconnected": ("graph_connection_error", "is not connected"),
        "option": ("invalid_option", "debug.unknown"),
        "copy": ("type_error", "element types differ"),
        "unmapped": ("invalid_tile_mapping", "u"),
        "not loaded": ("runtime_error", "not loaded"),
        "stream": ("stream_connection_error", "'stream'"),
        "program": ("control_program_error", "There is no program 1"),
        "buffer": ("stream_connection_error", "moves 16 bytes at a time"),
        "handle": ("tensor_io_state_error", "There is no handle 'nobody'"),
        "model": ("invalid_machine_model", "ipu9"),
        "constant": ("graph_connection_error", "is a constant"),
    }
    assert set(found) == set(expected)
    for name, (kind, words) in expected.items():
        assert found[name][0] == kind, (name, found[name])
        assert words in found[name][1], (name, found[name])


def test_a_python_without_openipu_is_explained(build) -> None:
    done = build("mistakes", OPENIPU_PYTHON="/nowhere/python")
    assert done.returncode != 0
    assert "/nowhere/python cannot be started" in done.stderr
    assert "OPENIPU_PYTHON names another one" in done.stderr


def test_the_command_prints_what_compilers_need(prefix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def ask(*arguments: str) -> str:
        assert main(["cxx-flags", *arguments]) == 0
        return capsys.readouterr().out.strip()

    assert ask("--cflags") == f"-isystem {prefix}/include"
    assert ask("--libs") == f"-L{prefix}/lib -lpoplar"
    assert ask() == f"-isystem {prefix}/include -L{prefix}/lib -lpoplar"
    assert ask("--prefix") == str(prefix)
    assert f"export LIBRARY_PATH={prefix}/lib${{LIBRARY_PATH:+:$LIBRARY_PATH}}" in ask("--environment").splitlines()


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake")
def test_cmake_finds_the_package_and_its_targets(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(
        "#include <poplar/Target.hpp>\n#include <popops/ElementWise.hpp>\n"
        "int main() { return poplar::Target::createCPUTarget().getNumTiles() == 1 ? 0 : 1; }\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(probe CXX)\nfind_package(poplar REQUIRED)\n"
        "find_package(poplibs REQUIRED)\nadd_executable(probe main.cpp)\ntarget_link_libraries(probe poplar popops)\n"
    )
    for command in (
        ["cmake", "-S", ".", "-B", "out", f"-DCMAKE_PREFIX_PATH={prefix}"],
        ["cmake", "--build", "out"],
        ["out/probe"],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_server_ends_with_its_program() -> None:
    ours, theirs = socket.socketpair()
    number = theirs.fileno()
    child = subprocess.Popen([sys.executable, "-m", "poplar.server", str(number)], pass_fds=[number])
    theirs.close()
    assert ours.recv(1)
    ours.close()
    assert child.wait(timeout=1800) == 0


def test_library_functions_give_torchs_results(build) -> None:
    done = build("libraries")
    assert done.returncode == 0, done.stderr
    found = read_table(done.stdout)
    a = 0.25 * torch.arange(12.0).reshape(3, 4)
    labels = torch.tensor([3, 0, 3])
    softmax = torch.softmax(a, 1)
    hot = torch.nn.functional.one_hot(labels, 4).float()
    padded = torch.nn.functional.pad(a, (0, 0, 1, 0))
    kernel = torch.tensor([[1.0, 2], [3, 4]])
    expected = {
        "add": a + 2,
        "sub": 1.5 - a,
        "map": torch.where(a > 1, a * 2 + a.flip(1), torch.exp(-a)),
        "tanh": torch.tanh(a),
        "less": (a < a.flip(0)).float(),
        "reduce": a.sum(0),
        "reduce max": a.amax(1),
        "int": a.to(torch.int32).float(),
        "scaled": a + 0.5 * a.flip(1),
        "product": a @ a.T,
        "softmax": softmax,
        "log softmax": torch.log_softmax(a, 1),
        "arg max": torch.zeros(3),
        "loss": -torch.log(softmax.gather(1, labels[:, None])[:, 0]),
        "deltas": softmax - hot,
        "correct": torch.tensor([4.0]),  # two of three, twice: the count goes on from what is there
        "slice": a[1:3],
        "gather": a[[2, 0]],
        "top": a.flip(1)[:, :2],
        "sort": a,
        "iota": torch.arange(5.0, 9.0),
        "hot": hot,
        "pad": torch.nn.functional.pad(a, (0, 1, 1, 0), value=7.0),
        "broadcast": a[1].expand(2, 4),
        "convolution": torch.nn.functional.conv2d(padded[None, None], kernel[None, None]),
        "loop": torch.tensor([7.0]),  # 2 + 5
    }
    for name, tensor in expected.items():
        shape, elements = found[name]
        assert shape == "{" + ",".join(map(str, tensor.shape)) + "}", name
        values = torch.tensor([float(one) for one in elements.split()])
        torch.testing.assert_close(values, tensor.reshape(-1), msg=lambda text, name=name: f"{name}: {text}")
    drawn = [float(one) for one in found["uniform"][1].split()]
    assert len(set(drawn)) == 12
    assert all(-1 <= one <= 2 for one in drawn)
