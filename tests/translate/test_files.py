"""ONNX files: shapes that they leave open, weights beside them, and what planning reads of them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from onnx_models import make_model, make_perceptron

from openipu.errors import InputError, TranslationError
from openipu.graph import note_of
from openipu.jobs import capture_job, run_job
from openipu.model_files import Sizes, load_file_job, run_file
from openipu.translate.onnx.reading import read_model


def save(model: onnx.ModelProto, path: Path, *, beside: str = "") -> Path:
    if beside:
        onnx.save(model, path, save_as_external_data=True, location=beside, size_threshold=0)
    else:
        onnx.save(model, path)
    return path


def compute_perceptron(model: onnx.ModelProto, x: torch.Tensor) -> torch.Tensor:
    first, second = (torch.from_numpy(onnx.numpy_helper.to_array(entry).copy()) for entry in model.graph.initializer)
    return torch.relu(x @ first) @ second


def test_a_file_runs_on_named_inputs_and_gives_named_outputs(tmp_path: Path) -> None:
    model, x = make_perceptron(), torch.randn(3, 16)
    found = run_file(save(model, tmp_path / "m.onnx"), {"x": x})
    assert list(found) == ["y"]
    torch.testing.assert_close(found["y"], compute_perceptron(model, x))


def test_weights_beside_the_model_are_read_when_it_runs(tmp_path: Path) -> None:
    model, x = make_perceptron(), torch.randn(3, 16)
    wanted = compute_perceptron(model, x)
    found = run_file(save(make_perceptron(), tmp_path / "m.onnx", beside="m.bin"), {"x": x})
    torch.testing.assert_close(found["y"], wanted)


def test_a_plan_needs_no_weights_and_a_run_names_the_file_that_is_missing(tmp_path: Path) -> None:
    path = save(make_perceptron(), tmp_path / "m.onnx", beside="m.bin")
    (tmp_path / "m.bin").unlink()
    plan = run_job(load_file_job(path, Sizes(dimensions={"batch": 8})))
    assert plan.fit.fits
    with pytest.raises(TranslationError, match=r"'first'.*m\.bin.*No such file"):
        run_file(path, {"x": torch.randn(3, 16)})


def test_sizes_that_a_file_leaves_open_are_asked_for_by_name(tmp_path: Path) -> None:
    path = save(make_perceptron(), tmp_path / "m.onnx")
    with pytest.raises(TranslationError, match=r"--input x=8,16, or --dimension batch=8"):
        load_file_job(path)
    with pytest.raises(TranslationError, match=r"no symbolic dimension 'seq'. It has: batch"):
        load_file_job(path, Sizes(dimensions={"seq": 8}))
    with pytest.raises(TranslationError, match=r"\[batch, 16\], which \[8, 17\] is not"):
        load_file_job(path, Sizes(shapes={"x": (8, 17)}))
    assert load_file_job(path, Sizes(shapes={"x": (8, 16)})).positional[0].shape == (8, 16)


def test_an_input_that_decides_shapes_becomes_a_constant(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["size"]),
        helper.make_node("Concat", ["size", "more"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    model = make_model(nodes, {"x": [6], "more": [1]}, ["y"], kinds={"more": "int64"})
    path = save(model, tmp_path / "m.onnx")
    with pytest.raises(TranslationError, match=r"input 'more' decides shapes.*--constant more="):
        load_file_job(path)
    program = capture_job(load_file_job(path, Sizes(constants={"more": [1]})))
    assert len(program.micro.inputs) == 1, "sizes are computed when the program is captured"
    found = run_file(path, {"x": torch.arange(6.0), "more": torch.tensor([1])})
    assert found["y"].shape == (6, 1)


def test_each_op_of_a_program_says_from_which_node_it_is(tmp_path: Path) -> None:
    path = save(make_perceptron(), tmp_path / "m.onnx")
    program = capture_job(load_file_job(path, Sizes(dimensions={"batch": 2})))
    notes = [note_of(node) for node in program.micro.module.graph.nodes if node.op == "call_function"]
    assert {note.module for note in notes} == {"encoder.product", "encoder.relu", "head.product"}
    assert {note.line.file for note in notes if note.line is not None} == {str(path)}


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname", "a/../../secret.bin", "link.bin", ""])
def test_nothing_outside_of_the_models_folder_is_read(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(1 << 16))
    home = tmp_path / "home"
    home.mkdir()
    os.symlink(tmp_path / "secret.bin", home / "link.bin")
    path = save(make_perceptron(), home / "m.onnx", beside="m.bin")
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer:
        for pair in entry.external_data:
            if pair.key == "location":
                pair.value = location
    path.write_bytes(model.SerializeToString())
    with pytest.raises(TranslationError, match="it is not read"):
        run_file(path, {"x": torch.randn(3, 16)})


def test_data_that_is_cut_short_or_no_file_is_refused(tmp_path: Path) -> None:
    path = save(make_perceptron(), tmp_path / "m.onnx", beside="m.bin")
    data = tmp_path / "m.bin"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(TranslationError, match="cut short"):
        run_file(path, {"x": torch.randn(3, 16)})
    data.unlink()
    os.mkfifo(data)
    with pytest.raises(TranslationError, match="is a FIFO"):
        run_file(path, {"x": torch.randn(3, 16)})


def test_weights_are_cut_out_of_the_bytes_before_they_are_parsed(tmp_path: Path) -> None:
    model = make_perceptron()
    found = read_model(model.SerializeToString()).graph.weights
    for entry in model.graph.initializer:
        np.testing.assert_array_equal(found[entry.name].read().numpy(), onnx.numpy_helper.to_array(entry))


def test_wrong_inputs_are_named(tmp_path: Path) -> None:
    path = save(make_perceptron(), tmp_path / "m.onnx")
    with pytest.raises(InputError, match="needs the input 'x'"):
        run_file(path, {})
    with pytest.raises(InputError, match="has no input 'z'"):
        run_file(path, {"x": torch.randn(3, 16), "z": torch.zeros(1)})
    with pytest.raises(InputError, match="'x' is float32, and float64 is given"):
        run_file(path, {"x": torch.randn(3, 16, dtype=torch.float64)})
