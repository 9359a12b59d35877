"""A forward that no static graph can hold is refused with the rule, the user's line and what to write instead."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch._subclasses.fake_tensor import DynamicOutputShapeException

from openipu.capture import DynamicShapeError, is_capturing, mark_loss
from openipu.errors import CaptureError, LossError, OptionError
from openipu.graph import OutputKind

STRAY = torch.tensor([1, 2])


def read_item(x):
    return x * x.sum().item()  # here


def branch_on_tensor(x):
    if x.sum() > 0:  # here
        return x
    return -x


def make_int(x):
    return x * int(x[0, 0])  # here


def make_float(x):
    return x * float(x[0, 0])  # here


def make_list(x):
    return x.tolist()  # here


def make_numpy(x):
    return x.numpy()  # here


def pass_to_numpy(x):
    return np.asarray(x)  # here


def compare_values(x):
    return x if torch.equal(x, x) else -x  # here


def count_with_tensor(x):
    return [x for _ in range(x[0, 0].long())]  # here


def format_value(x):
    return f"{x.sum():.3f}"  # here


def read_inside_torch(x):
    return torch.arange(x.sum())  # here


@pytest.mark.parametrize(
    "forward",
    [
        read_item,
        branch_on_tensor,
        make_int,
        make_float,
        make_list,
        make_numpy,
        pass_to_numpy,
        compare_values,
        count_with_tensor,
        format_value,
        read_inside_torch,
    ],
    ids=lambda function: function.__name__,
)
def test_reading_a_value_is_refused_at_its_line(forward, capture_inference):
    with pytest.raises(CaptureError) as caught:
        capture_inference(forward, torch.ones(2, 3))
    assert type(caught.value) is CaptureError
    assert "A static graph cannot read values (aten::item)" in str(caught.value)
    assert "torch.where()" in str(caught.value)
    assert_points_to(caught.value, forward)


def move_with_method(x):
    return x.cpu() + 1  # here


def move_with_to(x):
    return x.to("cpu") + 1  # here


def move_with_keyword(x):
    return x.to(device=torch.device("cpu"), dtype=torch.float16)  # here


def copy_to_host(x):
    return torch.zeros(2, 3, device="cpu").copy_(x)  # here


@pytest.mark.parametrize(
    "forward", [move_with_method, move_with_to, move_with_keyword, copy_to_host], ids=lambda function: function.__name__
)
def test_a_move_to_the_host_is_refused_at_its_line(forward, capture_inference):
    with pytest.raises(CaptureError, match=r"Illegal move to CPU \(via .*\) when using the dispatcher") as caught:
        capture_inference(forward, torch.ones(2, 3))
    assert "Instead, return this output as an IPU tensor." in str(caught.value)
    assert_points_to(caught.value, forward)


def index_by_mask(x):
    return x[x > 0]  # here


def find_nonzero(x):
    return torch.nonzero(x)  # here


def select_by_mask(x):
    return torch.masked_select(x, x > 0)  # here


def find_unique(x):
    return torch.unique(x)  # here


@pytest.mark.parametrize(
    "forward", [index_by_mask, find_nonzero, select_by_mask, find_unique], ids=lambda function: function.__name__
)
def test_a_shape_that_depends_on_data_is_refused_at_its_line(forward, capture_inference):
    with pytest.raises(DynamicShapeError, match="shape depends on data") as caught:
        capture_inference(forward, torch.ones(2, 3))
    assert isinstance(caught.value, DynamicOutputShapeException)
    assert isinstance(caught.value, CaptureError)
    assert_points_to(caught.value, forward)


def use_stray_tensor(x):
    return x[0, :2] + STRAY  # here


def add_into_host_scalar(x):
    total = torch.zeros((), device="cpu")
    total += x.sum()  # here
    return total


def test_a_host_tensor_among_ipu_tensors_is_refused_with_its_description(capture_inference):
    with pytest.raises(CaptureError) as caught:
        capture_inference(use_stray_tensor, torch.ones(2, 3))
    message = str(caught.value)
    assert "Expected an IPU tensor but got tensor(device=cpu, shape=[2], dtype=Long).\n" in message
    assert 'If its value is a constant, say so by tensor.to("ipu").' in message
    assert_points_to(caught.value, use_stray_tensor)


def test_a_host_scalar_cannot_be_written_with_ipu_values(capture_inference):
    with pytest.raises(CaptureError, match="Expected an IPU tensor") as caught:
        capture_inference(add_into_host_scalar, torch.ones(2, 3))
    assert_points_to(caught.value, add_into_host_scalar)


def draw_with_generator(x):
    return x + torch.randn(3, generator=torch.Generator())  # here


def test_a_generator_is_refused(capture_inference):
    with pytest.raises(CaptureError, match="Generator objects cannot be used") as caught:
        capture_inference(draw_with_generator, torch.ones(3))
    assert_points_to(caught.value, draw_with_generator)


class Rebinder(nn.Module):
    def __init__(self, action) -> None:
        super().__init__()
        self.register_buffer("y", torch.zeros(3))
        self.inner = nn.Linear(3, 3)
        self.action = action

    def forward(self, x):
        self.action(self, x)
        return self.inner(x)


def reassign_buffer(module, x):
    module.y = x  # here


def remove_buffer(module, x):
    del module.y  # here


def reassign_parameter(module, x):
    module.inner.bias = nn.Parameter(torch.zeros(3))  # here


@pytest.mark.parametrize(
    ("action", "phrase"),
    [
        (reassign_buffer, "Buffer y is reassigned within the model when calling the forward method"),
        (remove_buffer, "Buffer y is removed from the model when calling the forward method"),
        (reassign_parameter, "Parameter inner.bias is reassigned within the model when calling the forward method"),
    ],
)
def test_rebinding_a_registered_tensor_is_refused_and_undone(action, phrase, capture_inference):
    model = Rebinder(action)
    before = dict(model.named_buffers()) | dict(model.named_parameters())
    with pytest.raises(CaptureError, match=re.escape(phrase)) as caught:
        capture_inference(model, torch.ones(3))
    assert_points_to(caught.value, action)
    after = dict(model.named_buffers()) | dict(model.named_parameters())
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)


def test_the_advice_for_a_reassigned_buffer_is_to_copy(capture_inference):
    with pytest.raises(CaptureError, match=re.escape("Consider using self.y.copy_(src)")):
        capture_inference(Rebinder(reassign_buffer), torch.ones(3))


class Failing(nn.Module):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("count", torch.zeros(()))
        self.error = error

    def forward(self, x):
        assert is_capturing()
        self.count += 1
        self.trace_tensor = self.linear(x)
        raise self.error


@pytest.mark.parametrize("error", [ZeroDivisionError("user's own"), KeyboardInterrupt(), SystemExit(3)])
def test_errors_of_the_user_pass_unchanged_and_leave_the_model_as_it_was(error, capture_inference):
    model = Failing(error)
    before = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    hooks = len(nn.modules.module._global_forward_hooks), len(nn.modules.module._global_forward_pre_hooks)
    with pytest.raises(type(error)) as caught:
        capture_inference(model, torch.ones(3))
    assert caught.value is error
    after = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    assert all(after[name] is before[name] for name in before)
    assert type(model._parameters) is dict
    assert not hasattr(model, "trace_tensor")
    assert not is_capturing()
    assert not torch.compiler.is_compiling()
    assert not hasattr(torch, "ipu")
    assert hooks == (len(nn.modules.module._global_forward_hooks), len(nn.modules.module._global_forward_pre_hooks))
    assert torch.ones(1).device.type == "cpu"
    assert torch.equal(model.linear(torch.zeros(1, 3))[0], model.linear.bias)


def test_a_shape_error_of_torch_passes_unchanged(capture_inference):
    with pytest.raises(RuntimeError, match="invalid for input of size 6"):
        capture_inference(lambda x: x.view(4, 4), torch.ones(2, 3))


class WithLosses(nn.Module):
    def __init__(self, forward) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.call = forward

    def forward(self, x):
        return self.call(self.linear(x), x)


def test_training_without_a_loss_is_refused(capture_training):
    with pytest.raises(LossError, match="Couldn't find a loss in graph!") as caught:
        capture_training(WithLosses(lambda y, x: y.sum()), torch.ones(2, 3))
    assert "mark_loss" in str(caught.value)


def test_two_independent_losses_are_refused(capture_training):
    def forward(y, x):
        return F.mse_loss(y, x) + F.l1_loss(y, x)  # here

    with pytest.raises(LossError, match="Multiple independent losses found in graph") as caught:
        capture_training(WithLosses(forward), torch.ones(2, 3))
    assert "Wrap final graph loss in mark_loss." in str(caught.value)
    assert_points_to(caught.value, forward)


def test_a_loss_that_feeds_another_is_absorbed(capture_training):
    def forward(y, x):
        return mark_loss(F.mse_loss(y, x) + F.l1_loss(y, x), "none")

    assert capture_training(WithLosses(forward), torch.ones(2, 3)).training


def test_the_loss_need_not_be_returned(capture_training):
    def forward(y, x):
        nn.L1Loss()(y, x)
        return y

    assert capture_training(WithLosses(forward), torch.ones(2, 3)).training


def test_a_loss_without_trainable_parameters_trains_nothing_and_says_so(capture_training):
    program = capture_training(WithLosses(lambda y, x: F.mse_loss(y.detach(), x)), torch.ones(2, 3))
    assert program.training
    assert not program.micro.outputs_of(OutputKind.GRADIENT)
    assert "no trainable parameter" in program.warnings[0]


def test_an_unknown_reduction_is_refused(capture_training):
    with pytest.raises(OptionError, match="'median'"):
        capture_training(WithLosses(lambda y, x: mark_loss(y, "median")), torch.ones(2, 3))


def test_capturing_inside_a_capture_is_refused(capture_inference):
    with pytest.raises(CaptureError, match="inside the forward of another"):
        capture_inference(lambda x: capture_inference(lambda y: y, x), torch.ones(1))


def test_a_lazy_parameter_is_refused_by_name(capture_inference):
    with pytest.raises(CaptureError, match="Parameter weight has no shape yet"):
        capture_inference(nn.LazyLinear(3), torch.ones(1, 2))


def test_training_needs_a_module_and_an_optimizer(capture_training):
    from openipu.capture import capture_program

    with pytest.raises(OptionError, match="needs an optimizer"):
        capture_program(nn.Linear(1, 1), (torch.ones(1),), {}, training=True, optimizer=None, name="m")
    with pytest.raises(CaptureError, match=r"Only a torch\.nn\.Module"):
        capture_program(lambda x: x, (torch.ones(1),), {}, training=True, optimizer=None, name="m")


def test_returning_a_host_tensor_warns_and_returns_it(capture_inference):
    host = torch.tensor([7.0])
    with pytest.warns(UserWarning, match="Output expected to be on the IPU but is on cpu"):
        program = capture_inference(lambda x: (x, host), torch.ones(1))
    assert torch.equal(program.output_tree.host_leaves[1], host)
    assert any("output 1" in warning for warning in program.warnings)


def assert_points_to(error: BaseException, function) -> None:
    """The message names file, line and source text of the line marked "here"."""
    lines, first = inspect.getsourcelines(function)
    offset = next(index for index, line in enumerate(lines) if "# here" in line)
    assert f"{__file__}:{first + offset} in {function.__name__}" in str(error), str(error)
    assert lines[offset].strip() in str(error)
