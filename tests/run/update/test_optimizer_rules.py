"""Optimizers beyond those of PopTorch: against torch.optim where it has them, and against their written equations."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

from openipu.capture import capture_program, compute_hyper_parameters, describe_groups
from openipu.errors import OptionError
from openipu.graph import ClipGroup, OptimizerKind, OptimizerSpec, RunOptions, Tap
from openipu.run import Executable

STEPS = 4


class Net(nn.Module):
    """Two products: gradients that change with the weights."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x):
        return nn.functional.mse_loss(self.second(torch.tanh(self.first(x))), x[:, :2])


@dataclass
class Training:
    """A net under one optimizer, whose settings may change between steps."""

    net: nn.Module
    spec: OptimizerSpec
    executable: Executable
    settings: dict

    def run(self, batch):
        self.executable.set_hyper_parameters(
            compute_hyper_parameters(self.spec, [self.settings], self.settings.get("scale", 1.0))
        )
        self.executable.run([batch])

    def read(self):
        self.executable.read_weights(dict(self.net.named_parameters()), {})
        return {name: value.detach().double().numpy().copy() for name, value in self.net.named_parameters()}


def start(kind, settings, variable=(), **spec_changes) -> Training:
    net = Net()
    names = [name for name, _ in net.named_parameters()]
    groups = describe_groups(kind, [names], [settings], frozenset(variable))
    spec = replace(OptimizerSpec(kind, groups), **spec_changes)
    program = capture_program(net, (torch.zeros(6, 4),), {}, training=True, optimizer=spec, name="net")
    executable = Executable(program, RunOptions(training=True))
    executable.load_weights(dict(net.named_parameters()), {})
    return Training(net, spec, executable, settings)


def make_batches():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(6, 4, generator=generator) for _ in range(STEPS)]


def compute_gradients(weights, batch):
    """Of the loss in float64, by name."""
    net = Net().double()
    net.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    net(batch.double()).backward()
    return {name: parameter.grad.numpy() for name, parameter in net.named_parameters()}


def assert_close(found, expected, tolerance=2e-5):
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize(
    ("kind", "make", "settings"),
    [
        (OptimizerKind.ADAGRAD, torch.optim.Adagrad, {"lr": 0.1, "eps": 1e-6}),
        (OptimizerKind.ADADELTA, torch.optim.Adadelta, {"lr": 0.5, "rho": 0.8, "eps": 1e-6}),
        (OptimizerKind.ADAMAX, torch.optim.Adamax, {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-12}),
        (OptimizerKind.RMSPROP, torch.optim.RMSprop, {"lr": 0.1, "alpha": 0.8, "eps": 1e-6, "centered": True,
                                                      "momentum": 0.5}),
    ],
)  # fmt: skip
def test_updates_equal_those_of_torch(kind, make, settings, decay):
    own = {**settings, "weight_decay": decay}
    if "rho" in own:
        own["alpha"] = own.pop("rho")
    training = start(kind, own)
    eager = copy.deepcopy(training.net)
    optimizer = make(eager.parameters(), **settings, weight_decay=decay)
    for batch in make_batches():
        training.run(batch)
        optimizer.zero_grad()
        eager(batch).backward()
        optimizer.step()
    assert_close(training.read(), {name: value.detach().numpy() for name, value in eager.named_parameters()})


# The equations ------------------------------------------------------------------------------------------------------


def follow(training, make_step, changes=None):
    """Run the executable beside a rule in float64: make_step(weight, gradient, state, settings, t) -> weight."""
    weights, states = training.read(), {}
    for index, batch in enumerate(make_batches()):
        training.settings.update((changes or {}).get(index, {}))
        gradients = compute_gradients(weights, batch)
        training.run(batch)
        for name, gradient in gradients.items():
            state = states.setdefault(name, {})
            weights[name] = make_step(weights[name], gradient, state, training.settings, index + 1)
        assert_close(training.read(), weights)


