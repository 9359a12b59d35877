"""What the optimizers of poptorch do on the device: the same as on the host, and what their extra arguments add."""

import copy
import warnings

import pytest
import torch

import poptorch
from openipu.graph import InputKind

X = torch.tensor([[1.0, -2.0, 0.5], [0.3, 0.7, -1.0]])


class Model(torch.nn.Module):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        torch.manual_seed(3)
        self.first = torch.nn.Linear(3, 4, dtype=dtype)
        self.second = torch.nn.Linear(4, 2, dtype=dtype)

    def forward(self, x):
        return poptorch.identity_loss(self.second(torch.tanh(self.first(x))) ** 2, "sum")


def make_options():
    return poptorch.Options().showCompilationProgressBar(False)


def train_on_host(make_optimizer, steps):
    model = Model()
    optimizer = make_optimizer(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        model(X).backward()
        optimizer.step()
    return model


CASES = {
    "rmsprop": lambda p: poptorch.optim.RMSprop(p, lr=0.01, weight_decay=0.1),
    "rmsprop centered": lambda p: poptorch.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
    "lamb": lambda p: poptorch.optim.LAMB(p, lr=0.01),
    "lamb without correction": lambda p: poptorch.optim.LAMB(p, lr=0.01, bias_correction=False, weight_decay=0.0),
    "lamb with a small norm": lambda p: poptorch.optim.LAMB(p, lr=0.01, max_weight_norm=0.1),
    "adamw without correction": lambda p: poptorch.optim.AdamW(p, lr=0.01, bias_correction=False),
    "sgd with scaled loss": lambda p: poptorch.optim.SGD(p, lr=0.01, momentum=0.9, loss_scaling=128.0),
    "sgd with combined accumulator": lambda p: poptorch.optim.SGD(
        p, lr=0.01, momentum=0.9, use_combined_accum=True, velocity_scaling=8.0, loss_scaling=4.0
    ),
    "sgd combined, without momentum": lambda p: poptorch.optim.SGD(p, lr=0.01, momentum=0.0, use_combined_accum=True),
    "sgd combined, momentum not given": lambda p: poptorch.optim.SGD(p, lr=0.01, use_combined_accum=True),
    "sgd combined, without momentum but with all else": lambda p: poptorch.optim.SGD(
        p, lr=0.01, momentum=0.0, weight_decay=0.1, use_combined_accum=True, velocity_scaling=8.0, loss_scaling=4.0
    ),
    "sgd combined, momentum in one group": lambda p: poptorch.optim.SGD(
        [{"params": [value], "momentum": 0.3 * index} for index, value in enumerate(p)],
        lr=0.01,
        momentum=0.0,
        use_combined_accum=True,
    ),
}


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize(
    "settings",
    [{"use_combined_accum": True}, {"use_combined_accum": True, "velocity_scaling": 4.0}, {"nesterov": True}, {}],
    ids=str,
)
def test_momentum_may_be_set_to_zero_later_and_back(settings, accumulation):
    """Without momentum an update is the gradient's alone; the device keeps that gradient for when momentum is back."""
    model, host = Model(), Model()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, **settings)
    options = make_options()
    options.Training.gradientAccumulation(accumulation).accumulationAndReplicationReductionType(
        poptorch.ReductionType.Sum
    )
    training = poptorch.trainingModel(model, options, optimizer)
    kept = {"nesterov": settings.get("nesterov", False)}
    reference = torch.optim.SGD(host.parameters(), lr=0.01, momentum=0.9, **kept)
    for momentum in (0.9, 0.9, 0.0, 0.0, 0.5, 0.5):
        optimizer.param_groups[0]["momentum"] = momentum
        training.setOptimizer(optimizer)
        training(X)
        reference.zero_grad()
        host(X).backward()
        # torch leaves its momentum as it is without momentum; here it is multiplied by zero, as any number would be.
        reference.param_groups[0]["momentum"] = momentum or 1e-30
        reference.step()
    for found, expected in zip(model.parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("case", CASES)
def test_the_device_does_what_the_host_does(case):
    model = Model()
    training = poptorch.trainingModel(model, make_options(), CASES[case](model.parameters()))
    for _ in range(6):
        training(X)
    for found, expected in zip(model.parameters(), train_on_host(CASES[case], 6).parameters(), strict=True):
        torch.testing.assert_close(found.detach(), expected.detach(), rtol=1e-5, atol=1e-6)


def test_tensorflows_rmsprop_starts_from_one_and_has_epsilon_under_the_root():
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(1.0)

    class Line(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.line = model

        def forward(self, x):
            return poptorch.identity_loss(self.line(x), "sum")

    optimizer = poptorch.optim.RMSprop(
        model.parameters(), lr=0.1, alpha=0.9, eps=0.05, momentum=0.5, use_tf_variant=True
    )
    training = poptorch.trainingModel(Line(), make_options(), optimizer)
    for _ in range(2):
        training(torch.tensor([[2.0]]))
    # gradient 2: squares 0.9 x 1 + 0.1 x 4 = 1.3, then 0.9 x 1.3 + 0.4 = 1.57
    first = 0.1 * 2 / (1.3 + 0.05) ** 0.5
    second = 0.5 * first + 0.1 * 2 / (1.57 + 0.05) ** 0.5
    assert model.weight.item() == pytest.approx(1 - first - second, rel=1e-5)


def test_a_scaled_loss_saves_half_gradients_from_underflow():
    moved = {}
    for scale in (1.0, 1024.0):
        weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.half))

        class Faint(torch.nn.Module):
            def __init__(self, weight=weight):
                super().__init__()
                self.weight = weight

            def forward(self, x):
                # the gradient is 1e-5 x 1e-4 = 1e-9, below the smallest half of 6e-8
                return poptorch.identity_loss((self.weight * x) * 1e-4, "sum")

        optimizer = poptorch.optim.SGD([weight], lr=1e6, loss_scaling=scale)
        poptorch.trainingModel(Faint(), make_options(), optimizer)(torch.full((1,), 1e-5, dtype=torch.half))
        moved[scale] = weight.item()
    assert moved[1.0] == 0.0
    assert moved[1024.0] == pytest.approx(-1e-3, rel=0.05)


