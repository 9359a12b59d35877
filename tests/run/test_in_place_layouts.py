"""Every in-place op of ATen, on tensors of every layout, read in every way: a program computes what eager computes.

Each op is tried on a share of the layouts; with OPENIPU_TEST_ALL_LAYOUTS=1, on all of them.
"""

from __future__ import annotations

import os

import pytest
import torch
from in_place_ops import InPlaceOp, list_in_place_ops
from torch import nn

from openipu.capture import capture_program, describe_optimizer, mark_loss, read_hyper_parameters
from openipu.graph import EngineMode, RunOptions
from openipu.run import Executable

pytestmark = pytest.mark.slow

# How the tensor that is written came to lie in memory. A cube: a mistake in the order of dimensions changes no shape.
LAYOUTS = {
    "contiguous": lambda x: x * 1,
    "transposed": lambda x: x.transpose(0, 1).clone(),
    "permuted": lambda x: x.permute(2, 0, 1).clone(),
    "channels last": lambda x: x.unsqueeze(0).contiguous(memory_format=torch.channels_last).squeeze(0) * 1,
    "of an expanded source": lambda x: x[:, :1].expand(4, 4, 4) * 2,
    "sliced with a step": lambda x: torch.cat([x, x * 2], 1)[:, ::2],
    "with an offset": lambda x: torch.cat([x * 3, x], 2).transpose(0, 2)[4:],
}

VIEWS = ("sliced with a step", "with an offset")

# What reads it afterwards. Eager refuses some of these views of some layouts.
READERS = {
    "values": lambda y: y * 2,
    "view": lambda y: y.view(16, 4),
    "view of a transposition": lambda y: y.transpose(0, 1).view(16, 4),
    "view of a permutation": lambda y: y.permute(1, 2, 0).view(4, 16),
    "as_strided": lambda y: y.as_strided((6,), (5,), 3) * 1,
    "as_strided in two dimensions": lambda y: y.as_strided((3, 4), (1, 7)) * 1,
    "flatten": lambda y: y.transpose(0, 1).flatten(),
    "reshape": lambda y: y.permute(1, 2, 0).reshape(-1),
}


def read_all(y, names):
    return [READERS[name](y).clone() for name in names]


def list_possible(y):
    """The readers that eager has for this tensor."""
    possible = []
    for name, reader in READERS.items():
        try:
            reader(y)
        except RuntimeError:
            continue
        possible.append(name)
    return possible


def write_through_views(y):
    y.transpose(0, 1)[1:3].mul_(2)
    y.as_strided((3,), (5,), 1).add_(1)
    y[:, 1].copy_(y[:, 2] * 1)


class Case(nn.Module):
    """One op on one layout: `y` is written, read, written through other views, and read again."""

    def __init__(self, op: InPlaceOp, layout: str) -> None:
        super().__init__()
        self.op, self.layout = op, layout
        self.weight = nn.Parameter(torch.tensor(1.5))
        self.readers: list[str] = []

    def forward(self, x):
        y = LAYOUTS[self.layout](x if self.op.integer else x * self.weight)
        self.op.write(y, x)
        if not self.readers:
            self.readers = list_possible(y)
        found = read_all(y, self.readers)
        write_through_views(y)
        found += read_all(y, self.readers)
        loss = torch.stack([value.float().square().mean() for value in found]).sum()
        return (*found, mark_loss(loss, "none"))


_BELOW_ONE = ("acos_", "arccos_", "asin_", "arcsin_", "atanh_", "arctanh_", "erfinv_", "logit_", "bernoulli_")


def make_input(op: InPlaceOp) -> torch.Tensor:
    """Numbers for which the op is defined, all of them different."""
    if op.integer:
        return torch.arange(1, 65, dtype=torch.int32).reshape(4, 4, 4)
    low, high = (0.05, 0.6) if op.name in _BELOW_ONE else (1.1, 3)
    return torch.linspace(low, high, 64).reshape(4, 4, 4)


OPS = list_in_place_ops()
CALLED = ["baddbmm_", "cumsum_", "index_add_", "index_copy_", "index_reduce_", "masked_fill_", "masked_scatter_"]
CALLED += ["scatter_", "scatter_add_", "tril_", "add_", "copy_", "t_", "fill_diagonal_"]


def test_the_schemas_list_the_ops_that_once_changed_strides():
    assert len(OPS) > 200
    assert {op.name for op in OPS} >= set(CALLED)


def run_eagerly(case: Case, x: torch.Tensor) -> list[torch.Tensor]:
    with torch.no_grad():
        return [value.clone() for value in case(x.clone())]


