"""A Paddle model of the new form on the command line, without Paddle and without its weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

MODEL = str(Path(__file__).parents[1] / "translate" / "paddle_transformer.json")
Call = Callable[..., tuple[int, str, str]]


def test_plan_auto_sweep_and_compare_take_it(call: Call) -> None:
    code, out, err = call("plan", MODEL, "--json")
    assert code == 0, err
    (job,) = json.loads(out)["jobs"]
    assert job["name"] == "paddle_transformer"
    assert job["samples_per_second"] > 0
    assert call("auto", MODEL, "--json")[0] == 0
    code, out, err = call("sweep", MODEL, "batch=2,4", "--no-cache", "--processes", "1", "--json")
    assert code == 0, err
    assert len(json.loads(out)["rows"]) == 2
    code, out, err = call("compare", MODEL, MODEL, "--json")
    assert code == 0, err


@pytest.mark.parametrize("command", ["run", "export"])
def test_what_needs_weights_says_that_they_are_not_there(command: str, call: Call, tmp_path: Path) -> None:
    import numpy as np

    np.savez(tmp_path / "in.npz", words=np.zeros((2, 8), dtype=np.int64))
    words = ["--inputs", str(tmp_path / "in.npz")] if command == "run" else ["-o", str(tmp_path / "out.onnx")]
    code, _, err = call(command, MODEL, *words)
    assert code == 2
    assert "paddle_transformer.pdiparams" in err
    assert not list(tmp_path.glob("*.onnx"))


def test_a_document_that_is_no_program_is_refused(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"model": "resnet"}')
    code, _, err = call("plan", str(path))
    assert code == 2
    assert "settings.json" in err
    assert "Paddle" in err
