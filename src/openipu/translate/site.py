"""One foreign op on its way to torch: what its rule may ask for.

In: a node and the values of its inputs. Out: those values, attributes by name, static values where they are known, and
errors that name the node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch

from openipu.capture import is_on_ipu
from openipu.errors import TranslationError
from openipu.translate.foreign import ForeignGraph, ForeignNode

_MISSING: Any = object()
LARGEST_RESULT = 1 << 26  # elements of a constant that a file asks for
LONGEST_WRITTEN_OUT = 4096  # passes of a loop, steps of a layer

RunBody = Callable[[ForeignGraph, Sequence[torch.Tensor]], list[torch.Tensor]]


class Variables:
    """Weights that a run may change, known by the tensors that stand for them, under whatever name a node has them."""

    def __init__(self, held: Mapping[str, torch.Tensor] | None = None) -> None:
        self._held = dict(held or {})
        self._names = {id(tensor): name for name, tensor in self._held.items()}
        self.written: dict[str, torch.Tensor] = {}

    def write(self, variable: torch.Tensor | None, value: torch.Tensor) -> bool:
        """Note a new value; False where the tensor is not a variable."""
        name = self._names.get(id(variable))
        if name is None:
            return False
        self.written[name] = value
        return True


@dataclass(frozen=True, eq=False)
class Site:
    """One call of an op."""

    node: ForeignNode
    inputs: tuple[torch.Tensor | None, ...]
    file: str
    run_body: RunBody  # runs a graph of the node's own: the body of a loop, a branch
    training: bool = False
    lift: Callable[[torch.Tensor], torch.Tensor] | None = None  # makes a value of the host one of the program
    variables: Variables = field(default_factory=lambda: Variables())
    replicas: int = 1  # of the program

    @property
    def version(self) -> int:
        return self.node.version

    @property
    def count(self) -> int:
        """Inputs that are given."""
        return len(self.inputs)

    @property
    def results(self) -> int:
        """Outputs that somebody reads or might."""
        return len(self.node.outputs)

    def has(self, position: int) -> bool:
        """Whether an input is given."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def input(self, position: int) -> torch.Tensor:
        """An input that must be there."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is None:
            self.fail(f"needs an input number {position}, and has {len(self.inputs)}")
        return value if self.lift is None else self.lift(value)

    def optional(self, position: int) -> torch.Tensor | None:
        """An input that may be left out."""
        return self.input(position) if self.has(position) else None

    def find_value(self, position: int) -> torch.Tensor | None:
        """The value of an input, where it is given and known when the program is compiled."""
        value = self.inputs[position] if position < len(self.inputs) else None
        return None if value is None or is_on_ipu(value) else value

    def wants(self, position: int) -> bool:
        """Whether an output has a name."""
        return position < len(self.node.outputs) and bool(self.node.outputs[position])

    def get(self, name: str, default: Any = _MISSING) -> Any:
        """An attribute; without a default it must be there."""
        value = self.node.attributes.get(name, default)
        if value is _MISSING:
            self.fail(f"needs the attribute {name!r}")
        return value

    def number(self, name: str, default: float) -> float:
        """An attribute that is one number."""
        return float(self.get(name, default))

    def value(self, position: int, what: str) -> torch.Tensor:
        """The value of an input that decides the graph, such as a shape: it must be known when it is compiled."""
        found = self.find_value(position)
        if found is None:
            self.input(position)
            name = self.node.inputs[position]
            self.fail(
                f"needs the value of {name!r} ({what}) when it is compiled, and that depends on the data of a run. "
                "On an IPU shapes are static: make it a constant or an initializer of the model, or give its value "
                f"when the model is read (--constant {name}=…)"
            )
        return found

    def numbers(self, position: int, what: str) -> list[int]:
        """A static list of whole numbers."""
        return [int(number) for number in self.value(position, what).flatten().tolist()]

    def write(self, position: int, value: torch.Tensor) -> bool:
        """Give the variable behind an input a new value, from the end of this run on. False: it is not a variable."""
        return self.variables.write(self.inputs[position], value)

    def check_size(self, sizes: Sequence[int]) -> None:
        """Refuse a result that no machine could hold: a few bytes of a file can ask for any shape."""
        if math.prod(sizes) > LARGEST_RESULT or any(size < 0 for size in sizes):
            self.fail(f"would have the shape {list(sizes)}, which no IPU can hold")

    def check_steps(self, count: int) -> None:
        """Refuse what would be written out step by step without end."""
        if count > LONGEST_WRITTEN_OUT:
            self.fail(f"has {count} steps, more than {LONGEST_WRITTEN_OUT}")

    def fail(self, problem: str) -> NoReturn:
        """Refuse the node."""
        raise TranslationError(f"{self.file or 'The graph'}: {self.node.title} {problem}.{self.node.quoted}")
