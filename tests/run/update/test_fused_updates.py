"""Rules for which PyTorch has one kernel use it, and compute what they say."""

import dataclasses
import math

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, RMSprop

from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters
from openipu.graph import RunOptions
from openipu.run import Executable
from openipu.run.update.contraction import contract_arithmetic
from openipu.run.update.functions import build_rule_functions
from openipu.run.update.fused import find_fused_update, solve_adam
from openipu.run.update.rules import plan_update

aten = torch.ops.aten

LOSS_SCALING = 100.0
FUSED = {
    "Adam": lambda parameters: Adam(parameters, 1e-2),
    "Adam with a penalty": lambda parameters: Adam(parameters, 1e-2, weight_decay=0.1),
    "Adam with other betas": lambda parameters: Adam(parameters, 1e-2, betas=(0.5, 0.9), eps=1e-3),
    "AdamW": lambda parameters: AdamW(parameters, 1e-2, weight_decay=0.1),
    "AdamW without decay": lambda parameters: AdamW(parameters, 1e-2, weight_decay=0.0),
    "AdamW that stands still": lambda parameters: AdamW(parameters, 0.0, weight_decay=0.1),
    "momentum": lambda parameters: SGD(parameters, 0.1, momentum=0.9),
    "momentum with a penalty": lambda parameters: SGD(parameters, 0.1, momentum=0.9, weight_decay=0.1),
    "Nesterov's momentum": lambda parameters: SGD(parameters, 0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
}
OTHERS = {
    "SGD": lambda parameters: SGD(parameters, 0.1),
    "dampened momentum": lambda parameters: SGD(parameters, 0.1, momentum=0.9, dampening=0.5),
    "Adam uphill": lambda parameters: Adam(parameters, 1e-2, maximize=True),
    "RMSprop": lambda parameters: RMSprop(parameters, 1e-2, momentum=0.9),
}


class Net(nn.Module):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8, dtype=dtype), nn.Linear(8, 3, dtype=dtype)

    def forward(self, x, y):
        return nn.functional.mse_loss(self.second(torch.tanh(self.first(x))), y)


def capture(make_optimizer, dtype=torch.float32, max_norm=None, loss_scaling=False):
    torch.manual_seed(0)
    model, batch = Net(dtype), (torch.rand(4, 6, dtype=dtype), torch.rand(4, 3, dtype=dtype))
    optimizer = make_optimizer(model.parameters())
    spec = describe_optimizer(optimizer, {id(value): name for name, value in model.named_parameters()})
    spec = dataclasses.replace(spec, max_grad_norm=max_norm, loss_scaling=loss_scaling)
    program = capture_program(model, batch, {}, training=True, optimizer=spec, name="net")
    values = read_hyper_parameters(optimizer, spec)
    if loss_scaling:
        values["loss_scaling"] = LOSS_SCALING
    return model, batch, optimizer, program, values


def list_functions(program):
    return [build_rule_functions(family.rule) for family in plan_update(program).families]


@pytest.mark.parametrize("name", FUSED)
def test_the_rule_is_recognised_by_its_arithmetic(name):
    assert [functions.one_pass for functions in list_functions(capture(FUSED[name])[3])] == [True]


@pytest.mark.parametrize("name", OTHERS)
def test_other_rules_are_not_mistaken_for_it(name):
    assert not any(functions.one_pass for functions in list_functions(capture(OTHERS[name])[3]))


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("Adam", "_fused_adam_"),
        ("Adam with a penalty", "_fused_adam_"),
        ("AdamW", "_fused_adamw_"),
        ("momentum with a penalty", "_fused_sgd_"),
    ],
)
@pytest.mark.parametrize(
    "settings", [{"max_norm": 0.01}, {"loss_scaling": True}, {"max_norm": 0.01, "loss_scaling": True}]
)
def test_clipped_and_scaled_gradients_go_through_the_kernel_too(name, kernel, settings, monkeypatch):
    calls, original = [], getattr(torch, kernel)
    monkeypatch.setattr(torch, kernel, lambda *args, **kwargs: (calls.append(args), original(*args, **kwargs)))
    model, batch, _, program, values = capture(FUSED[name], **settings)
    executable = Executable(program, RunOptions(training=True))
    executable.load_weights(dict(model.named_parameters()), {})
    executable.set_hyper_parameters(values)
    executable.run(batch)
    assert len(calls) == 1, "the four parameters are small: one call updates them all"


def test_half_precision_is_left_to_the_rule_itself():
    assert not any(functions.one_pass for functions in list_functions(capture(FUSED["Adam"], torch.float16)[3]))