def test_the_loss_scale_changes_without_compiling_again():
    model = Model()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.01, loss_scaling=2.0)
    training = poptorch.trainingModel(model, make_options(), optimizer)
    training(X)
    compiled = training._compiled
    optimizer.loss_scaling = 64.0
    training.setOptimizer(optimizer)
    training(X)
    assert training._compiled is compiled
    expected = train_on_host(lambda p: torch.optim.SGD(p, lr=0.01), 2)
    torch.testing.assert_close(model.first.weight.detach(), expected.first.weight.detach())


def find_accumulator_types(training):
    return {entry.dtype for entry in training._compiled.program.update.inputs_of(InputKind.GRADIENT)}


def test_types_of_state_and_accumulators_are_what_was_asked_for():
    options = make_options()
    options.Training.gradientAccumulation(2)
    model = Model()
    optimizer = poptorch.optim.Adam(
        model.parameters(),
        lr=0.01,
        accum_type=torch.half,
        first_order_momentum_accum_type=torch.half,
    )
    training = poptorch.trainingModel(model, options, optimizer)
    training(X)
    state = optimizer.state_dict()["ipu_state"]
    assert state["Accl1___first.weight"].dtype is torch.half
    assert state["Accl2___first.weight"].dtype is torch.float32
    assert find_accumulator_types(training) == {torch.half}
    assert training.options.Training.meanAccumulationAndReplicationReductionStrategy == (
        poptorch.MeanReductionStrategy.Running
    )


def test_half_weights_accumulate_in_float_unless_told_otherwise():
    options = make_options()
    options.Training.gradientAccumulation(2)
    model = Model(torch.half)
    training = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.01))
    training(X.half())
    assert find_accumulator_types(training) == {torch.float32}


def test_a_constant_that_changes_after_compilation_is_refused_by_name():
    model = Model()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.01)
    training = poptorch.trainingModel(model, make_options(), optimizer)
    training(X)
    optimizer.param_groups[0]["weight_decay"] = 0.5
    with pytest.raises(poptorch.Error, match=r"weight_decay of group 0 was a constant \(0\).*markAsVariable"):
        training.setOptimizer(optimizer)


