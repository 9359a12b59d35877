"""Floating-point exceptions name the operator and the user's line; updates name the parameter."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters
from openipu.errors import ArithmeticFaultError
from openipu.graph import RunOptions
from openipu.numerics import Overflow
from openipu.run import Executable
from openipu.run.rewrites.semantics.float_exceptions import UpdateWatch

WATCHED = RunOptions(floating_point_exceptions=True)


def run(function, *inputs, options=WATCHED):
    program = capture_program(function, inputs, {}, training=False, optimizer=None, name="model")
    return Executable(program, options).run(list(inputs)).outputs


def overflow(x):
    return (x * 10).exp()  # line of overflow


def divide(x):
    return 1 / (x - x)  # line of divide


def invalid(x):
    return (x - 100).sqrt()  # line of invalid


def subtract_infinities(x):
    big = x / 0.0 if x.dim() == 0 else x
    return big - big  # line of subtract


def find_line(comment):
    """The number of the line with a comment, in this file."""
    with open(__file__) as file:
        return next(number for number, text in enumerate(file, 1) if f"# {comment}" in text)


@pytest.mark.parametrize(
    ("function", "problem", "comment"),
    [
        (overflow, "exp overflows", "line of overflow"),
        (divide, "overflows or divides by zero", "line of divide"),
        (invalid, r"sqrt is invalid", "line of invalid"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_operator_and_its_line_are_named(function, problem, comment, dtype):
    x = torch.full((3,), 50.0, dtype=dtype)
    line = find_line(comment)
    with pytest.raises(ArithmeticFaultError, match=rf"{problem}.*test_arithmetic\.py:{line} "):
        run(function, x)
    assert len(run(function, x, options=RunOptions())) == 1


def test_infinities_that_arrive_pass_but_not_their_difference():
    x = torch.tensor([torch.inf, 1.0])
    assert run(lambda x: x + 1, x)[0].tolist() == [torch.inf, 2.0]
    with pytest.raises(ArithmeticFaultError, match="sub is invalid"):
        run(subtract_infinities, x)


def test_comparing_a_nan_stops():
    with pytest.raises(ArithmeticFaultError, match="gt compares a NaN"):
        run(lambda x: x > 0, torch.tensor([torch.nan]))


@pytest.mark.parametrize("kind", Overflow)
def test_a_half_product_above_the_largest_half_number_stops_and_is_named(kind):
    x = torch.full((2, 16), 100.0, dtype=torch.half)  # 160,000 is too large, in half only
    options = dataclasses.replace(WATCHED, half_overflow=kind)
    with pytest.raises(ArithmeticFaultError, match=r"mm overflows.*test_arithmetic\.py"):
        run(lambda x: x @ x.t(), x, options=options)
    assert run(lambda x: x @ x.t(), x.float(), options=options)[0].isfinite().all()


def test_half_arithmetic_that_overflows_stops():
    x = torch.full((2,), 60000.0, dtype=torch.half)
    with pytest.raises(ArithmeticFaultError, match="add overflows"):
        run(lambda x: x + x, x)
    with pytest.raises(ArithmeticFaultError, match="_to_copy overflows"):
        run(lambda x: x.half(), torch.full((2,), 1e6))


class Root(torch.nn.Module):
    """A model whose derivative is infinite at zero."""

    def __init__(self, value):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([value]))

    def forward(self, x):
        root = (x * self.weight).sqrt()  # line of root
        return F.mse_loss(root, torch.ones_like(x))


def train(model, x, lr):
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    spec = describe_optimizer(optimizer, names)
    program = capture_program(model, (x,), {}, training=True, optimizer=spec, name="model")
    executable = Executable(program, dataclasses.replace(WATCHED, training=True))
    executable.load_weights(dict(model.named_parameters()), {})
    executable.set_hyper_parameters(read_hyper_parameters(optimizer, spec))
    return executable.run([x])


def test_backward_names_the_line_of_the_forward_operator():
    line = find_line("line of root")
    with pytest.raises(ArithmeticFaultError, match=rf"divides by zero.*test_arithmetic\.py:{line} "):
        train(Root(0.0), torch.ones(1), lr=0.1)
    train(Root(1.0), torch.ones(1), lr=0.1)


def test_an_update_names_the_parameter():
    parameters = {"layer.weight": torch.ones(3), "mask": torch.tensor([torch.inf])}
    state = {"momentum:layer.weight": torch.zeros(3), "step:layer.weight": torch.zeros((), dtype=torch.int64)}
    watch = UpdateWatch(parameters, state)
    watch.begin()
    watch.finish()
    parameters["layer.weight"][1] = torch.inf
    with pytest.raises(ArithmeticFaultError, match=r"update of parameter layer\.weight overflows"):
        watch.finish()
    parameters["layer.weight"].fill_(1)
    state["momentum:layer.weight"][0] = torch.nan
    with pytest.raises(ArithmeticFaultError, match=r"update of momentum of parameter layer\.weight is invalid"):
        watch.finish()


def test_a_whole_number_of_a_nan_is_invalid_and_a_boolean_is_not():
    nan = torch.tensor([torch.nan])
    with pytest.raises(ArithmeticFaultError, match="makes a whole number of a NaN"):
        run(lambda x: x.to(torch.int32), nan)
    assert run(lambda x: x.to(torch.int32), torch.tensor([2.5]))[0].tolist() == [2]
    assert run(lambda x: x.to(torch.bool), nan)[0].tolist() == [True]


def test_loops_and_branches_are_watched_as_a_whole():
    poptorch = pytest.importorskip("poptorch")

    def forward(x):
        return poptorch.for_loop(5, lambda y: (y * y,), [x])[0]

    options = poptorch.Options().showCompilationProgressBar(False)
    options.Precision.enableFloatingPointExceptions(True)

    class Loop(torch.nn.Module):
        def forward(self, x):
            return forward(x)

    with pytest.raises(poptorch.Error, match="Floating-point exception"):
        poptorch.inferenceModel(Loop(), options)(torch.full((2,), 1e3))
    assert poptorch.inferenceModel(Loop(), options)(torch.full((2,), 1.5)).isfinite().all()


def test_softmax_with_a_mask_of_infinities_is_ordinary():
    x = torch.tensor([[1.0, -torch.inf], [2.0, 3.0]])
    assert run(lambda x: F.softmax(x, -1), x)[0].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_large_numbers_whose_sum_is_none_are_ordinary(dtype):
    x = torch.full((1000,), torch.finfo(dtype).max, dtype=dtype)
    (found,) = run(lambda value: value * 1.0, x)
    assert torch.equal(found, x)


def test_operands_are_looked_at_only_where_a_result_is_not_finite(monkeypatch):
    looks = []
    monkeypatch.setattr(torch, "isnan", lambda value, look=torch.isnan: looks.append(value) or look(value))
    run(lambda value: (value + 1).exp().tanh(), torch.zeros(8))
    assert not looks
    run(lambda value: value * 2, torch.tensor([float("nan"), 1.0]))
    assert looks
