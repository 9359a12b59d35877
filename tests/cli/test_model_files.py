"""ONNX files on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

Call = Callable[..., tuple[int, str, str]]
WEIGHT = np.linspace(-1, 1, 128, dtype=np.float32).reshape(16, 8)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="/head/product")],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])],
        [numpy_helper.from_array(WEIGHT, "w")],
    )
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_plan_takes_sizes_by_input_and_by_dimension(model: Path, call: Call) -> None:
    rates = []
    for words in (("--input", "x=8,16"), ("--dimension", "batch=8")):
        code, out, err = call("plan", "--json", str(model), *words)
        assert code == 0, err
        (job,) = json.loads(out)["jobs"]
        assert job["name"] == "small"
        rates.append(job["samples_per_second"])
    assert rates[0] == rates[1]


def test_plan_asks_for_sizes_that_are_missing(model: Path, call: Call) -> None:
    code, _, err = call("plan", str(model))
    assert code == 2
    assert "--dimension batch=8" in err


@pytest.mark.parametrize(
    "words", [("--input", "x"), ("--input", "x=a"), ("--dimension", "batch=1,2"), ("--input", "x=-1,16")]
)
def test_words_that_are_no_sizes_are_refused(words: tuple[str, ...], model: Path, call: Call) -> None:
    code, _, err = call("plan", str(model), *words)
    assert code == 2
    assert words[0] in err


def test_sizes_without_a_model_file_are_refused(call: Call) -> None:
    code, _, err = call("plan", "package.module:job", "--dimension", "batch=8")
    assert code == 2
    assert "for model files" in err


def test_a_model_file_that_is_not_there_is_named(call: Call) -> None:
    code, _, err = call("plan", "missing.onnx")
    assert code == 2
    assert "There is no file missing.onnx" in err


def test_auto_sweep_and_compare_take_a_model_file(model: Path, call: Call) -> None:
    size = ("--dimension", "batch=4")
    assert call("auto", str(model), *size, "--json")[0] == 0
    code, out, err = call("sweep", str(model), "batch=4,8", *size, "--no-cache", "--processes", "1", "--json")
    assert code == 0, err
    assert len(json.loads(out)["rows"]) == 2
    code, _, err = call("compare", str(model), str(model), *size, "--json")
    assert code == 0, err


def test_run_computes_results_by_name(model: Path, call: Call, tmp_path: Path) -> None:
    x = np.linspace(0, 1, 48, dtype=np.float32).reshape(3, 16)
    np.savez(tmp_path / "in.npz", x=x)
    code, out, err = call(
        "run", str(model), "--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")
    )
    assert code == 0, err
    assert "y: float32 [3, 8]" in out
    assert "small on bow-2000 (modelled)" in err
    with np.load(tmp_path / "out.npz", allow_pickle=False) as found:
        np.testing.assert_allclose(found["y"], x @ WEIGHT, rtol=1e-5, atol=1e-5)


def test_run_says_which_inputs_a_model_has(model: Path, call: Call, tmp_path: Path) -> None:
    code, _, err = call("run", str(model))
    assert code == 2
    assert "needs the input 'x'" in err
    np.savez(tmp_path / "in.npz", x=np.array(["a"], dtype=object))
    code, _, err = call("run", str(model), "--inputs", str(tmp_path / "in.npz"))
    assert code == 2
    assert "not an array of numbers" in err


def test_run_checks_no_names_of_a_model(model: Path, call: Call) -> None:
    code, _, err = call("run", "--check", str(model))
    assert code == 2
    assert "--check is for scripts" in err


def test_an_array_file_that_is_damaged_or_a_bomb_is_refused(model: Path, call: Call, tmp_path: Path) -> None:
    import zipfile

    path = tmp_path / "in.npz"
    path.write_bytes(b"PK\x03\x04 no zip")
    assert "damaged" in call("run", str(model), "--inputs", str(path))[2]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("x.npy", "w") as member:
        for _ in range(300):
            member.write(bytes(1 << 20))
    code, _, err = call("run", str(model), "--inputs", str(path))
    assert code == 2
    assert "would unpack to" in err
    header = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117)
        + b"\n"
    )
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", header)
    code, _, err = call("run", str(model), "--inputs", str(path))
    assert code == 2
    assert "could hold" in err
