"""Optimizers of poptorch: torch's own, with more arguments."""

import copy
import math
import pickle

import pytest
import torch

import poptorch
from poptorch._optimizer.values import read_values

OPTIMIZERS = [poptorch.optim.SGD, poptorch.optim.Adam, poptorch.optim.AdamW, poptorch.optim.RMSprop]


def make_parameters():
    return [torch.nn.Parameter(torch.ones(2))]


@pytest.mark.parametrize("cls", OPTIMIZERS)
def test_the_torch_parent_is_the_second_base(cls):
    assert cls.__bases__ == (poptorch.optim.Optimizer, getattr(torch.optim, cls.__name__))


def test_sgd_needs_a_learning_rate():
    with pytest.raises(TypeError, match="lr"):
        poptorch.optim.SGD(make_parameters())


@pytest.mark.parametrize("cls", OPTIMIZERS)
def test_arguments_that_are_not_given_are_those_of_torch(cls):
    ours, theirs = cls(make_parameters(), lr=0.5), cls.__bases__[1](make_parameters(), lr=0.5)
    assert ours.defaults == theirs.defaults
    assert ours.loss_scaling == 1.0
    assert getattr(ours, "max_grad_norm", math.inf) == math.inf
    assert ours.accum_type is torch.float32


@pytest.mark.parametrize("cls", OPTIMIZERS)
def test_a_step_on_the_host_is_torchs_step(cls):
    steps = []
    for kind in (cls, cls.__bases__[1]):
        parameters = make_parameters()
        optimizer = kind(parameters, lr=0.1, weight_decay=0.01)
        for _ in range(3):
            (parameters[0] ** 2).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        steps.append(parameters[0].detach())
    assert torch.equal(*steps)


def test_accumulation_types_are_float_or_half():
    with pytest.raises(AssertionError, match=r"Accumulation types must be either torch.float32 or torch.float16"):
        poptorch.optim.Adam(make_parameters(), accum_type=torch.float64)


@pytest.mark.parametrize("cls", [poptorch.optim.Adam, poptorch.optim.AdamW])
def test_amsgrad_is_refused(cls):
    with pytest.raises(ValueError, match=r"Only non-amsgrad Adam/AdamW optimizers are supported\."):
        cls(make_parameters(), amsgrad=True)
    with pytest.raises(ValueError, match=r"Only non-amsgrad Adam/AdamW optimizers are supported\."):
        read_values(cls.__bases__[1](make_parameters(), amsgrad=True))


def test_other_optimizers_are_refused():
    with pytest.raises(AssertionError, match=r"Unsupported optimizer type\. Types supported"):
        poptorch.trainingModel(torch.nn.Linear(1, 1), optimizer=torch.optim.Adagrad(make_parameters()))


def test_arguments_that_were_passed_are_variable():
    attributes = poptorch.optim.SGD(make_parameters(), lr=0.1, momentum=0.9, loss_scaling=2.0).variable_attrs
    assert not attributes.isConstant("lr")
    assert not attributes.isConstant("momentum")
    assert not attributes.isConstant("loss_scaling")
    assert attributes.isConstant("weight_decay")
    attributes.markAsConstant("momentum")
    attributes.markAsVariable("weight_decay")
    assert attributes.isConstant("momentum")
    assert not attributes.isConstant("weight_decay")
    with pytest.raises(AssertionError, match="Unknown attribute beta"):
        attributes.markAsConstant("beta")


def test_extra_arguments_reach_the_spec():
    optimizer = poptorch.optim.Adam(
        make_parameters(), lr=0.1, max_grad_norm=2.5, first_order_momentum_accum_type=torch.float16
    )
    spec = read_values(optimizer).describe([("weight",)], accumulates=False)
    assert spec.max_grad_norm == 2.5
    assert spec.state_dtypes == {"exp_avg": torch.float16}
    assert spec.accumulator_dtype is None
    assert read_values(optimizer).describe([("weight",)], accumulates=True).accumulator_dtype is torch.float32


