"""Models that are damaged, wrong or huge: an error that names node and file, in time that grows with the file."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from mutated_models import make_seeds, mutate
from onnx import helper
from onnx_models import make_model, make_perceptron

from openipu.capture import capture_program
from openipu.errors import InternalError, OpenIpuError, TranslationError
from openipu.model_files import run_file
from openipu.translate import interpret
from openipu.translate.onnx.loading import load_model
from openipu.translate.onnx.reading import DEEPEST_GRAPH, read_model

MUTATIONS = int(os.environ.get("OPENIPU_MUTATIONS", "5000"))  # of bytes; a twentieth as many of what a model says


def save(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def test_an_unknown_op_is_named_with_its_node_and_file(tmp_path: Path) -> None:
    model = make_model([helper.make_node("Frobnicate", ["x"], ["y"], name="odd")], {"x": [2]}, ["y"])
    with pytest.raises(TranslationError, match=r"m\.onnx: node 'odd' \(Frobnicate\).*unknown"):
        run_file(save(model, tmp_path / "m.onnx"), {"x": torch.zeros(2)})


def test_an_op_of_another_operator_set_is_named() -> None:
    model = make_model([helper.make_node("Upsample", ["x", "s"], ["y"])], {"x": [2], "s": [1]}, ["y"], opset=21)
    model.opset_import[0].version = 99
    with pytest.raises(TranslationError, match="operator set 99"):
        read_model(model.SerializeToString())


def test_a_cycle_is_named() -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="second"),
    ]
    with pytest.raises(TranslationError, match=r"node 'first'.*cycle"):
        read_model(make_model(nodes, {"x": [2]}, ["b"]).SerializeToString())


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ([helper.make_node("Relu", ["nowhere"], ["y"])], "'nowhere'"),
        ([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])], "made twice"),
        ([helper.make_node("Abs", ["x"], ["z"])], "no node makes 'y'"),
    ],
    ids=["unknown", "twice", "missing"],
)
def test_names_that_do_not_meet_are_named(nodes: list[onnx.NodeProto], problem: str) -> None:
    with pytest.raises(TranslationError, match=problem):
        run_file(make_model(nodes, {"x": [2]}, ["y"]).SerializeToString(), {"x": torch.zeros(2)})


def test_wrong_shapes_name_the_node_and_its_inputs() -> None:
    model = make_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        {"x": [2, 3]},
        ["y"],
        {"w": np.zeros((4, 5), np.float32)},
    )
    with pytest.raises(TranslationError, match=r"node 'product'.*float32\[2, 3\], float32\[4, 5\]"):
        run_file(model.SerializeToString(), {"x": torch.zeros(2, 3)})


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("ScatterElements", ["x", "i", "x"], ["y"], name="odd", reduction="median"),
        helper.make_node("Split", ["x"], ["y", "z"], name="odd", axis=7),
        helper.make_node("DepthToSpace", ["x"], ["y"], name="odd", blocksize=0),
        helper.make_node("Transpose", ["x"], ["y"], name="odd", perm=3),
        helper.make_node("Conv", ["x"], ["y"], name="odd"),
        helper.make_node("LRN", ["x"], ["y"], name="odd", size=0),
        helper.make_node("Cast", ["x"], ["y"], name="odd", to=8),
        helper.make_node("If", ["x"], ["y"], name="odd"),
    ],
    ids=lambda node: node.op_type,
)
def test_attributes_that_make_no_sense_name_the_node(node: onnx.NodeProto) -> None:
    model = make_model([node], {"x": [1, 4, 2, 2]}, ["y"], {"i": np.zeros((1, 4, 2, 2), np.int64)})
    with pytest.raises(TranslationError, match="'odd'"):
        run_file(model.SerializeToString(), {"x": torch.zeros(1, 4, 2, 2)})


def test_nodes_that_are_out_of_order_run_in_an_order_that_works() -> None:
    nodes = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Neg", ["x"], ["a"])]
    found = run_file(make_model(nodes, {"x": [2]}, ["y"]).SerializeToString(), {"x": torch.tensor([1.0, -2.0])})
    assert found["y"].tolist() == [0.0, 2.0]


@pytest.mark.parametrize("backwards", [False, True])
def test_a_hundred_thousand_nodes_are_read_in_one_go(backwards: bool) -> None:
    count = 100_000
    order = range(count - 1, -1, -1) if backwards else range(count)
    nodes = [onnx.NodeProto(op_type="Neg", input=[f"t{number}"], output=[f"t{number + 1}"]) for number in order]
    read = read_model(make_model(nodes, {"t0": [2]}, [f"t{count}"]).SerializeToString())
    assert [node.outputs[0] for node in read.graph.nodes[:2]] == ["t1", "t2"]
    assert load_model(read).inputs[0].shape == (2,)


def test_graphs_in_graphs_end_somewhere() -> None:
    depth = DEEPEST_GRAPH + 5
    inner = helper.make_graph([helper.make_node("Neg", ["x"], ["y0"])], "g0", [], [_name("y0")])
    for level in range(1, depth):
        other = helper.make_graph(
            [helper.make_node("Neg", ["x"], [f"z{level}"])], f"h{level}", [], [_name(f"z{level}")]
        )
        node = helper.make_node("If", ["c"], [f"y{level}"], then_branch=inner, else_branch=other)
        inner = helper.make_graph([node], f"g{level}", [], [_name(f"y{level}")])
    model = make_model(list(inner.node), {"x": [2], "c": []}, [f"y{depth - 1}"], kinds={"c": "bool"})
    with pytest.raises(TranslationError, match="graphs deep"):
        read_model(model.SerializeToString())


def _name(text: str) -> onnx.ValueInfoProto:
    return helper.make_empty_tensor_value_info(text)


def test_cut_files_are_refused(tmp_path: Path) -> None:
    whole = make_perceptron(4).SerializeToString()
    (tmp_path / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TranslationError, match=r"cut\.onnx: .*cut short"):
        read_model(tmp_path / "cut.onnx")
    for length in range(0, len(whole) - 1, 13):
        _read_or_refuse(whole[:length])


def test_mutated_files_are_read_or_refused() -> None:
    whole = make_perceptron(4).SerializeToString()
    source = random.Random(5)
    for _ in range(MUTATIONS):
        damaged = bytearray(whole)
        for _ in range(source.choice((1, 1, 2, 8))):
            place = source.choice((source.randrange(len(damaged)), source.randrange(min(300, len(damaged)))))
            damaged[place] = source.randrange(256)
        _read_or_refuse(bytes(damaged))


def _read_or_refuse(content: bytes) -> None:
    try:
        load_model(content)
    except OpenIpuError:
        return


def test_models_that_say_wrong_things_are_captured_or_refused() -> None:
    seeds = make_seeds()
    for model in seeds:
        _capture(model.SerializeToString())  # as they stand, they work
    for number in range(MUTATIONS // 20):
        try:
            _capture(mutate(seeds[number % len(seeds)], random.Random(number)))
        except OpenIpuError as error:
            assert not isinstance(error, InternalError), f"mutation {number}"  # noqa: PT017
        except Exception as error:
            raise AssertionError(f"mutation {number}: {type(error).__name__}: {error}") from error


def _capture(content: bytes) -> None:
    loaded = load_model(content)
    capture_program(loaded.module, loaded.inputs, {}, training=False, optimizer=None, name="mutated")


@pytest.mark.parametrize("size", [-2, 1 << 50], ids=["negative", "huge"])
def test_a_shape_that_no_tensor_has_is_named_with_its_input(size: int) -> None:
    with pytest.raises(TranslationError, match=r"'x' has the shape \[.*which no tensor can have"):
        read_model(make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": [size, 3]}, ["y"]).SerializeToString())


def test_a_few_bytes_that_ask_for_a_huge_result_are_refused() -> None:
    model = make_model(
        [helper.make_node("ConstantOfShape", ["s"], ["y"], name="bomb")], {}, ["y"], {"s": np.array([1 << 20, 1 << 20])}
    )
    with pytest.raises(TranslationError, match=r"node 'bomb'.*which no IPU can hold"):
        run_file(model.SerializeToString(), {})


def test_loops_in_loops_end_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpret, "MOST_WRITTEN_OUT", 2000)
    inner = [helper.make_node("Neg", ["now0"], ["next0"]), helper.make_node("Identity", ["going0"], ["on0"])]
    for level in range(5):
        inputs, outputs = [f"number{level}", f"going{level}", f"now{level}"], [f"on{level}", f"next{level}"]
        body = helper.make_graph(inner, f"body{level}", [_name(x) for x in inputs], [_name(x) for x in outputs])
        loop = helper.make_node("Loop", ["count", "", f"now{level + 1}"], [f"next{level + 1}"], body=body)
        inner = [loop, helper.make_node("Identity", [f"going{level + 1}"], [f"on{level + 1}"])]
    model = make_model(inner[:1], {"now5": [2]}, ["next5"], {"count": np.array(4000)})  # 4000 ** 5 passes
    with pytest.raises(TranslationError, match="write out more than 2,000 nodes"):
        run_file(model.SerializeToString(), {"now5": torch.zeros(2)})


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname", "link.bin", "folder/../../secret.bin", "pipe"])
def test_nothing_outside_the_models_folder_is_read(location: str, tmp_path: Path) -> None:
    home = tmp_path / "model"
    home.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    (home / "link.bin").symlink_to(tmp_path / "secret.bin")
    os.mkfifo(home / "pipe")
    model = make_model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [4]}, ["y"], {"w": np.zeros(4, np.float32)})
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    with pytest.raises(TranslationError, match=r"initializer 'w'"):
        run_file(save(model, home / "m.onnx"), {"x": torch.zeros(4)})