def step_rmsprop(w, g, state, settings, t):
    alpha, like_tensorflow = settings["alpha"], settings.get("use_tf_variant")
    g = g if settings.get("decoupled_weight_decay") else g + settings["weight_decay"] * w
    v1 = alpha * state.get("v1", np.ones_like(w) if like_tensorflow else np.zeros_like(w)) + (1 - alpha) * g * g
    v2 = alpha * state.get("v2", np.zeros_like(w)) + (1 - alpha) * g
    variance = v1 - v2 * v2 if settings.get("centered") else v1
    x = g / np.sqrt(variance + settings["eps"]) if like_tensorflow else g / (np.sqrt(variance) + settings["eps"])
    held = settings["lr"] if like_tensorflow and settings["momentum"] else 1.0
    v3 = settings["momentum"] * state.get("v3", np.zeros_like(w)) + held * x
    state.update(v1=v1, v2=v2, v3=v3)
    decay = settings["weight_decay"] * w if settings.get("decoupled_weight_decay") else 0.0
    return w - (settings["lr"] if held == 1.0 else 1.0) * (decay + v3)


@pytest.mark.parametrize("momentum", [0.0, 0.7])
@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("tensorflow", [True, False])
def test_rmsprop_in_all_its_variants(tensorflow, centered, decoupled, momentum):
    settings = {"lr": 0.03, "alpha": 0.8, "eps": 1e-3, "weight_decay": 0.1, "momentum": momentum, "centered": centered,
                "use_tf_variant": tensorflow, "decoupled_weight_decay": decoupled}  # fmt: skip
    follow(start(OptimizerKind.RMSPROP, settings), step_rmsprop, {2: {"lr": 0.01}})


@pytest.mark.parametrize("kind", [OptimizerKind.ADAGRAD, OptimizerKind.ADADELTA])
def test_decoupled_decay_and_momentum_of_adagrad_and_adadelta(kind):
    def step(w, g, state, settings, t):
        zero = np.zeros_like(w)
        if kind is OptimizerKind.ADAGRAD:
            state["v1"] = state.get("v1", zero) + g * g
            x = g / (np.sqrt(state["v1"]) + settings["eps"])
        else:
            alpha, v2 = settings["alpha"], state.get("v2", zero)
            state["v1"] = alpha * state.get("v1", zero) + (1 - alpha) * g * g
            x = g * np.sqrt(v2 + settings["eps"]) / np.sqrt(state["v1"] + settings["eps"])
            state["v2"] = alpha * v2 + (1 - alpha) * x * x
        state["v3"] = settings["momentum"] * state.get("v3", zero) + x
        return w - settings["lr"] * (settings["weight_decay"] * w + state["v3"])

    settings = {"lr": 0.1, "alpha": 0.8, "eps": 1e-4, "weight_decay": 0.1, "momentum": 0.6,
                "decoupled_weight_decay": True}  # fmt: skip
    follow(start(kind, settings), step, {1: {"momentum": 0.3}})


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("scaled", [True, False])
def test_adamax_adds_epsilon_to_the_largest_gradient(scaled, decoupled):
    def step(w, g, state, settings, t):
        beta1, beta2 = settings["betas"]
        g = g if decoupled else g + settings["weight_decay"] * w
        state["m"] = beta1 * state.get("m", 0 * w) + (1 - beta1) * g
        state["u"] = np.maximum(beta2 * state.get("u", 0 * w), np.abs(g))
        x = state["m"] / (1 - beta1**t) / (state["u"] + settings["eps"])
        return w - settings["lr"] * (x + (settings["weight_decay"] * w if decoupled else 0.0))

    settings = {"lr": 0.1, "betas": (0.8, 0.9), "eps": 0.1, "weight_decay": 0.2, "scaled_state": scaled,
                "decoupled_weight_decay": decoupled, "scale": 8.0}  # fmt: skip
    training = start(OptimizerKind.ADAMAX, settings, loss_scaling=True)
    follow(training, step)
    assert {key.split(":")[0] for key in training.executable.state} == {"exp_avg", "exp_inf", "step"}