def run_program(case: Case, x: torch.Tensor, engine: EngineMode = EngineMode.OPERATORS) -> list[torch.Tensor]:
    program = capture_program(case, (x,), {}, training=False, optimizer=None, name="in place")
    executable = Executable(program, RunOptions(engine=engine))
    executable.load_weights(dict(case.named_parameters()), {})
    results = list(executable.run((x.clone(),)).outputs)
    assert executable.engine_mode is engine
    return results


def find_differences(op: InPlaceOp, layout: str, engine: EngineMode = EngineMode.OPERATORS) -> list[str]:
    case, x = Case(op, layout), make_input(op)
    expected = run_eagerly(case, x)
    found = run_program(case, x, engine)
    return [
        f"{op} {name}"
        for name, value, wanted in zip([*case.readers, *case.readers, "sum"], found, expected, strict=True)
        if not torch.allclose(value, wanted.to(value.dtype), rtol=1e-5, atol=1e-5, equal_nan=True)
    ]


def choose_ops(layout: str) -> list[InPlaceOp]:
    """All for one permuted layout and, without an order for more, a share of them for each of the others."""
    known = [op for op in OPS if not op.random and not (op.name == "detach_" and layout in VIEWS)]  # eager refuses that
    if layout == "transposed" or os.environ.get("OPENIPU_TEST_ALL_LAYOUTS"):
        return known
    others = [name for name in LAYOUTS if name != "transposed"]
    return known[others.index(layout) :: len(others)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_op_writes_and_all_readers_see_what_eager_sees(layout):
    assert [line for op in choose_ops(layout) for line in find_differences(op, layout)] == []


@pytest.mark.parametrize("layout", ["transposed", "with an offset"])
def test_random_numbers_are_read_in_the_places_where_they_were_drawn(layout):
    wrong = []
    for op in (op for op in OPS if op.random and op.name != "rrelu_with_noise_"):
        case, x = Case(op, layout), make_input(op)
        case.readers = list_possible(LAYOUTS[layout](x))
        drawn, *found = run_program(case, x)[: len(case.readers)]
        y = LAYOUTS[layout](x).copy_(drawn / 2)  # the first reader doubles
        for name, value, wanted in zip(case.readers[1:], found, read_all(y, case.readers)[1:], strict=True):
            inside = "as_strided" not in name or layout == "transposed"  # else it also shows what was not drawn
            if inside and not torch.equal(value, wanted):
                wrong.append(f"{op} {name}")
    assert wrong == []


def test_rows_of_an_embedding_are_renormalised_in_place():
    class Table(nn.Module):
        def forward(self, x, index):
            y = x.t().clone()
            torch.embedding_renorm_(y, index, 1.0, 2.0)
            return y.t().view(-1), y.as_strided((4,), (3,))

    x, index = torch.arange(12.0).reshape(3, 4), torch.tensor([0, 2])
    expected = Table()(x.clone(), index)
    program = capture_program(Table(), (x, index), {}, training=False, optimizer=None, name="table")
    found = Executable(program, RunOptions(engine=EngineMode.OPERATORS)).run((x.clone(), index)).outputs
    for value, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(value, wanted)


@pytest.mark.parametrize("layout", ["transposed", "sliced with a step"])
def test_gradients_through_an_op_are_those_of_eager(layout):
    compared, wrong = 0, []
    for op in choose_ops(layout)[:: 1 if os.environ.get("OPENIPU_TEST_ALL_LAYOUTS") else 3]:
        case, x = Case(op, layout), make_input(op)
        try:
            with torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda saved: saved):
                case(x.clone())[-1].backward()
        except (RuntimeError, NotImplementedError):
            continue  # not differentiable
        spec = describe_optimizer(torch.optim.SGD(case.parameters(), lr=1.0), {id(case.weight): "weight"})
        program = capture_program(case, (x,), {}, training=True, optimizer=spec, name="in place")
        executable = Executable(program, RunOptions(training=True, engine=EngineMode.OPERATORS))
        executable.load_weights(dict(case.named_parameters()), {})
        executable.set_hyper_parameters(read_hyper_parameters(torch.optim.SGD(case.parameters(), lr=1.0), spec))
        executable.run((x.clone(),))
        trained = {"weight": torch.zeros(())}
        executable.read_weights(trained, {})
        moved, wanted = case.weight.detach() - trained["weight"], case.weight.grad
        compared += 1
        if not torch.allclose(moved, wanted, rtol=1e-3, atol=1e-4 * max(1.0, wanted.abs().item()), equal_nan=True):
            wrong.append(f"{op}: {moved.item()}, not {wanted.item()}")
    assert wrong == []
    assert compared > 5
