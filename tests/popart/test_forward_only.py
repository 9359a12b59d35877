"""What a training session does beside training: it runs forward only, keeps activations, draws its graph."""

import numpy as np
import pytest

import popart

HANDLE = "implicitPipeliningFwdOnly"
RNG = np.random.default_rng(5)
WEIGHTS = RNG.standard_normal((3, 3)).astype(np.float32)
DATA = RNG.standard_normal((2, 3, 2, 3)).astype(np.float32)  # two updates of three micro-batches


def make_session(forward=True, extra=()):
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2, 3]), "x")
    w = builder.addInitializedInputTensor(WEIGHTS, "w")
    with builder.virtualGraph(0), builder.pipelineStage(0):
        hidden = builder.aiOnnx.tanh([builder.aiOnnx.matmul([x, w])])
    with builder.virtualGraph(1), builder.pipelineStage(1):
        loss = builder.aiGraphcore.l1loss([hidden], 1.0)
    options = popart.SessionOptions()
    options.enablePipelining, options.virtualGraphMode = True, popart.VirtualGraphMode.Manual
    options.enableGradientAccumulation, options.accumulationFactor = True, 3
    options.createImplicitPipeliningFwdOnlyProgram = forward
    anchors = [hidden, *(prefix + hidden for prefix in extra)]
    session = popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(2, dict.fromkeys(anchors, popart.AnchorReturnType("All"))),
        loss=loss,
        optimizer=popart.SGD({"defaultLearningRate": (0.5, True), "defaultMomentum": (0.9, True)}),
        deviceInfo=popart.DeviceManager().createIpuModelDevice({"numIPUs": 2}),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session, x, hidden


def read_weights(session):
    session.weightsToHost()
    found = np.empty_like(WEIGHTS)
    session.readWeights(popart.PyWeightsIO({"w": found}))
    return found


def test_the_forward_program_uses_the_weights_of_the_device_and_changes_nothing():
    session, x, hidden = make_session()
    anchors = session.initAnchorArrays()
    step = popart.PyStepIO({x: DATA}, anchors)
    session.run(step)
    trained = read_weights(session)
    assert not np.allclose(trained, WEIGHTS)
    session.run(HANDLE, step)
    assert anchors[hidden].shape == (2, 3, 2, 3)
    np.testing.assert_allclose(anchors[hidden], np.tanh(DATA @ trained), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(read_weights(session), trained)

    other, x, _ = make_session()  # trained twice, and never asked
    for _ in range(2):
        other.run(popart.PyStepIO({x: DATA}, other.initAnchorArrays()))
    session.run(step)
    np.testing.assert_array_equal(read_weights(session), read_weights(other))


def test_programs_that_a_session_does_not_have_are_refused():
    session, x, _ = make_session(forward=False)
    step = popart.PyStepIO({x: DATA}, session.initAnchorArrays())
    for handle in (HANDLE, "other"):
        with pytest.raises(popart.popart_exception, match=f"There is no program '{handle}'"):
            session.run(handle, step)
    session.run(step, "a name for messages")  # is no program
    assert session.getReport().execution.runs[0].name == "a name for messages"
    session.run(step)
    assert session.getReport().execution.runs[0].name == "training"
    with pytest.raises(TypeError, match="run takes a PyStepIO"):
        session.run(3)


def test_restored_activations_of_a_pipeline_are_the_activations():
    restored = popart.reservedRestoredPrefix()
    session, x, hidden = make_session(extra=[restored])
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: DATA}, anchors))
    assert np.abs(anchors[hidden]).sum() > 0
    np.testing.assert_array_equal(anchors[restored + hidden], anchors[hidden])


def test_graphs_are_drawn_where_checks_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("POPART_DOT_CHECKS", "FWD0")
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]), 'a"b')
    y = builder.aiOnnx.relu([builder.aiOnnx.tanh([x])])
    options = popart.SessionOptions()
    options.logDir, options.dotChecks, options.dotOpNames = str(tmp_path), {"Final"}, True
    device = popart.DeviceManager().createCpuDevice()
    popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device, userOptions=options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["final.dot", "fwd0.dot"]
    text = (tmp_path / "final.dot").read_text()
    assert text.startswith("digraph G {")
    assert '"a\\"b" -> op0;' in text
    assert 'op1 -> "Relu:0";' in text
    assert 'label="Tanh (' in text
    options.dotChecks = {"Nowhere"}
    with pytest.raises(popart.popart_exception, match=r"Unrecognised dot check 'NOWHERE'\. Known are FWD0"):
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device, userOptions=options)


@pytest.mark.parametrize(("places", "enough"), [((0, 0, 1), True), ((0, 1, 0), False)])
def test_stages_that_follow_one_another_on_one_ipu_are_one(places, enough):
    """Three stages in training need five micro-batches in flight, two need three."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2, 3]), "x")
    w = builder.addInitializedInputTensor(WEIGHTS, "w")
    for stage, ipu in enumerate(places):
        with builder.virtualGraph(ipu), builder.pipelineStage(stage):
            x = builder.aiOnnx.matmul([x, w]) if stage < 2 else builder.aiGraphcore.l1loss([x], 1.0)
    options = popart.SessionOptions()
    options.enablePipelining, options.virtualGraphMode = True, popart.VirtualGraphMode.Manual
    options.enableGradientAccumulation, options.accumulationFactor = True, 3

    def make():
        return popart.TrainingSession(
            builder.getModelProto(),
            popart.DataFlow(1, [x]),
            x,
            popart.ConstSGD(0.1),
            popart.DeviceManager().createIpuModelDevice({"numIPUs": 2}),
            userOptions=options,
        )

    if enough:
        make()
        return
    with pytest.raises(popart.popart_exception, match=r"number of pipeline stages \(5\), and is 3"):
        make()
