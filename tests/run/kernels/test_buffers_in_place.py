"""A part of a buffer is written where that lies, unless somebody reads the old one or keeps the new one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from openipu.capture import capture_program
from openipu.graph import EngineMode, Program, RunOptions
from openipu.run import Executable
from openipu.run.engine.micro import draft_micro
from openipu.run.rewrites.in_place.buffers_in_place import write_in_place

ROWS, COLUMNS = 4, 8


class Cache(nn.Module):
    """Writes a row in each call."""

    kept: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(ROWS, COLUMNS))

    def forward(self, place: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        self.kept.index_copy_(0, place, row)
        return self.kept.sum(0)


class Puts(Cache):
    def forward(self, place: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        self.kept[place] = row
        return self.kept.sum(0)


class ReadsOld(Cache):
    def forward(self, place: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        before = self.kept * 1
        self.kept.index_copy_(0, place, row)
        return before + self.kept


class ReturnsNew(Cache):
    def forward(self, place: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        self.kept.index_copy_(0, place, row)
        return self.kept


class ReturnsPart(Cache):
    def forward(self, place: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        self.kept.index_copy_(0, place, row)
        return self.kept[:2]


class ReturnsFlat(Cache):
    def forward(self, place: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        self.kept.index_copy_(0, place, row)
        return self.kept.flatten()


class PutsItself(Cache):
    def forward(self, place: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        self.kept.copy_((self.kept + 1).index_put((place,), row))
        self.kept.copy_(self.kept.index_put((place,), self.kept[:1]))
        return self.kept.sum(0)


class CopiesItself(Cache):
    def forward(self, place: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        self.kept.copy_(self.kept.index_copy(0, torch.tensor([1, 0, 2, 3]) + 0 * place, self.kept))
        return self.kept.sum(0) + row


def make_inputs(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([step]), torch.randn(1, COLUMNS, generator=torch.Generator().manual_seed(step))


def capture(model: nn.Module) -> Program:
    return capture_program(model, make_inputs(0), {}, training=False, optimizer=None, name="model")


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (Cache, torch.Tensor.index_copy_),
        (Puts, torch.Tensor.index_put_),
        (ReadsOld, torch.ops.aten.index_copy.default),
    ],
)
def test_only_a_buffer_that_nobody_else_reads_is_written_in_place(kind: type[Cache], target: object) -> None:
    draft = draft_micro(capture(kind().eval()), RunOptions())
    write_in_place(draft)
    draft.graph.lint()
    assert draft.graph.find_nodes(op="call_function", target=target)


@pytest.mark.parametrize(
    "kind", [Cache, Puts, PutsItself, CopiesItself, ReadsOld, ReturnsNew, ReturnsPart, ReturnsFlat]
)
def test_results_and_buffers_are_those_of_eager_pytorch_and_stay_so(kind: type[Cache]) -> None:
    model, eager = kind().eval(), kind().eval()
    executable = Executable(capture(model), RunOptions(engine=EngineMode.OPERATORS))
    executable.load_weights({}, dict(model.named_buffers()))
    found = [executable.run(list(make_inputs(step))).outputs[0] for step in range(ROWS)]
    with torch.no_grad():
        wanted = [eager(*make_inputs(step)).clone() for step in range(ROWS)]
    for value, expected in zip(found, wanted, strict=True):
        assert torch.equal(value, expected)
    executable.read_weights({}, dict(model.named_buffers()))
    assert torch.equal(model.kept, eager.kept)