def step_adam(w, g, state, settings, t):
    """Adam and LAMB, with bias correction or without, with decay of the gradient or of the step."""
    beta1, beta2 = settings["betas"]
    penalised = settings.get("l2_penalty", False)
    g = g + settings["weight_decay"] * w if penalised else g
    state["m"] = beta1 * state.get("m", 0 * w) + (1 - beta1) * g
    state["v"] = beta2 * state.get("v", 0 * w) + (1 - beta2) * g * g
    corrected = settings.get("bias_correction", True)
    m = state["m"] / (1 - beta1**t) if corrected else state["m"]
    v = state["v"] / (1 - beta2**t) if corrected else state["v"]
    x = m / (np.sqrt(v) + settings["eps"]) + (0.0 if penalised else settings["weight_decay"] * w)
    if "max_weight_norm" not in settings:
        return w - settings["lr"] * x
    weight_norm, step_norm = min(np.linalg.norm(w), settings["max_weight_norm"]), np.linalg.norm(x)
    return w - settings["lr"] * x * (weight_norm / step_norm if weight_norm and step_norm else 1.0)


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("penalised", [True, False])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("kind", [OptimizerKind.LAMB, OptimizerKind.ADAMW])
def test_adamw_and_lamb_with_and_without_bias_correction(kind, scaled, penalised, corrected):
    settings = {"lr": 0.02, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.2, "scaled_state": scaled,
                "bias_correction": corrected, "scale": 16.0}  # fmt: skip
    if kind is OptimizerKind.LAMB:
        settings |= {"max_weight_norm": 1.5, "l2_penalty": penalised}
    elif penalised:
        kind, settings = OptimizerKind.ADAM, {**settings, "l2_penalty": True}
    training = start(kind, settings, loss_scaling=True)
    follow(training, step_adam, {2: {"lr": 0.01, "scale": 4.0}} if not scaled else None)


def test_scaled_state_is_kept_times_the_loss_scale_and_its_square():
    settings = {"lr": 0.02, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.0, "scale": 16.0}
    plain = start(OptimizerKind.ADAM, settings, loss_scaling=True)
    scaled = start(OptimizerKind.ADAM, {**settings, "scaled_state": True}, loss_scaling=True)
    [batch, *_] = make_batches()
    for training in (plain, scaled):
        training.run(batch)
    one, other = plain.executable.state, scaled.executable.state
    torch.testing.assert_close(other["exp_avg:first.weight"], 16 * one["exp_avg:first.weight"])
    torch.testing.assert_close(other["exp_avg_sq:first.weight"], 256 * one["exp_avg_sq:first.weight"])


VARIABLE = ("momentum", "dampening", "velocity_scaling", "weight_decay")
CHANGES = {
    1: {"lr": 0.3, "weight_decay": 0.2},
    2: {"momentum": 0.5, "dampening": 0.4},
    3: {"velocity_scaling": 2.0, "momentum": 0.9},
}


def test_sgd_that_is_always_dampened():
    """Separate momentum: v = m v + (1 - d) s (g + decay w); w -= lr / s v."""

    def step(w, g, state, settings, t):
        kept, scale = 1 - settings["dampening"], settings["velocity_scaling"]
        state["v"] = settings["momentum"] * state.get("v", 0 * w) + kept * scale * (g + settings["weight_decay"] * w)
        return w - settings["lr"] / scale * state["v"]

    settings = {"lr": 0.1, "momentum": 0.8, "dampening": 0.3, "velocity_scaling": 0.5, "weight_decay": 0.05,
                "always_dampened": True}  # fmt: skip
    training = start(OptimizerKind.SGD, settings, VARIABLE)
    follow(training, step, CHANGES)
    assert {key.split(":")[0] for key in training.executable.state} == {"momentum_buffer"}  # no count of steps


def test_sgd_without_momentum_is_dampened_too():
    def step(w, g, state, settings, t):
        return w - settings["lr"] * (1 - settings["dampening"]) * (g + settings["weight_decay"] * w)

    settings = {"lr": 0.1, "dampening": 0.3, "weight_decay": 0.05, "always_dampened": True}
    training = start(OptimizerKind.SGD, settings)
    follow(training, step, {1: {"dampening": 0.5}})
    assert not training.executable.state


