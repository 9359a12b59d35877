"""Loss scales, values and state of optimizers as anchors; and what automatic loss scaling refuses."""

from __future__ import annotations

import numpy as np
import pytest

import popart


def build(dtype="FLOAT16"):
    builder = popart.Builder()
    kind = np.float16 if dtype == "FLOAT16" else np.float32
    data = builder.addInputTensor(popart.TensorInfo(dtype, [2, 2]))
    weight = builder.addInitializedInputTensor(np.array([[1.0, -2.0], [0.5, 3.0]], dtype=kind), "weight")
    product = builder.aiOnnx.matmul([data, weight])
    return builder, data, builder.aiGraphcore.identityloss([product])


def make_options(**settings):
    options = popart.SessionOptions()
    options.automaticLossScalingSettings.enabled = True
    for name, value in settings.items():
        setattr(options.automaticLossScalingSettings, name, value)
    return options


GIVEN = np.ones((4, 2, 2), np.float16)
SCALED = {"lossScaling": (10.0, False), "defaultLearningRate": (1e-3, False)}


def test_the_scale_of_each_update_is_an_anchor(train):
    builder, data, loss = build()
    anchors = ["finalLossScale", "lossScaling_FLOAT16"]
    options = make_options(updatePeriod=2)
    _, found = train(builder, loss, anchors, {data: GIVEN}, popart.SGD(SCALED), 4, options)
    assert found["finalLossScale"].tolist() == [10, 20, 20, 40]
    assert found["lossScaling_FLOAT16"].tolist() == [10] * 4
    assert found["lossScaling_FLOAT16"].dtype == np.float16


@pytest.mark.parametrize(("tracked", "last"), [("weight", 5.0), ("MatMul:0", 20.0)])
def test_the_scale_follows_gradients_of_chosen_tensors(train, tracked, last):
    """The weight's gradient is the scale times large data; that of the product is the scale over four elements."""
    builder, data, loss = build()
    options = make_options(
        toTrackTensors=[tracked],
        gradientTensorTrackingMethod=popart.GradientTensorTrackingMethod.GradientsOfUserSpecifiedTensors,
    )
    large = 5000 * GIVEN[:2]
    _, found = train(builder, loss, ["finalLossScale"], {data: large}, popart.SGD(SCALED), 2, options)
    assert found["finalLossScale"].tolist() == [10, last]


@pytest.mark.parametrize(
    ("dtype", "optimizer", "words"),
    [
        ("FLOAT", popart.SGD(SCALED), "No tracked gradient tensors of type fp16 were found."),
        ("FLOAT16", popart.SGD({"lossScaling": (10.0, True)}), "The optimizer must have non-const loss scaling"),
    ],
)
def test_sessions_that_cannot_scale_their_loss_are_refused(train, dtype, optimizer, words):
    builder, data, loss = build(dtype)
    with pytest.raises(popart.popart_exception, match=words):
        train(builder, loss, [], {data: GIVEN[:1]}, optimizer, 1, make_options())


def test_a_gradient_at_the_edge_is_large(train):
    """Edges are half numbers: this one is zero, and no gradient is smaller."""
    builder, data, loss = build()
    options = make_options(binEdgeLocation=1e-20, thresholdUpperCountProportion=0.99)
    _, found = train(builder, loss, ["finalLossScale"], {data: 0 * GIVEN}, popart.SGD(SCALED), 4, options)
    assert found["finalLossScale"].tolist() == [10, 5, 2.5, 1.25]


def test_inference_has_no_loss_to_scale(device):
    builder, _, loss = build()
    with pytest.raises(popart.popart_exception, match="Only compatible when doing training"):
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [loss]), device, userOptions=make_options())


def test_values_of_the_optimizer_are_anchors(train):
    builder, data, loss = build("FLOAT")
    name = popart.reservedDefaultScaledLearningRate0Prefix() + "FLOAT"
    values = {"defaultLearningRate": (0.5, False), "lossScaling": (4.0, False)}
    _, found = train(
        builder,
        loss,
        {name: "All", "lossScaling_FLOAT": "Sum"},
        {data: GIVEN.astype(np.float32)},
        popart.SGD(values),
        4,
    )
    assert found[name].tolist() == [0.125] * 4  # 0.5 / 4
    assert found["lossScaling_FLOAT"] == 16.0


def test_state_of_the_optimizer_is_an_anchor(train):
    builder, data, loss = build("FLOAT")
    steps = popart.reservedStepPrefix() + "weight"
    moment = popart.reservedAccl1Prefix() + "weight"
    given = {data: GIVEN.astype(np.float32)}
    session, found = train(builder, loss, {steps: "All", moment: "Final"}, given, popart.Adam({}), 4)
    assert found[steps].tolist() == [1, 2, 3, 4]
    held = np.empty((2, 2), np.float32)
    session.readWeights(popart.PyWeightsIO({moment: held}))
    np.testing.assert_array_equal(found[moment], held)
    with pytest.raises(popart.popart_exception, match="not in Ir Tensors"):
        train(builder, loss, [popart.reservedAccl3Prefix() + "weight"], given, popart.Adam({}), 4)


def build_stages(places, stages):
    builder = popart.Builder()
    value = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]))
    for index, (ipu, stage) in enumerate(zip(places, stages, strict=True)):
        value = builder.aiOnnx.sin([value], f"sin{index}")
        builder.virtualGraph(value, ipu)
        if stage is not None:
            builder.pipelineStage(value, stage)
    return builder, value


@pytest.mark.parametrize(
    ("places", "stages", "words"),
    [
        ([0, 0, 1], [0, 1, 1], "Ops .*sin1.* and .*sin2.* have the same pipeline stage 1, but different"),
        ([0, 0, 1], [0, None, 1], "Only some ops have had their pipeline stage set."),
        ([0, 1, 0], [None] * 3, "Tensor Sin:0/1 is consumed in an earlier pipeline stage than it is produced"),
    ],
)
def test_stages_that_contradict_each_other_are_refused(places, stages, words):
    builder, value = build_stages(places, stages)
    options = popart.SessionOptions()
    options.virtualGraphMode, options.enablePipelining = popart.VirtualGraphMode.Manual, True
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 2})
    with pytest.raises(popart.popart_exception, match=words):
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(4, [value]), device, userOptions=options)


def test_a_written_model_goes_on_with_its_scale_and_its_place_in_the_period(device, tmp_path):
    builder, data, loss = build()
    model, seen = builder.getModelProto(), []
    for number in range(4):  # a new session for each update, as of the last one's file
        session = popart.TrainingSession(
            model,
            popart.DataFlow(1, ["finalLossScale"]),
            loss,
            popart.SGD(SCALED),
            device,
            userOptions=make_options(updatePeriod=2),
        )
        session.prepareDevice()
        session.weightsFromHost()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({data: GIVEN[:1]}, anchors))
        seen.append(float(anchors["finalLossScale"]))
        model = str(tmp_path / f"{number}.onnx")
        session.modelToHost(model)
    assert seen == [10, 20, 20, 40]
