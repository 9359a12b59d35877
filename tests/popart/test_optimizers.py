"""PopART's optimizers: keys, defaults and errors; and the updates that they stand for, against torch."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from openipu.capture import capture_program
from openipu.graph import OptimizerKind, Reduction, RunOptions
from openipu.run import Executable
from popart import AdamMode, AdaptiveMode, DataType, SGDAccumulatorAndMomentum, WeightDecayMode
from popart._exceptions import popart_exception
from popart.optimizers import SGD, Adam, Adaptive, ClipNormSettings, ConstSGD, DeviceOptimizer, OptimizerValue
from popart.optimizers.base import Factors

SEPARATE = SGDAccumulatorAndMomentum.Separate
L2, DECAY = WeightDecayMode.L2Regularization, WeightDecayMode.Decay


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = nn.Linear(4, 5, bias=False), nn.Linear(5, 2)

    def forward(self, x):
        return nn.functional.mse_loss(self.second(torch.tanh(self.first(x))), x[:, :2])


@dataclass
class Training:
    net: nn.Module
    device: DeviceOptimizer
    executable: Executable

    def run(self, batch, optimizer=None):
        if optimizer is not None:
            self.device.replace(optimizer)
        self.executable.set_hyper_parameters(self.device.hyper_parameters)
        self.executable.run([batch])

    def read(self):
        self.executable.read_weights(dict(self.net.named_parameters()), {})
        return {name: value.detach().numpy().copy() for name, value in self.net.named_parameters()}

    def read_state(self):
        return {self.device.name_state(key): value for key, value in self.executable.state.items()}


def start(optimizer, accumulation=1) -> Training:
    net = Net()
    weights = dict(net.named_parameters())
    factors = Factors(accumulates=accumulation > 1, accumulation=accumulation)
    device = DeviceOptimizer(optimizer, {name: value.dtype for name, value in weights.items()}, factors)
    program = capture_program(net, (torch.zeros(6, 4),), {}, training=True, optimizer=device.spec, name="net")
    options = RunOptions(training=True, gradient_accumulation=accumulation, reduction=Reduction.SUM)
    executable = Executable(program, options)
    executable.load_weights(weights, {})
    executable.load_state(device.make_initial_state(weights))
    return Training(net, device, executable)


def make_batches(count=5, size=6):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(size, 4, generator=generator) for _ in range(count)]


VALUES = {"defaultLearningRate": (0.1, False), "defaultWeightDecay": (0.05, False), "lossScaling": (10.0, False)}
MOMENTS = {**VALUES, "defaultBeta1": (0.8, False), "defaultBeta2": (0.9, False), "defaultEps": (1e-6, False)}
FILTERS = {**VALUES, "defaultAlpha": (0.8, False), "defaultEps": (1e-6, False)}
FLOWING = {**VALUES, "defaultMomentum": (0.8, False), "defaultVelocityScaling": (0.5, False)}

CASES = {
    "SGD": (lambda: SGD(VALUES), torch.optim.SGD, {}),
    "SGD combined": (lambda: SGD(FLOWING), torch.optim.SGD, {"momentum": 0.8}),
    "SGD separate": (lambda: SGD(FLOWING, accumulatorAndMomentum=SEPARATE), torch.optim.SGD, {"momentum": 0.8}),
    "SGD nesterov": (
        lambda: SGD({**FLOWING, "nesterov": (1, True)}), torch.optim.SGD, {"momentum": 0.8, "nesterov": True}),
    "Adam": (lambda: Adam(MOMENTS, weight_decay_mode=L2), torch.optim.Adam, {"betas": (0.8, 0.9), "eps": 1e-6}),
    "AdamW": (lambda: Adam(MOMENTS), torch.optim.AdamW, {"betas": (0.8, 0.9), "eps": 1e-6}),
    "AdamW scaled": (
        lambda: Adam(MOMENTS, scaled_optimizer_state=True), torch.optim.AdamW, {"betas": (0.8, 0.9), "eps": 1e-6}),
    "AdaMax": (
        lambda: Adam({**MOMENTS, "defaultEps": (1e-9, False)}, mode=AdamMode.AdaMax, weight_decay_mode=L2),
        torch.optim.Adamax, {"betas": (0.8, 0.9), "eps": 1e-9}),
    "AdaGrad": (
        lambda: Adaptive(FILTERS, mode=AdaptiveMode.AdaGrad, weight_decay_mode=L2), torch.optim.Adagrad, {"eps": 1e-6}),
    "AdaDelta": (
        lambda: Adaptive(FILTERS, mode=AdaptiveMode.AdaDelta, weight_decay_mode=L2), torch.optim.Adadelta,
        {"rho": 0.8, "eps": 1e-6}),
    "RMSProp": (
        lambda: Adaptive({**FILTERS, "defaultMomentum": (0.5, False)}, weight_decay_mode=L2), torch.optim.RMSprop,
        {"alpha": 0.8, "eps": 1e-6, "momentum": 0.5}),
    "centered RMSProp": (
        lambda: Adaptive(FILTERS, mode=AdaptiveMode.CenteredRMSProp, weight_decay_mode=L2), torch.optim.RMSprop,
        {"alpha": 0.8, "eps": 1e-6, "centered": True}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_updates_equal_those_of_torch(case):
    make, eager_class, settings = CASES[case]
    training = start(make())
    eager = copy.deepcopy(training.net)
    optimizer = eager_class(eager.parameters(), lr=0.1, weight_decay=0.05, **settings)
    for batch in make_batches():
        training.run(batch)
        optimizer.zero_grad()
        eager(batch).backward()
        optimizer.step()
    found = training.read()
    for name, value in eager.named_parameters():
        np.testing.assert_allclose(found[name], value.detach().numpy(), rtol=5e-5, atol=5e-5, err_msg=name)


def test_a_new_learning_rate_acts_at_once_and_new_momentum_of_a_combined_tensor_one_update_late():
    def values(rate, momentum):
        return {"defaultLearningRate": (rate, False), "defaultMomentum": (momentum, False)}

    ahead, apart = start(SGD(values(0.1, 0.9))), start(SGD(values(0.1, 0.9), accumulatorAndMomentum=SEPARATE))
    first, second, third, *_ = make_batches()
    for training in (ahead, apart):
        training.run(first)
    layout = {"accumulatorAndMomentum": SEPARATE}
    ahead.run(second, SGD(values(0.2, 0.9)))
    apart.run(second, SGD(values(0.2, 0.9), **layout))
    np.testing.assert_allclose(ahead.read()["first.weight"], apart.read()["first.weight"], rtol=1e-5, atol=1e-6)
    ahead.run(third, SGD(values(0.2, 0.0)))
    apart.run(third, SGD(values(0.2, 0.9), **layout))  # the combined tensor holds 0.9 v already
    np.testing.assert_allclose(ahead.read()["first.weight"], apart.read()["first.weight"], rtol=1e-5, atol=1e-6)
    assert ahead.read_state()["Accl___first.weight"].eq(0).all()  # 0.0 v for the next one


def test_weights_with_values_of_their_own():
    optimizer = SGD(
        {"defaultLearningRate": (0.1, False), "defaultMomentum": (0.5, True)}, accumulatorAndMomentum=SEPARATE
    )
    optimizer.insertSpecific("first.weight", {"learningRate": (0.01, False), "momentum": (0.0, True)})
    training = start(optimizer)
    eager = copy.deepcopy(training.net)
    torch_optimizer = torch.optim.SGD(
        [{"params": [eager.first.weight], "lr": 0.01, "momentum": 0.0}, {"params": eager.second.parameters()}],
        lr=0.1,
        momentum=0.5,
    )
    for batch in make_batches():
        training.run(batch)
        torch_optimizer.zero_grad()
        eager(batch).backward()
        torch_optimizer.step()
    found = training.read()
    for name, value in eager.named_parameters():
        np.testing.assert_allclose(found[name], value.detach().numpy(), rtol=2e-5, atol=2e-6, err_msg=name)
    assert sorted(training.read_state()) == ["Accl1___second.bias", "Accl1___second.weight"]


def test_equal_constants_of_several_weights_share_a_group():
    optimizer = Adam({"defaultLearningRate": (0.1, False)})
    for name in ("a", "b"):
        optimizer.insertSpecific(name, {"learningRate": (0.2, True)})
    optimizer.insertSpecific("c", {"learningRate": (0.2, False)})
    device = DeviceOptimizer(optimizer, dict.fromkeys("abcde", torch.float32))
    assert [group.parameters for group in device.spec.groups] == [("d", "e"), ("a", "b"), ("c",)]


def test_gradients_are_clipped_by_groups():
    settings = [ClipNormSettings.clipWeights(["first.weight"], 0.02), ClipNormSettings(["second.weight"], 0.01)]
    training = start(SGD({"defaultLearningRate": (1.0, True)}, settings))
    eager = copy.deepcopy(training.net)
    [batch] = make_batches(1)
    training.run(batch)
    eager(batch).backward()
    torch.nn.utils.clip_grad_norm_([eager.first.weight], 0.02)
    torch.nn.utils.clip_grad_norm_([eager.second.weight], 0.01)
    found = training.read()
    for name, value in eager.named_parameters():
        expected = (value - value.grad).detach().numpy()
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5, err_msg=name)


def test_all_weights_and_another_group_cannot_be_clipped_at_once():
    settings = [ClipNormSettings.clipAllWeights(1.0), ClipNormSettings.clipWeights(["a"], 1.0)]
    with pytest.raises(popart_exception, match="Several clip groups, and one of them is of all weights"):
        DeviceOptimizer(SGD({}, settings), {"a": torch.float32})


# Values and keys ----------------------------------------------------------------------------------------------------


def test_values_that_are_not_given_are_the_documented_ones():
    assert SGD({}).learningRates().getDefault() == OptimizerValue(0.1, True)
    assert SGD({}).velocityScalings().getDefault().val() == 1
    adam = Adam({})
    assert (adam.beta1s().get("w").val(), adam.beta2s().get("w").val()) == tuple(np.float32([0.9, 0.999]).tolist())
    assert adam.maxWeightNorms().getDefault().val() == 10
    assert Adaptive({}).alphas().getDefault().val() == float(np.float32(0.99))
    assert Adaptive({}).kind is OptimizerKind.RMSPROP
    assert Adam({}).kind is OptimizerKind.ADAMW


def test_const_sgd_is_sgd_with_constants():
    optimizer = ConstSGD(0.5, weight_decay=0.25, loss_scaling=4)
    assert optimizer.learningRates().getDefault() == OptimizerValue(0.5, True)
    assert optimizer.weightDecays().getDefault().val() == 0.25
    assert optimizer.getLossScalingVal() == 4
    optimizer.check_replacement(SGD({"defaultLearningRate": (0.5, True), "defaultWeightDecay": (0.25, True),
                                     "lossScaling": (4.0, True)}))  # fmt: skip


def test_specific_values_that_are_not_named_are_those_of_all():
    optimizer = SGD({"defaultMomentum": (0.7, True), "defaultLearningRate": (0.2, False)})
    optimizer.insertSpecific("w", {"learningRate": (0.3, False)})
    assert optimizer.momentums().get("w").val() == float(np.float32(0.7))
    assert optimizer.learningRates().get("w") == OptimizerValue(0.3, False)
    assert optimizer.learningRates().get("other").val() == float(np.float32(0.2))
    with pytest.raises(popart_exception, match="has values of its own"):
        optimizer.insertSpecific("w", {})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SGD({"learningRate": (0.1, True)}), "Invalid key learningRate in popart.SGD. Permitted keys are"),
        (lambda: SGD({}).insertSpecific("w", {"rate": (0.1, True)}), "Invalid key rate in SGD::insertSpecific"),
        (lambda: SGD({"defaultLearningRate": 0.1}), r"must be a tuple"),
        (lambda: SGD({"defaultLearningRate": (0.0, True)}), "Constant, zero learning rate in SGD"),
        (lambda: Adam({"defaultLearningRate": (-1.0, True)}), r"Negative learning rate \(-1\) in Adam"),
        (lambda: Adam({"defaultEps": (0.0, True)}), r"Non-positive eps \(0\) in Adam"),
        (lambda: SGD({"defaultMomentum": (-1.0, True)}), r"Negative momentums \(-1\) in SGD"),
        (lambda: SGD({"defaultVelocityScaling": (0.0, True)}), "Non-positive velocity scaling"),
        (lambda: SGD({"nesterov": (1, True), "defaultDampening": (0.1, True)}), "takes no dampening"),
        (lambda: SGD({"lossScaling": (0.0, True)}), "Loss scaling cannot be 0"),
        (lambda: Adaptive({}, mode=AdaptiveMode.AdaGrad, rmsprop_tf_variant=True), "rmsprop_tf_variant is for"),
        (lambda: Adam({}, accl1_type=DataType.INT32), "accl1_type can be FLOAT, FLOAT16"),
    ],
)
def test_what_makes_no_sense_is_refused(make, words):
    with pytest.raises(popart_exception, match=words):
        make()


OLD = {"defaultLearningRate": (0.1, False), "defaultWeightDecay": (0.5, True)}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (SGD(OLD), SGD({**OLD, "defaultWeightDecay": (0.25, True)}),
         "weight decays.*Values are constant but do not match."),
        (SGD(OLD), SGD({**OLD, "defaultWeightDecay": (0.5, False)}),
         "Can not replace a constant value with a non constant value."),
        (SGD(OLD), SGD({**OLD, "lossScaling": (2.0, True)}), "Problem with loss scaling"),
        (SGD(OLD), Adam({}), "Can not replace optimizer of type SGD with new optimizer of type Adam"),
        (SGD(OLD), SGD({**OLD, "defaultMomentum": (0.5, False)}), "compiled without momentum"),
        (SGD(OLD), SGD(OLD, [ClipNormSettings.clipAllWeights(1.0)]), "Clip norm settings do not match"),
        (SGD(OLD, [ClipNormSettings.clipAllWeights(2.0)]), SGD(OLD, [ClipNormSettings.clipAllWeights(1.0)]),
         "Clip norm settings at index 0 do not match"),
        (Adam({}), Adam({}, mode=AdamMode.Lamb), "Adam modes do not match"),
        (Adam({}), Adam({}, weight_decay_mode=L2), "Weight decay modes do not match"),
        (Adaptive({}), Adaptive({}, mode=AdaptiveMode.AdaGrad), "Adaptive modes do not match"),
    ],
)  # fmt: skip
def test_a_compiled_program_takes_over_new_values_and_no_new_structure(old, new, words):
    device = DeviceOptimizer(old, {"w": torch.float32})
    with pytest.raises(popart_exception, match=words):
        device.replace(new)
    assert device.optimizer is old


def test_a_replacement_has_values_for_the_same_weights():
    old, new = SGD(OLD), SGD(OLD)
    old.insertSpecific("w", {"learningRate": (0.5, False)})
    with pytest.raises(popart_exception, match="compiled with such for"):
        DeviceOptimizer(old, {"w": torch.float32}).replace(new)
    new.insertSpecific("w", {"learningRate": (0.25, False)})
    device = DeviceOptimizer(old, {"w": torch.float32, "other": torch.float32})
    device.replace(new)
    assert device.hyper_parameters["lr.1"] == 0.25


# Names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: SGD({}), []),
        (lambda: SGD({"defaultMomentum": (0.5, True)}), ["Accl"]),
        (lambda: SGD({"defaultMomentum": (0.5, True)}, accumulatorAndMomentum=SEPARATE), ["Accl1"]),
        (lambda: Adam({}), ["Accl1", "Accl2", "Step"]),
        (lambda: Adam({}, mode=AdamMode.AdamNoBias), ["Accl1", "Accl2"]),
        (lambda: Adam({}, mode=AdamMode.AdaMax), ["Accl1", "Accl2", "Step"]),
        (lambda: Adaptive({}, mode=AdaptiveMode.AdaGrad), ["Accl1"]),
        (lambda: Adaptive({}, mode=AdaptiveMode.AdaDelta), ["Accl1", "Accl2"]),
        (lambda: Adaptive({"defaultMomentum": (0.0, False)}, mode=AdaptiveMode.CenteredRMSProp),
         ["Accl1", "Accl2", "Accl3"]),
    ],
)  # fmt: skip
def test_state_has_the_names_of_popart(make, names):
    training = start(make())
    weights = [name for name, _ in training.net.named_parameters()]
    assert sorted(training.read_state()) == sorted(f"{name}___{weight}" for name in names for weight in weights)


def test_accumulators_are_named_where_gradients_are_accumulated():
    shapes = {"w": (2, 3)}
    factors = Factors(accumulates=True, accumulation=4)

    def list_names(optimizer):
        return list(DeviceOptimizer(optimizer, {"w": torch.float16}, factors).list_accumulators(shapes))

    assert list_names(Adam({})) == ["Accum___w"]
    assert list_names(SGD({})) == ["Accum___w"]
    assert list_names(SGD({"defaultMomentum": (0.5, True)})) == []  # gradients go to the momentum itself
    assert DeviceOptimizer(Adam({}), {"w": torch.float16}).list_accumulators(shapes) == {}
    kept = DeviceOptimizer(Adam({}, accum_type=DataType.FLOAT), {"w": torch.float16}, factors)
    assert kept.list_accumulators(shapes)["Accum___w"].dtype is torch.float32


def test_types_of_state():
    net = nn.Sequential(nn.Linear(2, 2, bias=False)).half()

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            return nn.functional.mse_loss(self.net(x), x)

    def list_types(optimizer):
        device = DeviceOptimizer(optimizer, {"net.0.weight": torch.float16})
        program = capture_program(
            Loss(), (torch.zeros(2, 2).half(),), {}, training=True, optimizer=device.spec, name="n"
        )
        return {device.name_state(slot.key).split("___")[0]: slot.dtype for slot in program.state_slots}

    momentum = {"defaultMomentum": (0.5, True)}
    assert list_types(SGD(momentum)) == {"Accl": torch.float16}
    assert list_types(SGD(momentum, accumulatorAndMomentum=SEPARATE, accl1Type=DataType.FLOAT)) == {
        "Accl1": torch.float32
    }
    assert list_types(Adam({}, accl1_type=DataType.FLOAT16)) == {
        "Accl1": torch.float16,
        "Accl2": torch.float32,
        "Step": torch.float32,
    }
    assert list_types(Adaptive(momentum)) == {"Accl1": torch.float32, "Accl3": torch.float16}


def test_scalars_that_can_change_are_named_as_tensors():
    device = DeviceOptimizer(SGD({**VALUES, "defaultDampening": (0.25, True)}), {"w": torch.float32})
    rate, decay = np.float32(0.1) * np.float32(0.75), np.float32(0.05)
    assert device.list_scalars() == {
        "scaledLearningRate0___default___FLOAT": pytest.approx(float(rate / 10), rel=1e-6),
        "weightDecayScaleFactor0___default___FLOAT": pytest.approx(float(1 - rate * decay), rel=1e-6),
        "lossScaling_FLOAT": 10.0,
    }
    assert DeviceOptimizer(ConstSGD(0.1), {"w": torch.float32}).list_scalars() == {}
    optimizer = Adam({"defaultLearningRate": (0.5, False)})
    optimizer.insertSpecific("w", {"learningRate": (0.25, False)})
    named = DeviceOptimizer(optimizer, {"w": torch.float32, "other": torch.float16}).list_scalars()
    assert named == {"learningRate___specific___w": 0.25, "learningRate___default___FLOAT16": 0.5}


def test_momentum_that_is_ahead_begins_with_the_first_decay():
    values = {"defaultMomentum": (0.5, True), "defaultWeightDecay": (0.25, True), "defaultDampening": (0.5, True)}
    weights = {"w": torch.tensor([2.0])}
    state = DeviceOptimizer(SGD(values), {"w": torch.float32}).make_initial_state(weights)
    assert state["momentum_buffer:w"].item() == (1 - 0.5) * 0.25 * 2.0
    assert DeviceOptimizer(Adam({}), {"w": torch.float32}).make_initial_state(weights) == {}


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_accumulated_gradients_are_one_update(momentum):
    values = {
        "defaultLearningRate": (0.1, False),
        "defaultMomentum": (momentum, momentum == 0),
        "lossScaling": (8.0, True),
    }
    training = start(SGD(values), accumulation=3)
    eager = copy.deepcopy(training.net)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1, momentum=momentum)
    for batch in make_batches(3, 18):
        training.run(batch)
        optimizer.zero_grad()
        sum(eager(part) for part in batch.split(6)).backward()
        optimizer.step()
    found = training.read()
    for name, value in eager.named_parameters():
        np.testing.assert_allclose(found[name], value.detach().numpy(), rtol=2e-5, atol=2e-6, err_msg=name)