def test_a_variable_that_starts_neutral_takes_effect_later():
    model = Model()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.01, momentum=0.0, weight_decay=0.0)
    training = poptorch.trainingModel(model, make_options(), optimizer)
    training(X)
    optimizer.param_groups[0].update(momentum=0.9, weight_decay=0.1)
    training.setOptimizer(optimizer)
    training(X)
    host = Model()
    plain = torch.optim.SGD(host.parameters(), lr=0.01)
    first = {}
    for step in range(2):
        plain.zero_grad()
        host(X).backward()
        if step:  # torch would start its momentum here; the device's holds the gradient of the first step
            for parameter in host.parameters():
                parameter.grad += 0.1 * parameter.detach() + 0.9 * first[parameter]
        first = {parameter: parameter.grad.clone() for parameter in host.parameters()}
        plain.step()
    torch.testing.assert_close(model.first.weight.detach(), host.first.weight.detach())


def test_another_structure_is_refused_with_what_to_do():
    model = Model()
    training = poptorch.trainingModel(model, make_options(), poptorch.optim.SGD(model.parameters(), lr=0.01))
    training(X)
    with pytest.raises(poptorch.Error, match=r"The new optimizer is ADAM.*destroy\(\)"):
        training.setOptimizer(torch.optim.Adam(model.parameters()))
    with pytest.raises(poptorch.Error, match="has other parameters in its groups"):
        training.setOptimizer(torch.optim.SGD(model.first.parameters(), lr=0.01))


def test_schedulers_of_torch_do_not_miss_the_step_of_the_device():
    model = Model()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    training = poptorch.trainingModel(model, make_options(), optimizer)
    training(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()
    training.setOptimizer(optimizer)
    training(X)
    assert optimizer.state_dict()["ipu_param"]["learningRate___specific___first.bias"] == 0.5


def test_a_copy_takes_the_devices_state_along():
    model = Model()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.01)
    training = poptorch.trainingModel(model, make_options(), optimizer)
    training(X)
    duplicate = copy.copy(optimizer)
    assert duplicate.has_state()
    training.setOptimizer(duplicate)
    training(X)
    assert duplicate.state_dict()["ipu_state"]["Step___first.weight"] == 2
    assert optimizer.state_dict()["ipu_state"]["Step___first.weight"] == 1


def test_values_are_logged_once_with_their_constants(caplog):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    training = poptorch.trainingModel(model, make_options(), optimizer)
    with caplog.at_level("DEBUG", "poptorch::python"):
        training(X)
        training.setOptimizer(torch.optim.SGD(model.parameters(), lr=0.5))
    assert caplog.text.count("Updating graph optimizer with SGD2, ") == 1
    assert "defaultLearningRate=0.5, defaultMomentum=0 (const)" in caplog.text
    assert "Updating group 0 optimizer with SGD2" in caplog.text


def test_loaded_values_reach_the_device_and_a_later_setoptimizer_wins():
    model = Model()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.01)
    training = poptorch.trainingModel(model, make_options(), optimizer)
    training(X)
    checkpoint = copy.deepcopy(optimizer.state_dict())
    for name in checkpoint["ipu_param"]:
        checkpoint["ipu_param"][name] = torch.tensor(0.25)
    optimizer.load_state_dict(checkpoint)
    training(X)
    assert optimizer.state_dict()["ipu_param"]["learningRate___specific___first.bias"] == 0.25
    training.setOptimizer(optimizer)  # its own values, which were never loaded: they are newer
    assert optimizer.param_groups[0]["lr"] == 0.01
    training(X)
    assert optimizer.state_dict()["ipu_param"]["learningRate___specific___first.bias"] == pytest.approx(0.01)
    optimizer.param_groups[0]["lr"] = 0.125
    training.setOptimizer(optimizer)
    training(X)
    assert optimizer.state_dict()["ipu_param"]["learningRate___specific___first.bias"] == 0.125