@pytest.mark.parametrize("nesterov", [True, False])
def test_sgd_that_looks_ahead_uses_new_values_one_step_late(nesterov):
    """Combined: v += (1 - d) s g; w -= lr / s v; v = m v + (1 - d) s decay w. It begins with v of the first weights."""

    def step(w, g, state, settings, t):
        kept, scale, decay = 1 - settings["dampening"], settings["velocity_scaling"], settings["weight_decay"]
        v = state.get("v", kept * scale * decay * w) + kept * scale * g
        u = scale * (g + decay * w) + settings["momentum"] * v if nesterov else v
        w = w - settings["lr"] / scale * u
        state["v"] = settings["momentum"] * v + kept * scale * decay * w
        return w

    settings = {"lr": 0.1, "momentum": 0.8, "dampening": 0.0 if nesterov else 0.3, "velocity_scaling": 0.5,
                "weight_decay": 0.05, "always_dampened": True, "ahead": True, "nesterov": nesterov}  # fmt: skip
    training = start(OptimizerKind.SGD, settings, VARIABLE)
    kept = (1 - settings["dampening"]) * 0.5 * 0.05
    training.executable.load_state(
        {f"momentum_buffer:{name}": kept * value.detach() for name, value in training.net.named_parameters()}
    )
    changes = {at: {k: v for k, v in values.items() if k != "dampening"} for at, values in CHANGES.items()}
    follow(training, step, changes if nesterov else CHANGES)


def test_looking_ahead_changes_nothing_while_values_stay():
    settings = {"lr": 0.1, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.05, "always_dampened": True}
    plain, ahead = start(OptimizerKind.SGD, settings), start(OptimizerKind.SGD, {**settings, "ahead": True})
    ahead.executable.load_state(
        {f"momentum_buffer:{name}": 0.7 * 0.05 * value.detach() for name, value in ahead.net.named_parameters()}
    )
    for batch in make_batches():
        plain.run(batch)
        ahead.run(batch)
    assert_close(ahead.read(), plain.read(), 1e-6)


# Clipping -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "groups",
    [
        [(0.05, ("first.weight", "first.bias")), (0.01, ("second.weight",))],
        [(0.02, None)],
        [(100.0, None)],  # larger than any norm here: nothing changes
    ],
)
def test_gradients_are_clipped_by_the_norm_of_each_group(groups):
    spec_groups = tuple(ClipGroup(norm, names) for norm, names in groups)
    training = start(OptimizerKind.SGD, {"lr": 1.0}, clip_groups=spec_groups)
    eager = copy.deepcopy(training.net)
    parameters = dict(eager.named_parameters())
    for batch in make_batches():
        training.run(batch)
        for parameter in parameters.values():
            parameter.grad = None
        eager(batch).backward()
        for norm, names in groups:
            torch.nn.utils.clip_grad_norm_([parameters[name] for name in names or parameters], norm)
        with torch.no_grad():
            for parameter in parameters.values():
                parameter -= parameter.grad
    expected = {name: value.detach().numpy() for name, value in parameters.items()}
    assert_close(training.read(), expected, 2e-4)  # torch divides by the norm + 1e-6


def test_a_group_that_names_a_parameter_without_gradient_is_refused():
    with pytest.raises(OptionError, match=r"The norm of third\.weight is to be clipped, but it has no gradient"):
        start(OptimizerKind.SGD, {"lr": 1.0}, clip_groups=(ClipGroup(1.0, ("third.weight",)),))


@pytest.mark.parametrize("accumulation", [1, 2])
def test_state_can_be_tapped_as_each_micro_batch_leaves_it(accumulation):
    """An update is seen by the micro-batch that it follows at once; after accumulated ones, by the next."""
    net = Net()
    names = [name for name, _ in net.named_parameters()]
    settings = {"lr": 0.1, "eps": 1e-6}
    spec = OptimizerSpec(OptimizerKind.ADAGRAD, describe_groups(OptimizerKind.ADAGRAD, [names], [settings]))
    program = capture_program(net, (torch.zeros(6, 4),), {}, training=True, optimizer=spec, name="net")
    taps = (Tap("sums", "State___sum:second.bias"),)
    options = RunOptions(training=True, device_iterations=2, gradient_accumulation=accumulation, taps=taps)
    executable = Executable(program, options)
    executable.load_weights(dict(net.named_parameters()), {})
    executable.set_hyper_parameters(compute_hyper_parameters(spec, [settings]))
    sums = executable.run([torch.randn(12 * accumulation, 4)]).taps["sums"].view(-1, 2)
    last = executable.state["sum:second.bias"]
    if accumulation == 1:
        torch.testing.assert_close(sums[1], last)
        assert (sums[0] > 0).all()
        assert (sums[0] < last).all()
    else:
        assert sums[:2].eq(0).all()
        torch.testing.assert_close(sums[2], sums[3])
        assert (sums[3] < last).all()
