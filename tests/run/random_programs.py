"""Random programs, full of in-place ops, views, strides and custom ops that write, compared with eager PyTorch.

In: a seed. Out: a `RandomProgram`, the same one for the same seed, and what differs between its run and eager's. As a
script: `python tests/run/random_programs.py --programs N --seed S` tries seeds S, S + 1, …; half of the programs are
models of the families in `generated/models.py`, without and with native kernels.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from generated.engine import install_kernels
from generated.models import MODELS
from generated.rules import run_apart
from torch import nn

from openipu.capture import (
    call_custom_op,
    capture_program,
    describe_optimizer,
    is_capturing,
    mark_loss,
    read_hyper_parameters,
    register_custom_op,
)
from openipu.graph import EngineMode, RunOptions
from openipu.run import Executable

SIDE = 4
_RATE = 0.01


def _write_custom(inputs: Any, attributes: Any) -> list[torch.Tensor]:
    inputs[0].mul_(attributes["factor"]).clamp_(-2, 2)
    return [inputs[0].sum().reshape(1)]


register_custom_op(
    "Scale", "openipu.fuzz", forward=_write_custom, backward=lambda inputs, gradients, attributes: [None]
)


def _call_custom(x: torch.Tensor) -> None:
    with torch.no_grad():
        if is_capturing():
            call_custom_op("Scale", "openipu.fuzz", 1, [x], [x.new_zeros(1)], {"factor": 0.75})
        else:
            _write_custom([x], {"factor": 0.75})


def _index(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([0, x.shape[0] - 1]).to(x.device)


# Each writes into `x`; `y` has any shape. Values stay small.
WRITES: tuple[Callable[[torch.Tensor, torch.Tensor], Any], ...] = (
    lambda x, y: x.add_(0.5),
    lambda x, y: x.mul_(-0.5),
    lambda x, y: x.copy_(y * 1) if x.shape == y.shape else x.fill_(0.75),
    lambda x, y: x.add_(y.clone()).mul_(0.5) if x.shape == y.shape else x.neg_(),
    lambda x, y: x.__setitem__(0, 0.3),
    lambda x, y: x.clamp_(max=0.5),
    lambda x, y: x.tanh_(),
    lambda x, y: x.masked_fill_(x > 0.5, 0.1),
    lambda x, y: x.masked_scatter_(x > 0.2, (x * 2).contiguous()),
    lambda x, y: x.index_copy_(0, _index(x)[:1], x[-1:].clone()),
    lambda x, y: x.index_add_(0, _index(x)[:1], x[-1:].clone()),
    lambda x, y: x.index_fill_(0, _index(x)[1:], 0.2),
    lambda x, y: x.index_put_((_index(x)[:1],), x[-1:] * 1),
    lambda x, y: x.scatter_(0, torch.zeros_like(x[:1], dtype=torch.int64), 0.4),
    lambda x, y: x.scatter_add_(0, torch.zeros_like(x[:1], dtype=torch.int64), x[-1:].clone()),
    lambda x, y: x.cumsum_(0).mul_(0.25),
    lambda x, y: x.tril_() if x.dim() > 1 else x.sub_(0.1),
    lambda x, y: x.baddbmm_(x.clone(), x.clone()).tanh_() if x.shape == (SIDE,) * 3 else x.sigmoid_(),
    lambda x, y: x.lerp_(x.flip(0), 0.3),
    lambda x, y: x.addcmul_(x.clone(), x.clone(), value=0.5),
    lambda x, y: x.diagonal().add_(0.1) if x.dim() > 1 else x.abs_(),
    lambda x, y: x.transpose(0, -1).mul_(0.9),
    lambda x, y: x[..., ::2].sub_(0.2),
    lambda x, y: x.put_(_index(x), x.flatten()[:2].clone()),
    lambda x, y: torch.add(x * 1, 0.1, out=x.detach()),
)
CUSTOM_WRITES = (*WRITES, lambda x, y: _call_custom(x))  # what calls Python cannot be compiled
READS: tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], ...] = (
    lambda x, y: x * 0.5,
    lambda x, y: x.detach(),
    lambda x, y: x[: max(1, x.shape[0] - 1)],
    lambda x, y: x.transpose(0, -1),
    lambda x, y: x.clone(),
    lambda x, y: x + y if x.shape == y.shape else x - 1,
    lambda x, y: x.reshape(-1)[1:],
    lambda x, y: x.view(x.shape),
    lambda x, y: x.permute(*reversed(range(x.dim()))).clone(),
    lambda x, y: x.flatten(),
    lambda x, y: x.transpose(0, -1).flatten(),
    lambda x, y: x.view(-1) if x.is_contiguous() else x.contiguous(),
    lambda x, y: x.as_strided((2, 2), (1, 2)),
    lambda x, y: x.as_strided((3,), (1,), x.storage_offset() + x.numel() - 3 if x.is_contiguous() else None),
    lambda x, y: torch.relu(x),
    lambda x, y: torch.sigmoid(x.transpose(0, -1)),
    lambda x, y: x.softmax(0),
    lambda x, y: x[::2],
    lambda x, y: x.unsqueeze(0),
    lambda x, y: x.select(0, 0) if x.dim() > 1 else x.narrow(0, 0, 1),
    lambda x, y: x.expand(2, *x.shape).clone() if x.dim() < 3 else x.sum(0),
    lambda x, y: x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x.exp().clamp(max=2),
)


class RandomProgram(nn.Module):
    """Weights, a buffer and inputs go into a pool; each step writes to one of the pool, or adds a new one to it."""

    def __init__(self, seed: int, *, custom: bool, length: int = 16) -> None:
        super().__init__()
        self.writes = CUSTOM_WRITES if custom else WRITES
        choices, generator = random.Random(seed), torch.Generator().manual_seed(seed)

        def draw(*layout: int) -> torch.Tensor:
            return torch.randn([SIDE] * len(layout), generator=generator).permute(layout)

        self.weight = nn.Parameter(draw(*choices.choice(((0, 1, 2), (2, 0, 1), (1, 0, 2)))))
        self.other = nn.Parameter(draw(0, 1))
        self.register_buffer("state", draw(1, 0))
        self.data = (draw(0, 1, 2), draw(0, 1))
        self.script = [(choices.random() < 0.5, *(choices.randrange(10**6) for _ in range(3))) for _ in range(length)]
        self.picks = [choices.randrange(10**6) for _ in range(4)]
        self.trying = False
        self.refused: set[int] = set()  # steps that eager refuses

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        weighted, shifted = self.weight * a, (self.other + b).t()
        pool = [a, b, self.state.detach(), weighted, shifted]
        for index, (writes, number, place, operand) in enumerate(self.script):
            if index in self.refused:
                continue
            x, y = pool[place % len(pool)], pool[operand % len(pool)]
            try:
                if writes:
                    self.writes[number % len(self.writes)](x, y)
                else:
                    pool.append(READS[number % len(READS)](x, y))
            except (RuntimeError, IndexError, ValueError):
                if not self.trying:
                    raise
                self.refused.add(index)
        chosen = [pool[pick % len(pool)] for pick in self.picks]
        terms = [value.square().mean() for value in [*chosen, weighted, shifted]]
        return (*(value.clone() for value in chosen), torch.stack(terms).sum())


class Group(nn.Module):
    """Programs that are captured as one: what takes its time to compile is compiled once for all of them."""

    def __init__(self, programs: Sequence[RandomProgram]) -> None:
        super().__init__()
        self.programs = nn.ModuleList(programs)

    def forward(self, *data: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = [program(*data[2 * index : 2 * index + 2]) for index, program in enumerate(self.programs)]
        loss = mark_loss(torch.stack([each[-1] for each in outputs]).sum(), "none")
        return (*itertools.chain(*outputs), loss)

    def make_data(self) -> list[torch.Tensor]:
        return [value.clone() for program in self.programs for value in program.data]  # type: ignore[union-attr]


def make_program(seed: int, *, custom: bool) -> RandomProgram:
    """The program of a seed, without the steps that eager refuses."""
    trial = RandomProgram(seed, custom=custom)
    trial.trying = True
    trial(*(value.clone() for value in trial.data))
    program = RandomProgram(seed, custom=custom)
    program.refused = trial.refused
    return program


def run_eagerly(group: Group, training: bool) -> dict[str, torch.Tensor]:
    """Outputs, weights and buffers after one step of eager PyTorch, by name."""
    model = copy.deepcopy(group)
    optimizer = torch.optim.SGD(model.parameters(), lr=_RATE)
    # As in a captured graph, a gradient is computed from the value at the time it was saved.
    with torch.set_grad_enabled(training), torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda saved: saved):
        outputs = model(*group.make_data())
        if training:
            outputs[-1].backward()
            optimizer.step()
    return _name_values(outputs, model)


def run_captured(group: Group, training: bool) -> dict[str, torch.Tensor]:
    """The same after one run of the captured programs."""
    model = copy.deepcopy(group)
    optimizer = torch.optim.SGD(model.parameters(), lr=_RATE)
    spec = describe_optimizer(optimizer, {id(value): name for name, value in model.named_parameters()})
    captured = capture_program(
        model, tuple(group.make_data()), {}, training=training, optimizer=spec if training else None, name="random"
    )
    executable = Executable(captured, RunOptions(training=training, engine=EngineMode.OPERATORS))
    executable.load_weights(dict(model.named_parameters()), dict(model.named_buffers()))
    if training:
        executable.set_hyper_parameters(read_hyper_parameters(optimizer, spec))
    outputs = executable.run(tuple(group.make_data())).outputs
    executable.read_weights(dict(model.named_parameters()), dict(model.named_buffers()))
    return _name_values(outputs, model)


def _name_values(outputs: Sequence[torch.Tensor], model: nn.Module) -> dict[str, torch.Tensor]:
    named = {f"output {index}": value.detach() for index, value in enumerate(outputs)}
    return named | {name: value.detach().clone() for name, value in model.state_dict().items()}


def find_differences(seeds: Sequence[int], *, training: bool) -> list[str]:
    """What differs from eager PyTorch in these programs, captured as one."""
    group = Group([make_program(seed, custom=True) for seed in seeds])
    what = f"{'training' if training else 'inference'} of seeds {', '.join(map(str, seeds))}"
    expected = run_eagerly(group, training)
    try:
        found = run_captured(group, training)
    except Exception as error:  # whatever it is: eager had no error
        return [f"{what}: {type(error).__name__}: {str(error).splitlines()[0]}"]
    return [
        f"{what}: {name} differs"
        for name, wanted in expected.items()
        if found[name].shape != wanted.shape
        or not torch.allclose(found[name], wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
    ]


def run_models(count: int, seed: int, *, kernels: bool) -> list[str]:
    """What differs from eager PyTorch in generated models, in each family from this seed on."""
    if kernels:
        install_kernels()
    wrong: list[str] = []
    for index, family in enumerate(MODELS):
        share = len(range(index, count, len(MODELS)))
        for report in run_apart(family, range(seed, seed + share)):
            print("".join(f"{failure}\n" for failure in report.failures), end="", flush=True)
            wrong += report.failures
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description="compare random programs with eager PyTorch: half of them are trained")
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    given = parser.parse_args()
    torch.set_num_threads(1)
    models = given.programs // 2
    wrong = [*run_models(models // 2, given.seed, kernels=False)]
    wrong += run_models(models - models // 2, given.seed, kernels=True)
    for first in range(2):
        seeds = range(given.seed + first, given.seed + given.programs - models, 2)
        for seed in seeds:
            found = find_differences([seed], training=bool(first))
            print("".join(f"{line}\n" for line in found), end="", flush=True)
            wrong += found
    print(f"{given.programs} programs: {len(wrong)} differences from eager PyTorch")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
