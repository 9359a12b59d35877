"""The builder: names, scopes, signatures, attributes, shapes, models."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import onnx
import pytest

import popart


@pytest.fixture
def builder() -> popart.Builder:
    return popart.Builder()


def test_names_follow_popart_rules(builder: popart.Builder) -> None:
    info = popart.TensorInfo("FLOAT", [2])
    assert [builder.addInputTensor(info) for _ in range(3)] == ["input", "input/1", "input/2"]
    assert builder.addInitializedInputTensor(np.zeros(2, np.float32)) == "init_input"
    assert builder.addInputTensor(info, "labels") == "labels"
    with builder.nameScope("layer1"), builder.nameScope("inner"):
        assert builder.addInputTensor(info) == "layer1/inner/input"
        assert builder.aiOnnx.sin(["input"]) == "layer1/inner/Sin:0"
        assert builder.aiOnnx.sin(["input"], "wave") == "layer1/inner/Sin:0/1"
    assert builder.aiOnnx.sin(["input"]) == "Sin:0"
    assert builder.aiOnnx.sin(["input"]) == "Sin:0/1"


def test_names_are_unique_over_subgraphs(builder: popart.Builder) -> None:
    info = popart.TensorInfo("FLOAT", [2])
    outer = builder.addInputTensor(info)
    child = builder.createSubgraphBuilder()
    assert child.addInputTensor(info) == "input/1"
    child.addInputTensorFromParentGraph(outer)
    assert builder.addInputTensor(info) == "input/2"
    with pytest.raises(popart.popart_exception, match="unrecognised Tensor elsewhere from higher scope"):
        child.addInputTensorFromParentGraph("elsewhere")
    with pytest.raises(popart.popart_exception, match="Can not add untyped tensors to the top-level graph"):
        builder.addUntypedInputTensor()


@pytest.mark.parametrize(("opset", "count"), [(6, 95), (7, 102), (8, 104), (9, 123), (10, 137), (11, 156)])
def test_each_opset_has_the_methods_of_popart(opset: int, count: int) -> None:
    """Numbers of methods that PopART 3.3 binds for each operator set."""
    methods = getattr(popart, f"AiOnnxOpset{opset}").methods
    assert len(methods) == count
    assert "logical_and" in methods
    assert "and" not in methods


def test_signatures_can_be_inspected(builder: popart.Builder) -> None:
    conv = inspect.signature(builder.aiOnnx.conv)
    assert list(conv.parameters) == ["args", "dilations", "group", "kernel_shape", "pads", "strides", "debugContext"]
    assert conv.parameters["group"].default == 1
    assert list(inspect.signature(builder.aiOnnx.maxpool).parameters)[:3] == ["args", "num_outputs", "kernel_shape"]
    assert inspect.signature(builder.aiGraphcore.nllloss).parameters["reduction"].default is popart.ReductionType.Mean
    assert "Conv" in builder.aiOnnx.conv.__doc__


def test_the_first_opset_settles_the_version(builder: popart.Builder) -> None:
    _ = builder.aiOnnxOpset9
    with pytest.raises(RuntimeError, match=r"Invalid opset 'aiOnnxOpset11' selected.*already defined as 9"):
        _ = builder.aiOnnxOpset11
    assert popart.Builder(opsets={"ai.onnx": 8, "ai.graphcore": 1}).aiOnnx.version == 8


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda ops: ops.add([1, 2], 0, 0), TypeError, r"add\(\): incompatible function arguments"),
        (lambda ops: ops.add(["x"]), popart.popart_exception, r"Add has invalid number of inputs 1. Must be between 2"),
        (lambda ops: ops.relu(["nowhere"]), popart.popart_exception, "Unknown tensor 'nowhere'"),
        (lambda ops: ops.rnn(["x", "x", "x"], 3), popart.popart_exception, "invalid number of outputs"),
        (lambda ops: ops.conv(["x", "w"], kernel_shape=[2, 2]), popart.popart_exception, "does not match inferred"),
        (lambda ops: ops.conv(["x", "large"]), popart.popart_exception, r"spatial output shape: \[-1 -1\]"),
    ],
)
def test_wrong_calls_are_refused(builder: popart.Builder, call, error, text) -> None:
    for name, shape in (("x", [1, 3, 5, 5]), ("w", [4, 3, 1, 1]), ("large", [4, 3, 7, 7])):
        builder.addInputTensor(popart.TensorInfo("FLOAT", shape), name)
    with pytest.raises(error, match=text):
        call(builder.aiOnnx)


def test_shapes_are_known_while_building(builder: popart.Builder) -> None:
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [2, 3, 8, 8]))
    w = builder.addInitializedInputTensor(np.zeros((4, 3, 3, 3), np.float16))
    y = builder.aiOnnx.conv([x, w], pads=[1, 1, 1, 1], strides=[2, 2])
    flat = builder.reshape_const(builder.aiOnnx, [y], [2, -1])
    index = builder.aiOnnx.argmax([flat], axis=1)
    loss = builder.aiGraphcore.identityloss([flat])
    assert builder.getTensorShape(y) == [2, 4, 4, 4]
    assert builder.getTensorShape(flat) == [2, 64]
    assert builder.getTensorDtypeString(flat) == "float16"
    assert (builder.getTensorShape(index), builder.getTensorDtypeString(index)) == ([2, 1], "int64")
    assert builder.getTensorShape(loss) == []
    with pytest.raises(popart.popart_exception, match="nothing is not an known tensor"):
        builder.getTensorShape("nothing")


def test_contexts_nest_and_restore(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    with builder.virtualGraph(1), builder.pipelineStage(2):
        with builder.virtualGraph(3):
            inner = builder.aiOnnx.relu([x])
        outer = builder.aiOnnx.relu([inner])
        assert builder.getVirtualGraph() == 1
    plain = builder.aiOnnx.relu([outer])
    assert builder.getVirtualGraph(inner) == 3
    assert builder.getVirtualGraph([outer]) == 1
    assert builder.getInt64NodeAttribute("__pipeline_stage", {inner}) == 2
    assert not builder.nodeHasAttribute("__ipu_number", {plain})
    assert not builder.hasPipelineStage()
    with pytest.raises(popart.popart_exception, match="Node already has attribute __ipu_number"):
        builder.virtualGraph(inner, 0)


def test_attributes_have_kinds(builder: popart.Builder) -> None:
    y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2])])
    for name, value in {"i": 3, "f": 0.5, "s": "text", "ints": [1, 2], "fs": [0.5], "ss": ["a", "b"]}.items():
        builder.addNodeAttribute(name, value, {y})
    assert builder.getInt64NodeAttribute("i", {y}) == 3
    assert builder.getFloatNodeAttribute("f", {y}) == 0.5
    assert builder.getStringVectorNodeAttribute("ss", {y}) == ["a", "b"]
    with pytest.raises(popart.popart_exception, match="Attribute s is not an integer"):
        builder.getInt64NodeAttribute("s", {y})
    builder.removeNodeAttribute("s", {y})
    assert not builder.nodeHasAttribute("s", {y})
    with pytest.raises(popart.popart_exception, match="Could not find a node with outputs z"):
        builder.addNodeAttribute("i", 1, {"z"})


def test_models_go_round(builder: popart.Builder, tmp_path: Path) -> None:
    x = builder.addInputTensor("FLOAT", [2, 2])
    w = builder.addInitializedInputTensor(np.ones((2, 2), np.float32))
    builder.addOutputTensor(builder.aiOnnx.matmul([x, w]))
    proto = builder.getModelProto()
    assert popart.Builder(proto).getModelProto() == proto
    onnx.checker.check_model(onnx.load_from_string(proto))
    builder.saveModelProto(str(tmp_path / "model.onnx"))
    again = popart.Builder(str(tmp_path / "model.onnx"))
    assert again.getModelProto() == proto
    assert again.addInputTensor("FLOAT", [2, 2]) == "input/1"
    with pytest.raises(popart.popart_exception, match="Failed to load a ModelProto from the string"):
        popart.Builder(b"\x00\x01 not a model")


def test_weights_in_a_file_of_their_own_are_found(
    builder: popart.Builder, tmp_path: Path, device: popart.DeviceInfo
) -> None:
    value = np.arange(4, dtype=np.float32).reshape(2, 2)
    w = builder.addInitializedInputTensor(value)
    y = builder.aiOnnx.add([w, builder.addInputTensor("FLOAT", [2, 2])])
    builder.saveInitializersExternally([w], str(tmp_path / "weights.bin"))
    assert len(builder.getModelProto()) < len(value.tobytes()) + 2000
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
    results = session.initAnchorArrays()
    session.prepareDevice()
    session.run(popart.PyStepIO({"input": np.ones((2, 2), np.float32)}, results))
    np.testing.assert_array_equal(results[y], value + 1)


def test_models_read_no_files_from_elsewhere(tmp_path: Path, device: popart.DeviceInfo) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"\0" * 16)
    model = onnx.ModelProto(ir_version=4)
    model.opset_import.add(domain="", version=10)
    entry = model.graph.initializer.add(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    entry.external_data.add(key="location", value=str(secret))
    model.graph.node.add(op_type="Relu", input=["w"], output=["y"])
    with pytest.raises(popart.popart_exception, match="neither in the model's folder"):
        popart.InferenceSession(model.SerializeToString(), popart.DataFlow(1, ["y"]), device)


def test_transformers_change_formats(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    w = builder.addInitializedInputTensor(np.array([1.5, 2.5], np.float32))
    builder.addOutputTensor(builder.aiOnnx.add([x, w]))
    transformer = popart.GraphTransformer(builder.getModelProto())
    transformer.convertFloatsToHalfs()
    transformer.convertInitializersToConstants([w])
    model = onnx.load_from_string(transformer.getModelProto())
    assert [entry.name for entry in model.graph.input] == [x]
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    assert model.graph.node[0].op_type == "Constant"
    with pytest.raises(popart.popart_exception, match="TensorId elsewhere not in the model"):
        transformer.convertInitializersToConstants(["elsewhere"])
