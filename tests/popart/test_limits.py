"""What PopART refuses, in its own words; and where it reads models otherwise than ONNX."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import popart

Build = Callable[[popart.Builder], str]


def infer(build: Build, opsets: dict[str, int] | None = None, data: dict[str, np.ndarray] | None = None):
    builder = popart.Builder(opsets=opsets) if opsets else popart.Builder()
    found = build(builder)
    flow = popart.DataFlow(1, {found: popart.AnchorReturnType("All")})
    session = popart.InferenceSession(builder.getModelProto(), flow, popart.DeviceManager().createCpuDevice())
    if data is None:
        return None
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(data, anchors))
    return anchors[found]


def add(builder: popart.Builder, *shape: int, kind: str = "FLOAT") -> str:
    return builder.addInputTensor(popart.TensorInfo(kind, list(shape)))


def constant(builder: popart.Builder, *values: int) -> str:
    return builder.aiOnnx.constant(np.array(values, dtype=np.int64))


REFUSED: list[tuple[Build, str]] = [
    (lambda b: b.aiOnnx.matmul([add(b, 3, 4), add(b, 3, 4)]), r"contracting dimensions unequal: lhs 'input' \[3 4\]"),
    (lambda b: b.aiOnnx.matmul([add(b), add(b, 2)]), "doesn't support scalar tensor input as the lhs input"),
    (lambda b: b.aiOnnx.add([add(b, 10, 10), add(b, 10, 5)]), r"frames \[10, 10\] and \[10, 5\] are not aligned"),
    (lambda b: b.aiOnnx.mul([add(b, 2, kind="FLOAT16"), add(b, 2)]), "incompatible types FLOAT16 and FLOAT"),
    (lambda b: b.aiOnnx.dropout([add(b, 2)], 1, 1.5)[0], r"Please use a value in the interval \[0,1\)$"),
    (lambda b: b.aiOnnx.expand([add(b, 5, 4), constant(b, 3, 4)]), "one of them must be 1"),
    (lambda b: b.aiOnnx.reshape([add(b, 4), constant(b, -1, -1)]), "can only use -1 to specify one unknown dimension"),
    (lambda b: b.aiOnnx.tile([add(b, 4), constant(b, 1, 2)]), "one element for each dimension of the data tensor$"),
    (lambda b: b.aiOnnx.tile([add(b, 4), constant(b, -1)]), "Values must be non-negative in each shape dimension"),
    (lambda b: b.aiOnnx.tile([add(b, 4), add(b, 1, kind="INT64")]), "must be of type Constant$"),
    (lambda b: b.aiOnnx.transpose([add(b, 2, 3)], [0]), "Rank of permutation tensor"),
    (lambda b: b.aiOnnx.maxpool([add(b, 1, 1, 9, 9)], 1, [2, 2], dilations=[2, 2])[0], "Dilations of value other"),
    (lambda b: b.aiOnnx.averagepool([add(b, 1, 1, 9, 9)], [2, 2], count_include_pad=1), "^`count_include_pad` is not"),
    (lambda b: b.aiGraphcore.subsample([add(b, 4, 4)], [1, 0]), "^Strides invalid. 0 stride at index 1"),
    (lambda b: b.aiGraphcore.reverse([add(b, 4)], [-1]), "invalid dimension '-1'. Only positive"),
    (lambda b: b.aiGraphcore.reverse([add(b, 4)], [1]), "invalid dimension '1' for input tensor of rank 1"),
    (lambda b: b.aiGraphcore.reverse([add(b, 4)], [0, 0]), "Dimension 0 appears multiple times"),
    (
        lambda b: b.aiGraphcore.nllloss([add(b, 2, 4, 3), add(b, 2, 5, kind="INT32")]),
        r"must have shape \[2 4\] to match",
    ),
    (
        lambda b: b.aiGraphcore.scatterreduce([add(b, 2, 3), add(b, 2, 3, kind="UINT32")], axis_size=2, axis=4),
        "axis = 4 is outside the acceptable range",
    ),
    (
        lambda b: b.aiGraphcore.scatterreduce([add(b, 6, 3, 5), add(b, 1, 3, 5, kind="UINT32")], axis_size=5, axis=0),
        "Partial broadcasting of indices is not currently supported",
    ),
    (
        lambda b: b.aiOnnx.rnn([add(b, 1, 1, 1), add(b, 1, 2, 1), add(b, 1, 2, 2)], 2, hidden_size=3)[0],
        "hidden_size 3 does not match",
    ),
    (
        lambda b: b.aiOnnx.lstm(
            [add(b, 1, 1, 1), add(b, 1, 4, 1), add(b, 1, 4, 1)], 1, activations=["Affine", "Tanh", "Tanh"]
        )[0],
        "Affine is not supported",
    ),
    (lambda b: b.aiOnnx.randomnormallike([add(b, 4, kind="DOUBLE")]), "Unsupported data type requested"),
]


@pytest.mark.parametrize(("build", "words"), REFUSED, ids=lambda one: one if isinstance(one, str) else "")
def test_sessions_refuse_what_popart_refuses_in_its_words(build: Build, words: str) -> None:
    with pytest.raises(popart.popart_exception, match=words):
        infer(build)


def test_bounds_of_clip_must_be_known_when_a_session_is_made() -> None:
    def build(builder: popart.Builder) -> str:
        return builder.aiOnnxOpset11.clip([add(builder, 4), add(builder), add(builder)], "mine")

    with pytest.raises(popart.popart_exception, match=r"Op mine\(ai.onnx.Clip:11\), inputs=\[input\] currently only"):
        infer(build)


def test_a_half_tensor_and_one_float_number_make_half_numbers() -> None:
    names: list[str] = []

    def build(builder: popart.Builder) -> str:
        names.extend([add(builder, 2, kind="FLOAT16"), add(builder, 1)])
        return builder.aiOnnx.mul(names)

    half, single = np.array([1.5, 2.5], np.float16), np.array([3.0], np.float32)
    found = infer(build, data={"input": half, "input/1": single})
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, half * np.float16(3))


@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"])
def test_nearest_neighbours_named_after_pytorch_are_its_own(coordinates: str) -> None:
    data = np.arange(15, dtype=np.float32).reshape(1, 1, 5, 3)

    def build(builder: popart.Builder) -> str:
        x = add(builder, 1, 1, 5, 3)
        onnx11 = builder.aiOnnxOpset11
        region = onnx11.constant(np.array([], np.float32))
        scales = onnx11.constant(np.array([1, 1, 2.3, 2.5], np.float32))
        return onnx11.resize([x, region, scales], nearest_mode="pytorch", coordinate_transformation_mode=coordinates)

    wanted = torch.nn.functional.interpolate(torch.tensor(data), scale_factor=(2.3, 2.5), mode="nearest")
    np.testing.assert_array_equal(infer(build, data={"input": data}), wanted.numpy())


def train(build: Build, patterns: popart.Patterns | None = None, anchors: tuple[str, ...] = ()):
    builder = popart.Builder()
    loss = build(builder)
    flow = popart.DataFlow(1, {name: popart.AnchorReturnType("All") for name in (*anchors, loss)})
    device = popart.DeviceManager().createCpuDevice()
    return popart.TrainingSession(builder.getModelProto(), flow, loss, popart.ConstSGD(0.1), device, patterns=patterns)


def test_a_gradient_needs_its_pattern_only_where_one_is_computed() -> None:
    def depends(builder: popart.Builder) -> str:
        w = builder.addInitializedInputTensor(np.ones(3, np.float32))
        return builder.aiGraphcore.identityloss([builder.aiOnnx.cos([builder.aiOnnx.add([add(builder, 3), w])])])

    def does_not(builder: popart.Builder) -> str:
        w = builder.addInitializedInputTensor(np.ones(3, np.float32))
        return builder.aiGraphcore.identityloss([builder.aiOnnx.add([builder.aiOnnx.cos([add(builder, 3)]), w])])

    none = popart.Patterns(popart.PatternsLevel.NoPatterns).enableRuntimeAsserts(False)
    with pytest.raises(popart.popart_exception, match=r"should have been removed by pattern CosGradOp$"):
        train(depends, none)
    train(depends)
    train(does_not, none)


def test_a_loss_is_one_number() -> None:
    def build(builder: popart.Builder) -> str:
        w = builder.addInitializedInputTensor(np.ones(3, np.float32))
        return builder.aiOnnx.mul([add(builder, 3), w])

    with pytest.raises(popart.popart_exception, match=r"must be a scalar tensor$"):
        train(build)


def test_a_session_of_which_nothing_is_left_is_refused() -> None:
    builder = popart.Builder()
    x = add(builder, 3)
    builder.aiOnnx.sin([x])
    flow = popart.DataFlow(1, {x: popart.AnchorReturnType("All")})
    with pytest.raises(popart.popart_exception, match=r"^All operations in the main graph were pruned"):
        popart.InferenceSession(builder.getModelProto(), flow, popart.DeviceManager().createCpuDevice())


def test_seeds_are_set_after_a_session_is_prepared_and_preparing_twice_keeps_weights() -> None:
    def build(builder: popart.Builder) -> str:
        w = builder.addInitializedInputTensor(np.ones(3, np.float32))
        (kept,) = builder.aiOnnx.dropout([builder.aiOnnx.mul([add(builder, 3), w])], 1, 0.0)
        return builder.aiGraphcore.identityloss([kept])

    session = train(build)
    with pytest.raises(popart.popart_exception, match=r"prepare.. must be called before"):
        session.setRandomSeed(1)
    session.prepareDevice()
    session.weightsFromHost()
    session.prepareDevice()
    session.setRandomSeed(1)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"input": np.ones(3, np.float32)}, anchors))
    assert anchors["IdentityLoss:0"] == 1.0


def test_debug_information_tells_names_values_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "debug.json"
    popart.initializePoplarDebugInfo(str(path), "json")
    outer = popart.DebugInfo(popart.DebugContext("outer"), "mine")
    outer.setValue("answer", 42)
    popart.DebugInfo(popart.DebugContext(outer, "inner"), "mine")
    builder = popart.Builder()
    builder.aiOnnx.sin([builder.addInputTensor("FLOAT", [2], "data")], "wave")
    popart.closePoplarDebugInfo()
    content = json.loads(path.read_text())
    texts, entries = content["stringTable"], content["contexts"][::-1]
    assert [texts[entry["name"]] for entry in entries] == ["outer", "inner", "data", "wave"]
    assert entries[0]["answer"] == "42"
    assert entries[1]["parentId"] == entries[0]["id"]
    assert all(texts[entry["location"]["fileName"]] == __file__ for entry in entries)
    popart.DebugInfo(popart.DebugContext("after"), "mine")  # no file is open: nothing is kept
    assert json.loads(path.read_text()) == content


def test_definitions_of_ops_name_their_inputs_and_attributes() -> None:
    known = popart.getSupportedOperationsDefinition(False)
    found = next(value for key, value in known.items() if (key.type, key.version) == ("Gemm", 11))
    assert [one.name for one in found.inputs] == ["A", "B", "C"]
    assert set(found.attributes) == {"alpha", "beta", "transA", "transB"}
    assert len(popart.getSupportedOperations(True)) > len(popart.getSupportedOperations(False))


def test_converted_constants_lie_in_the_field_of_their_type() -> None:
    value = onnx.helper.make_tensor("c", onnx.TensorProto.INT64, [2], [1, 2])
    node = onnx.helper.make_node("Constant", [], ["y"], value=value)
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [2])
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "g", [], [result]), opset_imports=[onnx.helper.make_opsetid("", 10)]
    )
    transformer = popart.GraphTransformer(model.SerializeToString())
    transformer.convertINT64ToINT32()
    found = onnx.load_from_string(transformer.getModelProto()).graph.node[0].attribute[0].t
    assert list(found.int32_data) == [1, 2]


def test_convolutions_in_one_op_are_checked_when_they_are_added() -> None:
    builder = popart.Builder()
    x, w = add(builder, 1, 2, 4, 4), add(builder, 10, 2, 3, 3)
    both = [[x, w], [x, w]]
    for arguments, words in (
        ({"dilations": [[1, 1], [2, 2, 2]]}, "^Length of dilations vector 3 != number of spatial dimensions 2$"),
        ({"dilations": [[1, 1]]}, r"parameter sets \(1\) does not match the number of input sets \(2\)$"),
    ):
        with pytest.raises(popart.popart_exception, match=words):
            builder.aiGraphcore.multiconv(both, **arguments)
    with pytest.raises(popart.popart_exception, match=r"must have at least two inputs - data and weights$"):
        builder.aiGraphcore.multiconv([[x], [x, w]])


def test_strided_groups_of_a_group_norm_have_every_so_many_th_channel() -> None:
    data = np.random.default_rng(0).standard_normal((2, 6, 3)).astype(np.float32)
    scale, bias = np.arange(1, 7, dtype=np.float32), np.arange(6, dtype=np.float32)
    builder = popart.Builder()
    x = add(builder, 2, 6, 3)
    names = [x, builder.aiOnnx.constant(scale), builder.aiOnnx.constant(bias)]
    result, mean, _ = builder.aiGraphcore.groupnormalization(names, 2)
    options = popart.SessionOptions()
    options.groupNormStridedChannelGrouping = True
    flow = popart.DataFlow(1, [result, mean], popart.AnchorReturnType("All"))
    device = popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(builder.getModelProto(), flow, device, userOptions=options)
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: data}, anchors))
    wanted = np.empty_like(data)
    for group in range(2):  # channels 0, 2, 4 and 1, 3, 5
        part = data[:, group::2]
        middle, spread = part.mean((1, 2), keepdims=True), part.var((1, 2), keepdims=True)
        wanted[:, group::2] = (part - middle) / np.sqrt(spread + 1e-5)
        np.testing.assert_allclose(anchors[mean].reshape(2, 2)[:, group], middle.reshape(2), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(anchors[result], wanted * scale[:, None] + bias[:, None], rtol=1e-4, atol=1e-5)
