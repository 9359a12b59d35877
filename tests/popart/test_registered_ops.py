"""Custom ops of PopART models are what `openipu.register_custom_op` says they compute."""

import numpy as np
import pytest
import torch

import openipu
import popart
from openipu.capture.constructs import custom_ops

DOMAIN = "com.acme"


@pytest.fixture(autouse=True)
def _forget_registrations(monkeypatch):
    monkeypatch.setattr(custom_ops, "_registered", dict(custom_ops._registered))


def register_cube(**others):
    openipu.register_custom_op(
        "Cube", DOMAIN, 1, forward=lambda inputs, attributes: [attributes["scale"] * inputs[0] ** 3], **others
    )


def differentiate_cube(inputs, gradients, attributes):
    return [3 * attributes["scale"] * inputs[0] ** 2 * gradients[0]]


def build(weights, rows=2):
    """x @ w, cubed and halved: its builder, and the names of x, w, the result and the loss."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [rows, weights.shape[0]]))
    w = builder.addInitializedInputTensor(weights)
    product = builder.aiOnnx.matmul([x, w])
    with builder.virtualGraph(0):
        cubes = builder.customOp(
            opName="Cube", opVersion=1, domain=DOMAIN, inputs=[product], attributes={"scale": 0.5}, numOutputs=1
        )
    loss = builder.aiGraphcore.identityloss([cubes[0]])
    return builder, x, w, cubes[0], loss


def make_training(builder, loss, anchors):
    session = popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(1, dict.fromkeys(anchors, popart.AnchorReturnType("All"))),
        loss=loss,
        optimizer=popart.SGD({"defaultLearningRate": (0.1, True)}),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def test_a_registered_op_trains_as_pytorch_does():
    register_cube(backward=differentiate_cube)
    generator = np.random.default_rng(3)
    weights, data = generator.random((4, 3), np.float32), generator.random((2, 4), np.float32)
    builder, x, w, cubes, loss = build(weights)
    assert builder.getTensorShape(cubes) == [2, 3]
    gradient = popart.reservedGradientPrefix() + w
    session = make_training(builder, loss, [cubes, gradient])
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: data}, anchors))

    parameter = torch.tensor(weights, requires_grad=True)
    expected = 0.5 * (torch.tensor(data) @ parameter) ** 3
    expected.mean().backward()
    np.testing.assert_allclose(anchors[cubes], expected.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(anchors[gradient], parameter.grad.numpy(), rtol=1e-5)
    session.weightsToHost()
    trained = np.empty_like(weights)
    session.readWeights(popart.PyWeightsIO({w: trained}))
    np.testing.assert_allclose(trained, weights - 0.1 * parameter.grad.numpy(), rtol=1e-5)


def test_a_plan_lists_the_op_as_a_guess_with_the_time_to_move_its_operands():
    register_cube()
    builder, _, _, cubes, _ = build(np.ones((4, 3), np.float32))
    session = popart.InferenceSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(1, [cubes]),
        deviceInfo=popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 1472}),
    )
    session.prepareDevice()
    plan = session._compiled.plan
    (op,) = [entry for entry in plan.ops if entry.op == "openipu.Cube"]
    assert "openipu.Cube" in plan.guessed_ops
    assert op.cycles > 0


def test_its_shape_function_is_asked_where_it_is_given():
    def fail_on_zeros(inputs, attributes):
        if not inputs[0].any():
            raise ValueError("nothing to add up")
        return [inputs[0].sum(1)]

    openipu.register_custom_op(
        "SumRows", DOMAIN, 1, forward=fail_on_zeros, shape=lambda shapes, attributes: [shapes[0][:1]]
    )
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [3, 2]))
    (total,) = builder.customOp("SumRows", 1, DOMAIN, [x], {})
    assert builder.getTensorShape(total) == [3]
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, [total]), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: np.arange(6, dtype=np.float32).reshape(3, 2)}, anchors))
    np.testing.assert_array_equal(anchors[total], [1, 5, 9])

    openipu.register_custom_op("SumRows", DOMAIN, 1, forward=fail_on_zeros)
    with pytest.raises(
        popart.popart_exception,
        match=r"SumRows:1 .* fails on zeros \(ValueError: nothing to add up\).*shape=",
    ):
        popart.InferenceSession(
            builder.getModelProto(), popart.DataFlow(1, [total]), popart.DeviceManager().createCpuDevice()
        )


def test_a_weight_that_the_op_writes_keeps_its_new_value():
    def count(inputs, attributes):
        inputs[1].add_(inputs[0].sum())
        return [inputs[0] + inputs[1]]

    openipu.register_custom_op("Count", DOMAIN, 1, forward=count, writes=[1])
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]))
    total = builder.addInitializedInputTensor(np.zeros(1, np.float32))
    (shown,) = builder.customOp("Count", 1, DOMAIN, [x, total], {})
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(2, [shown]), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: np.array([[1, 2], [3, 4]], np.float32)}, anchors))
    np.testing.assert_array_equal(anchors[shown], [[4, 5], [13, 14]])


def test_an_op_that_nobody_registered_is_named_with_the_call_to_write():
    builder, _, _, cubes, _ = build(np.ones((4, 3), np.float32))
    with pytest.raises(popart.popart_exception, match=r'register_custom_op\("Cube", "com.acme", 1, forward=…\)'):
        popart.InferenceSession(
            builder.getModelProto(), popart.DataFlow(1, [cubes]), popart.DeviceManager().createCpuDevice()
        )


def test_training_through_an_op_without_a_gradient_is_refused():
    register_cube()
    builder, _, _, _, loss = build(np.ones((4, 3), np.float32))
    with pytest.raises(popart.popart_exception, match="registered without a gradient"):
        make_training(builder, loss, [loss])


def test_an_op_that_returns_too_few_tensors_is_refused():
    openipu.register_custom_op("Two", DOMAIN, 1, forward=lambda inputs, attributes: [inputs[0]])
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]))
    _, second = builder.customOp("Two", 1, DOMAIN, [x], {}, 2)
    with pytest.raises(popart.popart_exception, match="is to return a list of 2 tensors"):
        popart.InferenceSession(
            builder.getModelProto(), popart.DataFlow(1, [second]), popart.DeviceManager().createCpuDevice()
        )
