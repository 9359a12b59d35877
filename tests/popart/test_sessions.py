"""Sessions: anchors of every kind against PyTorch, the life cycle, weights, errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import popart

GRADIENT = popart.reservedGradientPrefix()
RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((3, 4)).astype(np.float32)


def make_data(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def build() -> tuple[popart.Builder, dict[str, str]]:
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2, 3]), "x")
    w = builder.addInitializedInputTensor(WEIGHT, "w")
    product = builder.aiOnnx.matmul([x, w])
    active = builder.aiOnnx.tanh([product])
    loss = builder.aiGraphcore.identityloss([active], reduction=popart.ReductionType.Sum)
    builder.addOutputTensor(loss)
    return builder, {"x": x, "w": w, "product": product, "active": active, "loss": loss}


def test_anchors_of_every_kind_have_the_shapes_and_values_of_popart(train) -> None:
    builder, names = build()
    x = make_data(3, 2, 2, 3)  # three updates of two micro-batches
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = True, 2
    kinds = {names["active"]: "All", names["loss"]: "Sum", names["x"]: "Final", GRADIENT + names["w"]: "Final"}
    _, results = train(builder, names["loss"], kinds, {"x": x}, popart.ConstSGD(0.1), 3, options)

    weight = torch.tensor(WEIGHT, requires_grad=True)
    active, losses, gradient = [], [], torch.zeros(())
    for update in x:
        total = torch.zeros(3, 4)
        for micro in update:
            value = torch.tanh(torch.tensor(micro) @ weight)
            (gradient,) = torch.autograd.grad(value.sum(), [weight])
            active.append(value.detach())
            losses.append(value.sum().detach())
            total = total + gradient
        weight = (weight - 0.1 * total).detach().requires_grad_()
    assert results[names["active"]].shape == (3, 2, 2, 4)
    np.testing.assert_allclose(results[names["active"]].reshape(6, 2, 4), torch.stack(active), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results[names["loss"]], sum(losses), rtol=1e-5)
    np.testing.assert_array_equal(results[names["x"]], x[-1, -1])
    np.testing.assert_allclose(results[GRADIENT + names["w"]], gradient, rtol=1e-5, atol=1e-6)


def test_every_nth_counts_micro_batches(device: popart.DeviceInfo) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [1])
    y = builder.aiOnnx.identity([x])
    flow = popart.DataFlow(4, {y: popart.AnchorReturnType("EveryN", 2)})
    session = popart.InferenceSession(builder.getModelProto(), flow, device)
    results = session.initAnchorArrays()
    session.prepareDevice()
    session.run(popart.PyStepIO({x: np.arange(4, dtype=np.float32)}, results))
    assert results[y].tolist() == [[1.0], [3.0]]


def test_replicas_have_a_dimension_and_share_their_updates(train) -> None:
    builder, names = build()
    options = popart.SessionOptions()
    options.enableReplicatedGraphs, options.replicatedGraphCount = True, 2
    x = make_data(2, 2, 3)
    flow = popart.DataFlow(1, {names["active"]: popart.AnchorReturnType("All")})
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 2})
    session = popart.TrainingSession(
        builder.getModelProto(), flow, names["loss"], popart.ConstSGD(0.1), device, userOptions=options
    )
    results = session.initAnchorArrays()
    assert results[names["active"]].shape == (2, 2, 4)
    session.prepareDevice()
    session.weightsFromHost()
    session.run(popart.PyStepIO({"x": x}, results))
    session.weightsToHost()
    weight = torch.tensor(WEIGHT, requires_grad=True)
    (gradient,) = torch.autograd.grad(torch.tanh(torch.tensor(x).reshape(4, 3) @ weight).sum(), [weight])
    found = np.empty_like(WEIGHT)
    session.readWeights(popart.PyWeightsIO({"w": found}))
    np.testing.assert_allclose(found, (weight - 0.1 * gradient).detach(), rtol=1e-5, atol=1e-6)


def test_inputs_without_dimensions_have_a_value_for_each_batch(device: popart.DeviceInfo) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [])
    y = builder.aiOnnx.mul([x, x])
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(3, [y]), device)
    results = session.initAnchorArrays()
    session.prepareDevice()
    session.run(popart.PyStepIO({x: np.array([1, 2, 3], np.float32)}, results))
    assert results[y].tolist() == [1.0, 4.0, 9.0]


def test_indices_come_back_as_int32(device: popart.DeviceInfo) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4])
    y = builder.aiOnnx.argmax([x])
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
    results = session.initAnchorArrays()
    assert results[y].dtype == np.int32
    session.prepareDevice()
    session.run(popart.PyStepIO({x: np.array([0, 3, 1, 2], np.float32)}, results))
    assert results[y].tolist() == [1]


def test_a_model_goes_to_the_host_and_back_with_its_state(train, tmp_path: Path) -> None:
    builder, names = build()
    optimizer = popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True)})
    x = make_data(2, 3)
    session, results = train(builder, names["loss"], [names["loss"]], {"x": x}, optimizer)
    session.modelToHost(str(tmp_path / "trained.onnx"))
    session.run(popart.PyStepIO({"x": x}, results))
    second = results[names["loss"]].copy()

    other, results = train(builder, names["loss"], [names["loss"]], {"x": x}, optimizer)
    other.resetHostWeights(str(tmp_path / "trained.onnx"))
    other.weightsFromHost()
    other.run(popart.PyStepIO({"x": x}, results))
    np.testing.assert_array_equal(results[names["loss"]], second)
    stranger = popart.Builder()
    stranger.addInitializedInputTensor(WEIGHT, "unknown")
    with pytest.raises(popart.popart_exception, match="resetWeights, no tensor 'unknown' in tensors"):
        other.resetHostWeights(stranger.getModelProto())


def test_callbacks_hand_over_one_micro_batch_at_a_time(device: popart.DeviceInfo) -> None:
    builder, names = build()
    flow = popart.DataFlow(2, {names["active"]: popart.AnchorReturnType("All")})
    session = popart.InferenceSession(builder.getModelProto(), flow, device)
    session.prepareDevice()
    x, found, calls = make_data(2, 2, 3), [], []

    def give(name: str, prefetch: bool) -> np.ndarray:
        calls.append(name)
        return x[len(calls) - 1]

    def take(name: str) -> np.ndarray:
        found.append(np.empty((2, 4), np.float32))
        return found[-1]

    session.run(popart.PyStepIOCallback(give, lambda name: None, take, lambda name: None))
    assert calls == ["x", "x"]
    np.testing.assert_allclose(np.stack(found), np.tanh(x @ WEIGHT), rtol=1e-5, atol=1e-6)


def test_data_is_read_on_from_run_to_run_without_checks(device: popart.DeviceInfo) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [1])
    y = builder.aiOnnx.identity([x])
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
    results = session.initAnchorArrays()
    session.prepareDevice()
    stepio = popart.PyStepIO({x: np.array([1, 2, 3], np.float32)}, results)
    with pytest.raises(popart.popart_exception, match="Unexpected number of input elements for Tensor input"):
        session.run(stepio)
    stepio.enableRuntimeAsserts(False)
    seen = []
    for _ in range(4):
        session.run(stepio)
        seen.append(results[y].item())
    assert seen == [1.0, 2.0, 3.0, 1.0]


def test_stages_and_ipus_are_in_the_plan(device: popart.DeviceInfo) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, 8])
    value = x
    for ipu in range(2):
        with builder.virtualGraph(ipu), builder.pipelineStage(ipu):
            weight = builder.addInitializedInputTensor(np.eye(8, dtype=np.float32))
            value = builder.aiOnnx.relu([builder.aiOnnx.matmul([value, weight])])
    options = popart.SessionOptions()
    options.virtualGraphMode, options.enablePipelining = popart.VirtualGraphMode.Manual, True
    two = popart.DeviceManager().createIpuModelDevice({"numIPUs": 2})
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(4, [value]), two, userOptions=options)
    session.prepareDevice()
    assert session.getReport().compilation.target.numIPUs == 2
    assert session._compiled.plan.pipeline is not None
    with pytest.raises(popart.popart_exception, match="For pipelining, depth"):
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [value]), two, userOptions=options)


def test_errors_say_what_is_missing(device: popart.DeviceInfo) -> None:
    builder, names = build()
    proto = builder.getModelProto()
    with pytest.raises(popart.popart_exception, match="User must specify an anchor tensor when doing inference"):
        popart.InferenceSession(proto, popart.DataFlow(1, {}), device)
    with pytest.raises(popart.popart_exception, match="Anchor tensor `nowhere' not in Ir Tensors"):
        popart.InferenceSession(proto, popart.DataFlow(1, ["nowhere"]), device)
    flow = popart.DataFlow(1, [names["loss"]])
    session = popart.TrainingSession(proto, flow, names["loss"], popart.ConstSGD(0.1), device)
    with pytest.raises(popart.popart_exception, match="must have been prepared before a report can be fetched"):
        session.getReport()
    session.prepareDevice()
    stepio = popart.PyStepIO({"x": make_data(2, 3)}, session.initAnchorArrays())
    with pytest.raises(popart.popart_exception, match="Must call weightsFromHost before run"):
        session.run(stepio)
    with pytest.raises(popart.popart_exception, match="contiguous"):
        popart.PyStepIO({"x": make_data(3, 2).T}, {})
    inference = popart.InferenceSession(proto, flow, device)
    with pytest.raises(popart.popart_exception, match="Cannot call writeWeights when constantWeights is set"):
        inference.writeWeights(popart.PyWeightsIO({"w": WEIGHT}))


def test_a_cpu_has_no_profile() -> None:
    builder, names = build()
    cpu = popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [names["loss"]]), cpu)
    session.prepareDevice()
    with pytest.raises(popart.poplar_exception, match=r"Profiling is disabled for current device type\."):
        session.getSummaryReport()


def test_an_anchored_weight_has_its_new_value_and_an_accumulator_its_sum(train) -> None:
    builder, names = build()
    x = make_data(2, 3)
    _, results = train(builder, names["loss"], [names["w"]], {"x": x})
    weight = torch.tensor(WEIGHT, requires_grad=True)
    (gradient,) = torch.autograd.grad(torch.tanh(torch.tensor(x) @ weight).sum(), [weight])
    np.testing.assert_allclose(results[names["w"]], (weight - 0.1 * gradient).detach(), rtol=1e-5, atol=1e-6)

    builder, names = build()
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = True, 3
    wanted = [popart.reservedAccumPrefix() + names["w"], GRADIENT + names["w"], names["w"]]
    _, results = train(builder, names["loss"], wanted, {"x": make_data(3, 2, 3)}, options=options)
    np.testing.assert_allclose(results[wanted[0]], np.cumsum(results[wanted[1]], 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(results[names["w"]][2], WEIGHT)  # the update comes after the last of them


def test_values_of_the_optimizer_are_anchors(train) -> None:
    builder, names = build()
    name = popart.reservedDefaultScaledLearningRate0Prefix() + "FLOAT"
    optimizer = popart.SGD({"defaultLearningRate": (0.25, False)})
    _, results = train(builder, names["loss"], [name], {"x": make_data(2, 3)}, optimizer)
    assert float(results[name]) == 0.25


def test_executables_are_known_again(tmp_path: Path, device: popart.DeviceInfo) -> None:
    builder, names = build()

    def make(batches: int = 1) -> popart.InferenceSession:
        flow = popart.DataFlow(batches, [names["active"]])
        return popart.InferenceSession(builder.getModelProto(), flow, device)

    make().compileAndExport(str(tmp_path / "program.popef"))
    again = make()
    again.loadExecutable(str(tmp_path / "program.popef"))
    again.prepareDevice()
    results = again.initAnchorArrays()
    x = make_data(2, 3)
    again.run(popart.PyStepIO({"x": x}, results))
    np.testing.assert_allclose(results[names["active"]], np.tanh(x @ WEIGHT), rtol=1e-5, atol=1e-6)
    with pytest.raises(popart.popart_exception, match="was not written by a session with this model"):
        make(2).loadExecutable(str(tmp_path / "program.popef"))
    (tmp_path / "damaged.popef").write_text("{")
    with pytest.raises(popart.popart_exception, match=r"damaged\.popef"):
        make().loadExecutable(str(tmp_path / "damaged.popef"))


def test_weights_beside_a_model_are_written_back_with_the_state(train, tmp_path: Path) -> None:
    builder, names = build()
    file = tmp_path / "weights.bin"
    builder.saveInitializersExternally([names["w"]], str(file))
    optimizer = popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True)})
    session, _ = train(builder, names["loss"], [names["loss"]], {"x": make_data(2, 3)}, optimizer)
    session.modelToHost(str(tmp_path / "model.onnx"))
    found = np.empty_like(WEIGHT)
    session.readWeights(popart.PyWeightsIO({"w": found}))
    assert file.stat().st_size == 2 * found.nbytes  # the momentum lies behind the weight
    np.testing.assert_array_equal(np.fromfile(file, np.float32, found.size).reshape(found.shape), found)
    session.updateExternallySavedTensorLocations(str(file), str(tmp_path / "moved.bin"))
    with pytest.raises(popart.popart_exception, match="No ONNX model initializers have external location set to"):
        session.updateExternallySavedTensorLocations(str(file), str(tmp_path / "again.bin"))


def test_a_reduction_over_no_axes_reduces_nothing(device: popart.DeviceInfo) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3])
    y = builder.aiOnnx.reducel1([x], axes=[])
    with pytest.raises(popart.popart_exception, match=r"Axis 2 is out of acceptable range \[-2, 1\]"):
        builder.aiOnnx.reducesum([x], axes=[2])
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
    results = session.initAnchorArrays()
    session.prepareDevice()
    data = make_data(2, 3)
    session.run(popart.PyStepIO({x: data}, results))
    np.testing.assert_array_equal(results[y], np.abs(data))


def test_data_exchanged_between_running_replicas_is_refused(device: popart.DeviceInfo) -> None:
    builder = popart.Builder()
    given = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]), "given")
    total = builder.aiGraphcore.replicatedallreduce([given])
    options = popart.SessionOptions()
    options.enableReplicatedGraphs = True
    options.replicatedGraphCount = 2
    flow = popart.DataFlow(1, {total: popart.AnchorReturnType("All")})
    two = popart.DeviceManager().createIpuModelDevice({"numIPUs": 2})
    with pytest.raises(popart.popart_exception, match="exchanges data between 2 replicas"):
        popart.InferenceSession(builder.getModelProto(), flow, two, userOptions=options)
    options.enableReplicatedGraphs = False
    options.replicatedGraphCount = 1
    popart.InferenceSession(builder.getModelProto(), flow, device, userOptions=options)
