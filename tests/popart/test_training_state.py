"""Models that are written after training: their values, optimizer state, and how a new session goes on with both."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import popart


def build(dtype=np.float32):
    builder = popart.Builder()
    data = builder.addInputTensor(popart.TensorInfo(np.dtype(dtype).name.upper().replace("FLOAT32", "FLOAT"), [2, 2]))
    weight = builder.addInitializedInputTensor(np.array([[1.0, -2.0], [0.5, 3.0]], dtype=dtype), "weight")
    loss = builder.aiGraphcore.l1loss([builder.aiOnnx.matmul([data, weight])], 0.1)
    return builder, data, weight, loss


def start(model, loss, device, optimizer):
    session = popart.TrainingSession(model, popart.DataFlow(1, {}), loss, optimizer, device)
    session.prepareDevice()
    session.weightsFromHost()
    return session


def run(session, data, seed):
    values = np.random.default_rng(seed).normal(size=(2, 2)).astype(np.float32)
    session.run(popart.PyStepIO({data: values}, {}))


def read(path):
    return {entry.name: numpy_helper.to_array(entry) for entry in onnx.load(str(path)).graph.initializer}


MOMENTUM = {"defaultMomentum": (0.5, True), "defaultWeightDecay": (0.25, True)}


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: popart.SGD(MOMENTUM), {"Accl___weight"}),
        (lambda: popart.Adam({}), {"Accl1___weight", "Accl2___weight", "Step___weight"}),
        (lambda: popart.Adaptive({}), {"Accl1___weight"}),
    ],
)
def test_training_goes_on_from_a_file_as_if_it_had_not_stopped(device, tmp_path, make, names):
    builder, data, _, loss = build()
    whole = start(builder.getModelProto(), loss, device, make())
    for seed in range(4):
        run(whole, data, seed)
    whole.modelToHost(str(tmp_path / "whole.onnx"))

    first = start(builder.getModelProto(), loss, device, make())
    for seed in range(2):
        run(first, data, seed)
    first.modelToHost(str(tmp_path / "half.onnx"))
    assert set(read(tmp_path / "half.onnx")) == {"weight", *names}
    second = start(str(tmp_path / "half.onnx"), loss, device, make())
    for seed in range(2, 4):
        run(second, data, seed)
    second.modelToHost(str(tmp_path / "other.onnx"))
    expected, found = read(tmp_path / "whole.onnx"), read(tmp_path / "other.onnx")
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_accumulators_are_read_and_written_like_state(train, tmp_path):
    builder, data, _, loss = build()
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = True, 2
    session, _ = train(builder, loss, [], {data: np.ones((2, 2, 2), np.float32)}, popart.Adam({}), 1, options)
    held = np.ones((2, 2), np.float32)
    session.readWeights(popart.PyWeightsIO({"Accum___weight": held}))
    assert not held.any()  # empty between updates
    session.modelToHost(str(tmp_path / "model.onnx"))
    assert "Accum___weight" in read(tmp_path / "model.onnx")


def test_values_lie_in_the_fields_of_their_types():
    builder, *_ = build()
    [entry] = onnx.load_from_string(builder.getModelProto()).graph.initializer
    assert list(entry.float_data) == [1.0, -2.0, 0.5, 3.0]
    assert not entry.raw_data
    half, *_ = build(np.float16)
    [entry] = onnx.load_from_string(half.getModelProto()).graph.initializer
    assert list(entry.int32_data) == np.array([1.0, -2.0, 0.5, 3.0], dtype=np.float16).view(np.uint16).tolist()
    np.testing.assert_array_equal(numpy_helper.to_array(entry), np.array([[1.0, -2.0], [0.5, 3.0]], np.float16))


def test_large_values_are_written_as_bytes():
    builder = popart.Builder()
    builder.addInitializedInputTensor(np.arange((1 << 20) + 1, dtype=np.float32))
    [entry] = onnx.load_from_string(builder.getModelProto()).graph.initializer
    assert not entry.float_data
    assert numpy_helper.to_array(entry)[-1] == 1 << 20


@pytest.mark.parametrize("accumulates", [True, False])
def test_a_pipeline_without_accumulation_is_late_after_the_first_update(accumulates):
    builder = popart.Builder()
    data = builder.addInputTensor(popart.TensorInfo("FLOAT", [2, 2]))
    value = data
    weights = []
    for stage in range(2):
        with builder.virtualGraph(stage), builder.pipelineStage(stage):
            weights.append(builder.addInitializedInputTensor(np.array([[1.0, 0.2], [0.3, 1.0]], np.float32)))
            value = builder.aiOnnx.tanh([builder.aiOnnx.matmul([value, weights[-1]])])
            if stage:
                loss = builder.aiGraphcore.identityloss([value])
    given = np.random.default_rng(0).normal(size=(5, 2, 2)).astype(np.float32)
    losses = []
    for pipelined in (True, False):
        options = popart.SessionOptions()
        options.virtualGraphMode = popart.VirtualGraphMode.Manual
        options.enablePipelining = pipelined
        if accumulates:
            options.enableGradientAccumulation, options.accumulationFactor = True, 5
        flow = popart.DataFlow(1 if accumulates else 5, {loss: popart.AnchorReturnType("All")})
        device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 2})
        session = popart.TrainingSession(
            builder.getModelProto(), flow, loss, popart.ConstSGD(0.5), device, userOptions=options
        )
        session.prepareDevice()
        session.weightsFromHost()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({data: given}, anchors))
        losses.append(anchors[loss].copy())
    if accumulates:
        np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    else:
        # The first stage of micro-batches 0, 1 and 2 has seen no update; the second one has seen all before.
        assert losses[0][0] == losses[1][0]
        assert not np.allclose(losses[0][1:], losses[1][1:])


def test_state_is_written_in_the_order_of_its_names(device, tmp_path):
    builder, data, weight, loss = build()
    session = start(builder.getModelProto(), loss, device, popart.Adam({"defaultLearningRate": (0.1, True)}))
    run(session, data, 0)
    session.modelToHost(str(tmp_path / "model.onnx"))
    names = list(read(tmp_path / "model.onnx"))
    assert names == [weight, f"Accl1___{weight}", f"Accl2___{weight}", f"Step___{weight}"]


def write_weight(path, values):
    builder = popart.Builder()
    builder.addInitializedInputTensor(np.array(values, np.float32), "w")
    builder.addInitializedInputTensor(np.array([3], np.int32), "n")
    builder.saveModelProto(str(path))
    return str(path)


def test_a_numerics_report_compares_what_two_trainings_changed(tmp_path):
    begin = write_weight(tmp_path / "begin.onnx", [1, 2])
    first = write_weight(tmp_path / "first.onnx", [1, 5])  # changes by (0, 3)
    second = write_weight(tmp_path / "second.onnx", [5, 5])  # changes by (4, 3)
    report = popart.NumericsReport(begin, first, begin, second)
    assert report.getRelativeErrors() == pytest.approx({"w": 4**2 / (3 * 5 + 1e-8)})
    assert "|dA| = 3, |dB| = 5" in report.report("w")
    assert report.fullReport().startswith("\nw:\n|dA - dB|^2")
    with pytest.raises(popart.popart_exception, match="No report available for n"):
        report.report("n")
    with pytest.raises(popart.popart_exception, match="is not a regular file"):
        popart.NumericsReport(begin, first, begin, str(tmp_path / "none.onnx"))
    wider = write_weight(tmp_path / "wider.onnx", [1, 2, 3])
    with pytest.raises(popart.popart_exception, match="do not have the same initializers"):
        popart.NumericsReport(begin, first, begin, wider)
    (tmp_path / "broken.onnx").write_bytes(b"no model at all")
    with pytest.raises(popart.popart_exception, match="is not an ONNX model"):
        popart.NumericsReport(begin, first, begin, str(tmp_path / "broken.onnx"))


def test_half_weights_as_popart_wrote_them_are_read_two_from_one_number(device):
    values = np.array([1.5, -2.25, 3.0], np.float16)
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [3]))
    w = builder.addInitializedInputTensor(values, "w")
    y = builder.aiOnnx.add([x, w])
    model = onnx.load_from_string(builder.getModelProto())
    (entry,) = [one for one in model.graph.initializer if one.name == w]
    entry.ClearField("int32_data")
    entry.int32_data.extend(np.append(values, np.float16(0)).view(np.int32).tolist())
    session = popart.InferenceSession(model.SerializeToString(), popart.DataFlow(1, [y]), device)
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: np.zeros(3, np.float16)}, anchors))
    np.testing.assert_array_equal(anchors[y], values)
