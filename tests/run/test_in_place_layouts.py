"""Every in-place op of ATen, on tensors of every layout, read in every way: the program computes what eager computes."""

from __future__ import annotations

import pytest
import torch
from in_place_ops import InPlaceOp, list_in_place_ops
from torch import nn

from openipu.capture import capture_program
from openipu.graph import RunOptions, Tier
from openipu.run import Executable

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
        return (*found, sum(value.float().square().sum() for value in found))


def make_input(op: InPlaceOp) -> torch.Tensor:
    if op.integer:
        return torch.arange(1, 65, dtype=torch.int32).reshape(4, 4, 4)
    # Where all functions are defined: above 1, and in steps that no rounding of float32 hides.
    low, high = (
        (0.05, 0.6)
        if op.name in (["acos_", "arccos_", "asin_", "arcsin_", "atanh_", "arctanh_", "erfinv_", "logit_"])
        else (1.1, 3)
    )
    return torch.linspace(low, high, 64).reshape(4, 4, 4)


OPS = list_in_place_ops()


def test_the_schemas_list_the_ops_that_once_changed_strides():
    names = {op.name for op in OPS}
    assert len(OPS) > 200
    assert names >= set(
        [
            "masked_fill_",
            "index_copy_",
            "index_add_",
            "index_reduce_",
            "masked_scatter_",
            "scatter_",
            "scatter_add_",
            "cumsum_",
            "tril_",
            "baddbmm_",
            "copy_",
            "add_",
            "t_",
            "transpose_",
            "squeeze_",
            "fill_diagonal_",
        ]
    )


def run_eagerly(case: Case, x: torch.Tensor) -> list[torch.Tensor]:
    with torch.no_grad():
        return [value.clone() for value in case(x.clone())]


def run_program(case: Case, x: torch.Tensor, tier: Tier = Tier.INSTANT) -> list[torch.Tensor]:
    program = capture_program(case, (x,), {}, training=False, optimizer=None, name=str(case.op))
    executable = Executable(program, RunOptions(tier=tier))
    executable.load_weights(dict(case.named_parameters()), {})
    return list(executable.run((x.clone(),)).outputs)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_op_writes_and_all_readers_see_what_eager_sees(layout):
    wrong = []
    for op in OPS:
        if op.random:
            continue
        case, x = Case(op, layout), make_input(op)
        try:
            expected = run_eagerly(case, x)
        except Exception as e:
            wrong.append(f"{op} EAGER {e}"[:150])
            continue
        try:
            found = run_program(case, x)
        except Exception as e:
            wrong.append(f"{op} {type(e).__name__} {e}"[:150])
            continue
        if len(found) != len(expected):
            wrong.append(str(op))
        for name, value, wanted in zip([*case.readers, *case.readers, "sum"], found, expected, strict=False):
            if not torch.allclose(value, wanted.to(value.dtype), rtol=1e-5, atol=1e-5, equal_nan=True):
                wrong.append(f"{op} {name}")
    assert wrong == []
