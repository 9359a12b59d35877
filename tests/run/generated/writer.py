"""Writes a generated model line by line, and runs each line as it goes: so shapes are known.

In: a random generator. Out: a `Case`. Around the lines of a pattern it puts what hand-written tests forget: second
readers, values returned or detached, operands that are slices, transposed or expanded, and layers used twice.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from generated.case import Case, make_names

_LARGEST = 50.0  # values above say nothing of a pass, but of rounding


class Writer:
    """A model that is being written."""

    def __init__(self, family: str, seed: int) -> None:
        self.family, self.seed = family, seed
        self.pick = random.Random(f"{family} {seed}")
        self.training = self.pick.random() < 0.6
        self.half = False
        self.random = False
        self.around = self.pick.choice((0.0, 0.1, 0.3))  # how often a value gets a second reader
        self.optimizer = Case.optimizer
        self.options: dict[str, Any] = {}
        self.spec: dict[str, Any] = {}
        self._layers: list[str] = []
        self._inputs: list[str] = []
        self._lines: list[str] = []
        self._returns: list[str] = []
        self._losses: list[str] = []
        self._count = 0
        self._made: dict[str, str] = {}
        self.names = make_names()
        self.module = nn.Module()
        self.names["self"] = self.module

    def chance(self, share: float) -> bool:
        return self.pick.random() < share

    def choose(self, *values: Any) -> Any:
        return self.pick.choice(values)

    def _name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def input(self, *shape: int, few: bool = False) -> str:
        """An input of random numbers."""
        if 0 in shape:  # a program has no empty inputs, but may have empty values
            dim = shape.index(0)
            whole = self.input(*(size or 1 for size in shape), few=few)
            return self.let(f"{whole}.narrow({dim}, 0, 0).expand({list(shape)})", plain=True)
        function = "few" if few else "data"
        return self._input(f"{function}({self._seed()} + step, batches * {', '.join(map(str, shape))})")

    def indices(self, most: int, *shape: int) -> str:
        """An input of whole numbers."""
        if 0 in shape:
            return self.let(f"{self.indices(most, *(size or 1 for size in shape))}[..., :0].reshape({list(shape)})")
        return self._input(f"whole({self._seed()} + step, {most}, batches * {', '.join(map(str, shape))})")

    def _seed(self) -> int:
        return (self.seed % 1000) * 1000 + 10 * len(self._inputs)

    def _input(self, text: str) -> str:
        name = f"x{len(self._inputs)}"
        self.names[name] = eval(text, self.names | {"step": 0, "batches": 1})
        self._inputs.append(text)
        return name

    def layer(self, text: str, share: float = 0.15) -> str:
        """A layer; sometimes one that was made before, with the same arguments."""
        if text in self._made and self.chance(share):
            return self._made[text]
        name = f"self.{self._name('l')}"
        self.statement(f"torch.manual_seed({self._count}); {name} = {text}")
        self._made[text] = name
        return name

    def statement(self, text: str) -> None:
        """A statement of `__init__`."""
        exec(text, self.names)
        self._layers.append(text)

    def parameter(self, *shape: int) -> str:
        return self.layer(f"nn.Parameter(0.3 * torch.randn({list(shape)}))", share=0.3)

    def let(self, text: str, *, plain: bool = False) -> str:
        """A value; `plain`: nothing else reads it."""
        name = self._name("v")
        with torch.no_grad():
            exec(f"{name} = {text}", self.names)
        self._lines.append(f"{name} = {text}")
        if not plain and self.chance(self.around):
            self.read_again(name)
        return name

    def value(self, name: str) -> torch.Tensor:
        found = self.names[name] if name in self.names else eval(name, self.names)
        assert isinstance(found, torch.Tensor)
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.value(name).shape)

    def read_again(self, name: str) -> None:
        """Let somebody else read a value, too."""
        value = self.value(name)
        kind = self.pick.randrange(7)
        part = f"{name}[{', '.join(self.choose(':', ':', '0', '-1:', '::2', ':1') for _ in value.shape)}]"
        text = name if not value.dim() or self.chance(0.5) else part
        if not value.is_floating_point() or kind == 0:
            self._returns.append(text)
        elif kind == 1:
            self._returns.append(f"{text}.detach()")
        elif kind in (2, 3):
            self.score(text)
        elif kind == 4:
            self.score(f"{text} * {text}")
        elif kind == 5:
            self._returns.append(f"torch.tanh({text})")
        else:
            self.score(f"{name}.transpose(0, -1)" if value.dim() > 1 else text)

    def give(self, name: str) -> None:
        """Return a value."""
        self._returns.append(name)

    def score(self, text: str) -> None:
        """Add a value to the loss, or return it."""
        if self.training:
            self._losses.append(f"vary({text})")
        else:
            self._returns.append(text)

    def lose(self, text: str) -> None:
        """Add a scalar to the loss, or return it."""
        (self._losses if self.training else self._returns).append(text)

    def source(self, *shape: int) -> str:
        """A value of this shape from anywhere: an input, a weight, a slice, a transposed or an expanded value."""
        kind = self.pick.randrange(10)
        if kind == 0 and shape:
            return self.parameter(*shape)
        if kind == 1 and len(shape) > 1:
            first, second = self.pick.sample(range(len(shape)), 2)
            turned = list(shape)
            turned[first], turned[second] = turned[second], turned[first]
            return self.let(f"{self.input(*turned)}.transpose({first}, {second})")
        if kind == 2 and shape:
            dim = self.pick.randrange(len(shape))
            wide = list(shape)
            wide[dim] += 2
            return self.let(f"{self.input(*wide)}.narrow({dim}, {self.choose(0, 1, 2)}, {shape[dim]})")
        if kind == 3 and shape:
            dim = self.pick.randrange(len(shape))
            thin = list(shape)
            thin[dim] = 1
            return self.let(f"{self.input(*thin)}.expand({list(shape)})")
        if kind == 4 and shape:
            return self.let(f"{self.input(*shape[:-1], shape[-1] * 2)}[..., ::2]")
        if kind in (5, 6) and shape and shape[-1]:
            return self.linear(self.source(*shape), shape[-1])
        if kind == 7:
            return self.let(f"{self.input(*shape)} * {self.source(*shape) if self.chance(0.5) else '0.7'}")
        return self.input(*shape)

    def linear(self, name: str, width: int) -> str:
        """A product with a weight."""
        bias = self.choose("True", "False")
        return self.let(f"{self.layer(f'nn.Linear({self.shape(name)[-1]}, {width}, bias={bias})')}({name})")

    def pass_on(self, name: str) -> str:
        """Something in between, or nothing."""
        value = self.value(name)
        kind = self.pick.randrange(8)
        if kind == 0:
            return self.let(f"torch.relu({name})")
        if kind == 1 and value.dim():
            return self.linear(name, self.choose(value.shape[-1], 4, 8)) if value.shape[-1] else name
        if kind == 2:
            return self.let(f"{name} * {self.source(*value.shape)}")
        if kind == 3:
            return self.let(f"{name} + {self.source(*value.shape)}")
        if kind == 4:
            return self.let(f"torch.tanh({name})")
        return name

    def sizes(self, *usual: int, count: int) -> list[int]:
        """Sizes of dimensions, sometimes 1, rarely 0."""
        found = [1 if self.chance(0.15) else self.pick.choice(usual) for _ in range(count)]
        if self.chance(0.03):
            found[self.pick.randrange(count)] = 0
        return found

    def finish(self) -> Case | None:
        """The case, if eager PyTorch computes it with ordinary numbers."""
        if self.training and not self._losses:
            return None
        if not self.training and not self._returns:
            return None
        case = Case(
            family=self.family,
            seed=self.seed,
            layers=tuple(self._layers),
            inputs=tuple(self._inputs),
            lines=tuple(self._lines),
            returns=tuple(self._returns),
            losses=tuple(self._losses) if self.training else (),
            half=self.half,
            optimizer=self.optimizer,
            options=tuple(self.options.items()),
            spec=tuple(self.spec.items()),
            random=self.random,
        )
        values = [self.value(name) for name in self.names if name[0] == "v" and name[1:].isdigit()]
        large = any(value.is_floating_point() and bool((value.abs() > _LARGEST).any()) for value in values)
        return None if large else case


def spread(pick: random.Random, total: int, parts: Sequence[int]) -> int:
    """One of some sizes that divide a total."""
    return pick.choice([part for part in parts if total % part == 0] or [1])
