"""Update graphs do what torch.optim does, and take every changing value as an input."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from openipu.capture import capture_program, describe_optimizer, list_hyper_parameters, read_hyper_parameters
from openipu.errors import LossError, OptionError
from openipu.graph import InputKind, OptimizerGroup, OptimizerKind, OptimizerSpec, OutputKind, Phase, note_of


class Regression(nn.Module):
    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6, dtype=dtype)
        self.second = nn.Linear(6, 2, dtype=dtype)

    def forward(self, x, y):
        return F.mse_loss(self.second(torch.tanh(self.first(x))), y)


def name_parameters(model):
    return {id(parameter): name for name, parameter in model.named_parameters()}


def capture(model, spec, x, y):
    return capture_program(model, (x, y), {}, training=True, optimizer=spec, name="model")


class Stepper:
    """Runs the update graph with state of its own."""

    def __init__(self, program, model) -> None:
        self.graph = program.update
        self.weights = {name: value.detach().clone() for name, value in model.named_parameters()}
        self.state = {slot.key: torch.full(slot.shape, slot.initial, dtype=slot.dtype) for slot in program.state_slots}

    def step(self, gradients, hyper) -> None:
        sources = {
            InputKind.PARAMETER: self.weights,
            InputKind.GRADIENT: gradients,
            InputKind.STATE: self.state,
            InputKind.HYPER: {key: torch.tensor(value, dtype=torch.float32) for key, value in hyper.items()},
        }
        bound = [sources[entry.kind][entry.name] for entry in self.graph.inputs]
        with torch.no_grad():
            returned = self.graph.module(*bound)
        for entry, value in zip(self.graph.outputs, returned, strict=True):
            assert value.dtype == entry.dtype
            assert tuple(value.shape) == entry.shape
            (self.weights if entry.kind is OutputKind.PARAMETER else self.state)[entry.name] = value


CASES = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "sgd with decay": (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.01}),
    "sgd with momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "sgd with dampening": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    "sgd nesterov": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.8, "nesterov": True}),
    "sgd maximize": (torch.optim.SGD, {"lr": 0.01, "momentum": 0.8, "maximize": True}),
    "adam": (torch.optim.Adam, {"lr": 0.01}),
    "adam with decay": (torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-6}),
    "adam maximize": (torch.optim.Adam, {"lr": 0.01, "maximize": True, "betas": (0.8, 0.99)}),
    "adam without first moment": (torch.optim.Adam, {"lr": 0.01, "betas": (0.0, 0.999)}),
    "adam decoupled": (torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.2}),
    "adamw without decay": (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.0}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.01, "weight_decay": 0.1}),
    "rmsprop with momentum": (torch.optim.RMSprop, {"lr": 0.001, "momentum": 0.9}),
    "rmsprop centered": (torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.5, "centered": True, "maximize": True}),
}
TORCH_STATE = {"momentum_buffer", "exp_avg", "exp_avg_sq", "step", "square_avg", "grad_avg"}


@pytest.mark.parametrize("case", CASES)
def test_twenty_steps_equal_torch_with_a_changing_learning_rate(case):
    kind, settings = CASES[case]
    torch.manual_seed(0)
    model = Regression()
    x, y = torch.randn(5, 4), torch.randn(5, 2)
    optimizer = kind(model.parameters(), foreach=False, **settings)
    spec = describe_optimizer(optimizer, name_parameters(model))
    stepper = Stepper(capture(model, spec, x, y), model)
    for step in range(20):
        optimizer.param_groups[0]["lr"] = settings["lr"] * (1 + step % 3)
        optimizer.zero_grad()
        model(x, y).backward()
        stepper.step(
            {name: value.grad for name, value in model.named_parameters()}, read_hyper_parameters(optimizer, spec)
        )
        optimizer.step()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(stepper.weights[name], parameter.detach(), rtol=1e-6, atol=1e-6)
        for slot in TORCH_STATE & optimizer.state[parameter].keys():
            counted = slot != "step" or kind is not torch.optim.RMSprop  # which counts steps and never reads them
            if counted and optimizer.state[parameter][slot] is not None:
                found = stepper.state[f"{slot}:{name}"]
                torch.testing.assert_close(found, optimizer.state[parameter][slot], rtol=2e-6, atol=1e-7)


def test_groups_have_their_own_values_and_the_rest_uses_the_defaults():
    torch.manual_seed(0)
    model = Regression()
    x, y = torch.randn(5, 4), torch.randn(5, 2)
    optimizer = torch.optim.SGD([{"params": [model.first.weight], "lr": 1.0, "momentum": 0.5}], lr=0.25)
    rest = ["first.bias", "second.weight", "second.bias"]
    spec = describe_optimizer(optimizer, name_parameters(model), rest)
    assert [group.parameters for group in spec.groups] == [("first.weight",), tuple(rest)]
    assert [group.flags for group in spec.groups] == [frozenset({"momentum"}), frozenset()]
    assert read_hyper_parameters(optimizer, spec) == {"lr.0": 1.0, "momentum.0": 0.5, "lr.1": 0.25}
    program = capture(model, spec, x, y)
    assert [slot.key for slot in program.state_slots] == ["momentum_buffer:first.weight"]
    stepper = Stepper(program, model)
    ones = {name: torch.ones_like(value) for name, value in model.named_parameters()}
    before = dict(stepper.weights)
    stepper.step(ones, read_hyper_parameters(optimizer, spec))
    torch.testing.assert_close(stepper.weights["first.weight"], before["first.weight"] - 1.0)
    torch.testing.assert_close(stepper.weights["second.bias"], before["second.bias"] - 0.25)


def test_gradients_are_clipped_by_their_common_norm():
    import dataclasses

    torch.manual_seed(0)
    model = Regression()
    x, y = torch.randn(5, 4), 100 * torch.randn(5, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    spec = dataclasses.replace(describe_optimizer(optimizer, name_parameters(model)), max_grad_norm=0.5)
    stepper = Stepper(capture(model, spec, x, y), model)
    for _ in range(3):
        optimizer.zero_grad()
        model(x, y).backward()
        gradients = {name: value.grad.clone() for name, value in model.named_parameters()}
        stepper.step(gradients, read_hyper_parameters(optimizer, spec))
        assert torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5) > 0.5
        optimizer.step()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(stepper.weights[name], parameter.detach(), rtol=1e-6, atol=1e-6)


def test_half_parameters_keep_float32_state_unless_told_otherwise():
    import dataclasses

    model = Regression(torch.float16)
    x, y = torch.randn(5, 4).half(), torch.randn(5, 2).half()
    optimizer = torch.optim.Adam(model.parameters())
    spec = describe_optimizer(optimizer, name_parameters(model))
    dtypes = {slot.name: slot.dtype for slot in capture(model, spec, x, y).state_slots}
    assert dtypes == {"exp_avg": torch.float32, "exp_avg_sq": torch.float32, "step": torch.float32}
    narrow = dataclasses.replace(spec, state_dtypes={"exp_avg": torch.float16})
    program = capture(model, narrow, x, y)
    assert {slot.dtype for slot in program.state_slots if slot.name == "exp_avg"} == {torch.float16}
    stepper = Stepper(program, model)
    stepper.step(
        {name: torch.ones_like(value) for name, value in model.named_parameters()},
        read_hyper_parameters(optimizer, spec),
    )
    assert all(value.dtype is torch.float16 for value in stepper.weights.values())


def test_update_nodes_belong_to_the_module_of_their_parameter():
    model = Regression()
    spec = describe_optimizer(torch.optim.AdamW(model.parameters()), name_parameters(model))
    program = capture(model, spec, torch.randn(5, 4), torch.randn(5, 2))
    notes = [note_of(node) for node in program.update.module.graph.nodes if node.op == "call_function"]
    assert {note.phase for note in notes} == {Phase.UPDATE}
    assert {"first", "second"} <= {note.module for note in notes}
    assert program.hyper_parameters == list_hyper_parameters(spec)
    assert spec.kind is OptimizerKind.ADAMW


def test_parameters_without_a_gradient_are_not_updated():
    model = Regression()
    model.first.requires_grad_(False)
    spec = describe_optimizer(torch.optim.SGD(model.parameters()), name_parameters(model))
    program = capture(model, spec, torch.randn(5, 4), torch.randn(5, 2))
    assert [entry.name for entry in program.update.inputs_of(InputKind.PARAMETER)] == ["second.weight", "second.bias"]


def test_other_optimizers_are_refused_with_what_is_supported():
    model = Regression()
    with pytest.raises(OptionError, match=r"Adagrad .* Supported are torch.optim.SGD, torch.optim.Adam, torch"):
        describe_optimizer(torch.optim.Adagrad(model.parameters()), name_parameters(model))
    with pytest.raises(OptionError, match="amsgrad=True"):
        describe_optimizer(torch.optim.Adam(model.parameters(), amsgrad=True), name_parameters(model))


def test_a_change_of_structure_after_compilation_is_refused():
    model = Regression()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    spec = describe_optimizer(optimizer, name_parameters(model))
    optimizer.param_groups[0]["momentum"] = 0.9
    with pytest.raises(OptionError, match=re.escape("Group 0 of the optimizer was compiled with no flags")):
        read_hyper_parameters(optimizer, spec)
    with pytest.raises(OptionError, match="compiled for sgd and the optimizer is Adam"):
        read_hyper_parameters(torch.optim.Adam(model.parameters()), spec)
    two = torch.optim.SGD([{"params": [value]} for value in model.parameters()], lr=0.1)
    with pytest.raises(OptionError, match="compiled for 1 parameter groups and the optimizer has 4"):
        read_hyper_parameters(two, spec)


def test_a_spec_of_another_model_is_refused():
    model, other = Regression(), nn.Linear(2, 2)
    spec = describe_optimizer(torch.optim.SGD(other.parameters(), lr=0.1), name_parameters(other))
    with pytest.raises(OptionError, match="weight, bias, which the model does not have"):
        capture(model, spec, torch.randn(5, 4), torch.randn(5, 2))


def test_an_optimizer_whose_parameters_get_no_gradient_is_refused():
    model = Regression()
    model.spare = nn.Linear(1, 1)
    spec = describe_optimizer(torch.optim.SGD(model.spare.parameters(), lr=0.1), name_parameters(model))
    with pytest.raises(LossError, match="No parameter that the optimizer holds gets a gradient"):
        capture(model, spec, torch.randn(5, 4), torch.randn(5, 2))


def test_a_parameter_in_two_groups_is_refused_by_name():
    model = Regression()
    group = OptimizerGroup(("first.weight",))
    with pytest.raises(OptionError, match=r"Parameter first\.weight is in two groups"):
        capture(model, OptimizerSpec(OptimizerKind.SGD, (group, group)), torch.randn(5, 4), torch.randn(5, 2))