# A quotient by 100 is not exact, and RMSprop makes 2e-5 of the last bits of it: fused rules alone.
@pytest.mark.parametrize("max_norm", [None, 0.01, 1000.0], ids=["free", "clipped", "clipped without effect"])
@pytest.mark.parametrize(
    ("name", "loss_scaling"), [(name, False) for name in (*FUSED, *OTHERS)] + [(name, True) for name in FUSED]
)
def test_weights_are_those_of_eager_pytorch_after_many_steps(name, max_norm, loss_scaling):
    model, batch, optimizer, program, values = capture({**FUSED, **OTHERS}[name], torch.float32, max_norm, loss_scaling)
    executable = Executable(program, RunOptions(training=True))
    executable.load_weights(dict(model.named_parameters()), {})
    executable.set_hyper_parameters(values)
    for _ in range(20):
        executable.run(batch)
        optimizer.zero_grad()
        model(*batch).backward()
        if max_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
    found = {key: torch.empty_like(value) for key, value in model.named_parameters()}
    executable.read_weights(found, {})
    for key, value in model.named_parameters():
        torch.testing.assert_close(found[key], value.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("step", [1, 2, 17, 1000, 10**6])
@pytest.mark.parametrize(("beta1", "beta2"), [(0.9, 0.999), (0.5, 0.9)])
def test_the_kernel_is_given_settings_that_lead_to_the_numbers_of_the_rule(step, beta1, beta2):
    root, step_size = math.sqrt(1 - beta2**step), 1e-3 / (1 - beta1**step)
    settings = solve_adam(1 - beta1, beta2, 1 - beta2, root, step_size)
    assert settings is not None
    assert math.sqrt(1 - settings.beta2**settings.step) == pytest.approx(root, rel=1e-7)
    assert settings.learning_rate / (1 - settings.beta1**settings.step) == pytest.approx(step_size, rel=1e-12)


def test_without_bias_correction_the_step_is_endless():
    settings = solve_adam(0.1, 0.999, 0.001, 1.0, 1e-3)
    assert settings is not None
    assert settings.step == math.inf
    assert settings.learning_rate == 1e-3


@pytest.mark.parametrize(
    "numbers",
    [(0.1, 0.99, 0.001, 0.5, 1e-3), (1.0, 0.999, 0.001, 0.5, 1e-3), (0.1, 0.999, 0.001, 1.5, 1e-3)],
    ids=["weights that do not add up to one", "no memory", "a root above one"],
)
def test_numbers_that_the_kernel_cannot_use_are_left_to_the_rule(numbers):
    assert solve_adam(*numbers) is None


def build_rule(make, states):
    """A rule written in plain arithmetic, contracted as an update's is: the kernel that was found for it."""
    graph = torch.fx.Graph()
    roles = ["parameter", *states, "gradient"]
    targets = {role: graph.placeholder(role) for role in roles}
    numbers = [graph.placeholder(name) for name in ("rate", "first", "second", "epsilon")]
    for node in (*targets.values(), *numbers):
        node.meta["val"] = torch.empty(())
    results = dict(zip(roles, make(graph, *targets.values(), *numbers), strict=False))
    graph.output(tuple(results.values()))
    for node in graph.nodes:
        node.meta.setdefault("val", torch.empty(()))
    contract_arithmetic(graph, set(numbers))
    new = dict(zip(results, next(iter(graph.find_nodes(op="output"))).args[0], strict=True))
    return find_fused_update(graph, targets, new)


def write_keras_adam(graph, parameter, mean, square, gradient, rate, first, second, epsilon):
    """m + (g - m) * rest, v + (g ** 2 - v) * rest, p - m * rate / (sqrt(v) + epsilon)."""
    call = graph.call_function
    new_mean = call(aten.add.Tensor, (mean, call(aten.mul.Tensor, (call(aten.sub.Tensor, (gradient, mean)), first))))
    squared = call(aten.pow.Tensor_Scalar, (gradient, 2))
    new_square = call(
        aten.add.Tensor, (square, call(aten.mul.Tensor, (call(aten.sub.Tensor, (squared, square)), second)))
    )
    below = call(aten.add.Tensor, (call(aten.sqrt.default, (new_square,)), epsilon))
    step = call(aten.div.Tensor, (call(aten.mul.Tensor, (new_mean, rate)), below))
    return call(aten.sub.Tensor, (parameter, step)), new_mean, new_square


def write_keras_momentum(graph, parameter, velocity, gradient, rate, first, second, epsilon):
    """v * momentum - g * rate, p + v."""
    call = graph.call_function
    new = call(aten.sub.Tensor, (call(aten.mul.Tensor, (velocity, first)), call(aten.mul.Tensor, (gradient, rate))))
    return call(aten.add.Tensor, (parameter, new)), new


def test_adam_as_keras_writes_it_is_one_kernel():
    found = build_rule(write_keras_adam, ["mean", "square"])
    torch.manual_seed(0)
    values = [torch.rand(1000) for _ in range(4)]
    numbers = [0.01, 0.1, 0.001, 1e-7]
    parameter, mean, square, gradient = (value.double() for value in values)
    mean, square = mean + (gradient - mean) * 0.1, square + (gradient**2 - square) * 0.001
    parameter = parameter - mean * 0.01 / (square.sqrt() + 1e-7)
    found.make(lambda *rest: pytest.fail("the rule itself was run"))(*values, *numbers)
    for one, other in zip(values, (parameter, mean, square), strict=False):
        torch.testing.assert_close(one.double(), other, rtol=1e-6, atol=1e-7)


def test_momentum_as_keras_writes_it_is_one_kernel():
    found = build_rule(write_keras_momentum, ["velocity"])
    torch.manual_seed(0)
    values = [torch.rand(1000) for _ in range(3)]
    parameter, velocity, gradient = (value.double() for value in values)
    velocity = velocity * 0.9 - gradient * 0.001
    found.make(lambda *rest: pytest.fail("the rule itself was run"))(*values, 0.001, 0.9, 0.0, 0.0)
    torch.testing.assert_close(values[1].double(), velocity, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(values[0].double(), parameter + velocity, rtol=1e-6, atol=1e-7)