@pytest.mark.parametrize("clone", [copy.copy, lambda optimizer: pickle.loads(pickle.dumps(optimizer))])
def test_copies_keep_the_extra_arguments(clone):
    optimizer = clone(poptorch.optim.SGD(make_parameters(), lr=0.1, loss_scaling=8.0, max_grad_norm=1.0))
    assert (optimizer.loss_scaling, optimizer.max_grad_norm) == (8.0, 1.0)
    assert not optimizer.variable_attrs.isConstant("loss_scaling")


def test_velocity_scaling_without_combined_accumulator_is_told(caplog):
    poptorch.optim.SGD(make_parameters(), lr=0.1, velocity_scaling=2.0)
    assert "velocity_scaling value ignored" in caplog.text


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, x):
        return poptorch.identity_loss((x - self.weight) ** 2, "sum")


def make_training(make_optimizer):
    model = Line()
    optimizer = make_optimizer(model.parameters())
    options = poptorch.Options().showCompilationProgressBar(False)
    return model, optimizer, poptorch.trainingModel(model, options, optimizer)


def test_the_state_of_the_device_is_in_the_state_dict_after_compilation():
    _, optimizer, training = make_training(lambda p: poptorch.optim.Adam(p, lr=0.1))
    assert optimizer.state_dict()["ipu_state"] is None
    assert optimizer.state_dict()["ipu_param"] is None
    training(torch.zeros(2))
    found = optimizer.state_dict()
    # the gradient of (0 - w)^2 at w = 1 is 2: the first moment is 0.1 x 2, the second 0.001 x 4
    assert torch.allclose(found["ipu_state"]["Accl1___weight"], torch.full((2,), 0.2))
    assert torch.allclose(found["ipu_state"]["Accl2___weight"], torch.full((2,), 0.004))
    assert found["ipu_state"]["Step___weight"] == 1
    assert found["ipu_param"]["learningRate___specific___weight"] == 0.1
    assert "param_groups" in found


def test_wrong_checkpoints_are_refused():
    optimizer = poptorch.optim.Adam(make_parameters())
    with pytest.raises(RuntimeError, match="Cannot load optimizer state dictionary because it is empty"):
        optimizer.load_state_dict({})
    with pytest.raises(RuntimeError, match="Only IPU optimizer states can be loaded onto the IPU"):
        optimizer.load_state_dict(torch.optim.Adam(make_parameters()).state_dict())


@pytest.mark.parametrize("make", [lambda p: poptorch.optim.Adam(p, lr=0.1), lambda p: torch.optim.Adam(p, lr=0.1)])
def test_state_survives_destroy(make):
    whole, _, undisturbed = make_training(make)
    parted, _, training = make_training(make)
    for step in range(4):
        undisturbed(torch.tensor([0.0, 3.0]))
        training(torch.tensor([0.0, 3.0]))
        if step == 1:
            training.destroy()
    assert torch.equal(whole.weight, parted.weight)


def test_a_checkpoint_continues_in_another_executor():
    first, optimizer, training = make_training(lambda p: poptorch.optim.SGD(p, lr=0.1, momentum=0.9))
    training(torch.zeros(2))
    checkpoint = copy.deepcopy((first.state_dict(), optimizer.state_dict()))
    second, other, continued = make_training(lambda p: poptorch.optim.SGD(p, lr=0.7, momentum=0.9))
    second.load_state_dict(checkpoint[0])
    other.load_state_dict(checkpoint[1])
    for _ in range(2):
        training(torch.zeros(2))
        continued(torch.zeros(2))
    assert torch.equal(first.weight, second.weight)


def test_detaching_keeps_the_state():
    whole, _, undisturbed = make_training(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    parted, _, training = make_training(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    for _ in range(3):
        undisturbed(torch.zeros(2))
        training(torch.zeros(2))
        training.detachFromDevice()
    assert torch.equal(whole.weight, parted.weight)
