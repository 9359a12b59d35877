"""A generated model as source text: it can be run in any number format, reduced line by line, and printed.

In: layers, inputs, lines of a forward function, the values it returns, the terms of its loss. Out: a `Case`, which
builds the model and its inputs, and prints itself as a script.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from types import CodeType
from typing import Any

import torch
from torch import nn
from torch.nn import functional

_HELPERS = """
def data(seed, *shape):  # random numbers
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def few(seed, *shape):  # numbers of which many are equal
    return torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(seed)).float()


def whole(seed, most, *shape):  # indices
    return torch.randint(0, most, shape, generator=torch.Generator().manual_seed(seed))


def vary(value):  # a scalar with a different gradient for each element
    return torch.sin(value.float() * 1.7 + 0.3).sum() / max(1, value.numel()) ** 0.5
"""
_SCRIPT = """import copy, math
import poptorch, torch
from torch import nn
from torch.nn import functional as F
{helpers}

def mark(loss):
    return poptorch.identity_loss(loss, "none")

{model}

def make_inputs(step, batches=1):
    return [{inputs}]

model = Model()
eager = copy.deepcopy(model).double()
options = poptorch.Options()
{run}
"""
_TRAIN = """mine = copy.deepcopy(model)
trainer = poptorch.trainingModel(mine, options, torch.optim.SGD(mine.parameters(), lr=0.1))
optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
for step in range(2):
    trainer(*make_inputs(step))
    optimizer.zero_grad()
    eager(*[x.double() if x.is_floating_point() else x for x in make_inputs(step)])[0].backward()
    optimizer.step()
trainer.copyWeightsToHost()
for (name, p), (_, q) in zip(mine.named_parameters(), eager.named_parameters()):
    print(name, (p - q).abs().max().item())"""
_INFER = """runner = poptorch.inferenceModel(model.eval(), options)
for found, wanted in zip(runner(*make_inputs(0)), eager.eval()(*[x.double() for x in make_inputs(0)])):
    print((found - wanted).abs().max().item())"""


@dataclass(frozen=True)
class Case:
    """One generated model."""

    family: str
    seed: int
    layers: tuple[str, ...] = ()  # statements of `__init__`
    inputs: tuple[str, ...] = ()  # expressions; `step` is the number of the call
    lines: tuple[str, ...] = ()  # statements of `forward`
    returns: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()  # terms; none: inference
    half: bool = False
    optimizer: str = "torch.optim.SGD(parameters, lr=0.1)"
    options: tuple[tuple[str, Any], ...] = ()  # of `RunOptions`
    spec: tuple[tuple[str, Any], ...] = ()  # of `OptimizerSpec`: types of accumulators and of state
    random: bool = False  # draws random numbers: eager PyTorch draws others

    @property
    def training(self) -> bool:
        return bool(self.losses)

    @property
    def batches(self) -> int:
        """Micro-batches of a call."""
        options = dict(self.options)
        counts = (options.get(name, 1) for name in ("device_iterations", "gradient_accumulation", "replicas"))
        return math.prod(counts)

    @property
    def source(self) -> str:
        """The class of the model."""
        body = ["super().__init__()", *self.layers]
        names = "".join(f", x{index}" for index in range(len(self.inputs)))
        result = "".join(f"{value}, " for value in self.returns)
        loss = [f"loss = mark({' + '.join(self.losses)})"] if self.losses else []
        result = f"loss, {result}" if self.losses else result
        forward = [*self.lines, *loss, f"return ({result})"]
        text = "class Model(nn.Module):\n    def __init__(self):\n"
        text += "".join(f"        {line}\n" for line in body)
        text += f"\n    def forward(self{names}):\n"
        return text + "".join(f"        {line}\n" for line in forward)

    def build(self, mark: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
        """The model in float32, or in half."""
        names = make_names() | {"mark": mark}
        exec(_compile(self.source), names)
        model: nn.Module = names["Model"]()
        model.train(self.training)
        return model.half() if self.half else model

    def make_inputs(self, step: int, dtype: torch.dtype | None = None) -> list[torch.Tensor]:
        """The inputs of a call, floating-point ones in the format of the model or in this one."""
        names = make_names() | {"step": step, "batches": self.batches}
        found = [eval(_compile(text, "eval"), names) for text in self.inputs]
        dtype = dtype or (torch.float16 if self.half else torch.float32)
        return [value.to(dtype) if value.is_floating_point() else value for value in found]

    def print_script(self) -> str:
        """A program of PopTorch's interface that shows the difference, for what needs no options."""
        return _SCRIPT.format(
            helpers=_HELPERS,
            model=self.source,
            inputs=", ".join(self.inputs),
            run=_TRAIN if self.training else _INFER,
        )

    def shrink(self) -> Iterator[Case]:
        """Cases with one piece less each; some of them are no longer programs."""
        for field in ("options", "spec", "losses", "returns", "lines", "layers"):
            pieces = getattr(self, field)
            for index in reversed(range(len(pieces))):
                if field == "losses" and len(pieces) == 1:
                    continue
                yield replace(self, **{field: pieces[:index] + pieces[index + 1 :]})


@cache
def _compile(text: str, mode: str = "exec") -> CodeType:
    return compile(text, "<generated>", mode)


def make_names() -> dict[str, Any]:
    """What generated text may use."""
    names: dict[str, Any] = {"torch": torch, "nn": nn, "F": functional, "math": math}
    exec(_compile(_HELPERS), names)
    return names
