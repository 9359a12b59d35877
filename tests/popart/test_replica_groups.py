"""Variables of groups of replicas, inputs that replicas share, inputs that nobody reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import popart

REPLICAS = 4
VALUES = np.arange(2 * 3, dtype=np.float32).reshape(2, 3)  # one value for each of two groups


def make_session(settings: popart.VariableSettings, optimizer: object, value: np.ndarray = VALUES):
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [3]), "x")
    builder.addInputTensor(popart.TensorInfo("INT32", [5]), "nobody reads it")
    w = builder.addInitializedInputTensor(value, settings, "w")
    product = builder.aiOnnx.mul([x, w])
    loss = builder.aiGraphcore.identityloss([product], reduction=popart.ReductionType.Sum)
    options = popart.SessionOptions()
    options.enableReplicatedGraphs, options.replicatedGraphCount = True, REPLICAS
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": REPLICAS})
    flow = popart.DataFlow(1, {product: popart.AnchorReturnType("All")})
    session = popart.TrainingSession(builder.getModelProto(), flow, loss, optimizer, device, userOptions=options)
    session.prepareDevice()
    session.weightsFromHost()
    return session, product


def run_and_read(session: popart.TrainingSession, data: np.ndarray, shape: tuple[int, ...]):
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": data}, anchors))
    session.weightsToHost()
    found = np.zeros(shape, np.float32)
    session.readWeights(popart.PyWeightsIO({"w": found}))
    return anchors, found


@pytest.mark.parametrize(("kind", "group_of"), [("Consecutive", (0, 0, 1, 1)), ("Orthogonal", (0, 1, 0, 1))])
def test_groups_of_replicas_train_values_of_their_own(kind: str, group_of: tuple[int, ...]) -> None:
    group = popart.CommGroup(getattr(popart.CommGroupType, kind), 2)
    session, product = make_session(popart.VariableSettings(group), popart.ConstSGD(0.5))
    data = np.random.default_rng(0).standard_normal((REPLICAS, 3)).astype(np.float32)
    anchors, found = run_and_read(session, data, (2, 3))
    np.testing.assert_allclose(anchors[product], data * VALUES[list(group_of)], rtol=1e-6)
    for index in range(2):  # the gradient of sum(x * w) is x, added up over the replicas of a group
        members = [replica for replica in range(REPLICAS) if group_of[replica] == index]
        np.testing.assert_allclose(found[index], VALUES[index] - 0.5 * data[members].sum(0), rtol=1e-5)


def test_a_value_of_each_replica_comes_back_where_it_is_asked_for() -> None:
    group = popart.CommGroup(popart.CommGroupType.Consecutive, 2)
    settings = popart.VariableSettings(group, popart.VariableRetrievalMode.AllReplicas)
    session, _ = make_session(settings, popart.ConstSGD(0.5))
    _, found = run_and_read(session, np.ones((REPLICAS, 3), np.float32), (REPLICAS, 3))
    np.testing.assert_allclose(found, (VALUES - 0.5 * 2)[[0, 0, 1, 1]])


def test_momentum_of_a_grouped_variable_is_kept_for_each_group() -> None:
    group = popart.CommGroup(popart.CommGroupType.Consecutive, 2)
    optimizer = popart.Adam({"defaultLearningRate": (0.1, True)})
    session, _ = make_session(popart.VariableSettings(group), optimizer)
    data = np.concatenate([np.ones((2, 3)), -np.ones((2, 3))]).astype(np.float32)
    _, found = run_and_read(session, data, (2, 3))
    weight = torch.tensor(VALUES, requires_grad=True)
    reference = torch.optim.Adam([weight], lr=0.1, eps=1e-6)
    weight.grad = torch.tensor([[2.0] * 3, [-2.0] * 3])
    reference.step()
    np.testing.assert_allclose(found, weight.detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize("mode", ["OnePerGroup", "AllReplicas"])
def test_combined_momentum_of_a_grouped_variable_begins_with_the_values_of_each_group(mode: str) -> None:
    group = popart.CommGroup(popart.CommGroupType.Consecutive, 2)
    values = {"defaultLearningRate": (0.1, True), "defaultMomentum": (0.5, True), "defaultWeightDecay": (0.5, True)}
    settings = popart.VariableSettings(group, getattr(popart.VariableRetrievalMode, mode))
    session, _ = make_session(settings, popart.SGD(values))
    each = mode == "AllReplicas"
    _, found = run_and_read(session, np.ones((REPLICAS, 3), np.float32), (REPLICAS if each else 2, 3))
    wanted = VALUES - 0.1 * (2 + 0.5 * VALUES)  # the gradients of two replicas, and the decay of the group's own value
    np.testing.assert_allclose(found, wanted[[0, 0, 1, 1]] if each else wanted, rtol=1e-5)


def test_a_value_too_few_for_the_groups_is_refused() -> None:
    group = popart.CommGroup(popart.CommGroupType.Ungrouped, 0)
    with pytest.raises(popart.popart_exception, match=r"tensor w to have first dimension 4"):
        make_session(popart.VariableSettings(group), popart.ConstSGD(0.1))


def test_sums_over_replicas_are_refused_by_name() -> None:
    settings = popart.VariableSettings(popart.VariableRetrievalMode.AllReduceReplicas)
    with pytest.raises(popart.popart_exception, match="'w' is to come back summed"):
        make_session(settings, popart.ConstSGD(0.1))


def test_an_input_that_is_broadcast_is_handed_over_once_for_all_replicas() -> None:
    builder = popart.Builder()
    settings = popart.InputSettings(popart.ReplicatedStreamMode.Broadcast)
    shared = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]), settings, "shared")
    own = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]), "own")
    total = builder.aiOnnx.add([shared, own])
    options = popart.SessionOptions()
    options.enableReplicatedGraphs, options.replicatedGraphCount = True, 2
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 2})
    flow = popart.DataFlow(3, {total: popart.AnchorReturnType("All")})
    session = popart.InferenceSession(builder.getModelProto(), flow, device, userOptions=options)
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    data = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    once = np.array([[100, 200], [300, 400], [500, 600]], np.float32)
    session.run(popart.PyStepIO({shared: once, own: data}, anchors))
    np.testing.assert_array_equal(anchors[total], data + once[:, None])
