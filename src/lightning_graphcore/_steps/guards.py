"""What a compiled step took for granted, and whether it still holds.

In: numbers among the arguments of a step, and attributes of the module that the step reads, while it is captured.
Out: `Guards`. A number that decides a branch leaves the outcome of the comparison behind; an attribute leaves its
value. Before each run the guards are asked again, and where one fails the step is captured anew.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

PRIMITIVES = (bool, int, float, str, type(None))
# Of Lightning itself: they change from step to step, and no graph depends on them.
_OWN_NAMES = frozenset({"_current_fx_name", "_jit_is_scripting", "_log_hyperparams", "_metric_attributes", "training"})
_SKIPPED_PREFIXES = ("__", "_abc_")

Numbers = Sequence[Any]
Compute = Callable[[Numbers], Any]


@dataclass(frozen=True, eq=False)
class Check:
    """One thing that was so when the step was captured."""

    subject: str
    expected: Any
    read: Callable[[Numbers], Any]

    def holds(self, numbers: Numbers) -> bool:
        try:
            found = self.read(numbers)
            return type(found) is type(self.expected) and bool(found == self.expected)
        except Exception:  # an attribute that is gone, an expression that no longer applies
            return False


@dataclass
class Guards:
    """All checks of one captured step."""

    checks: dict[Any, Check] = field(default_factory=dict)
    tensor_numbers: set[int] = field(default_factory=set)  # numbers that must become inputs of the graph
    host_reads: set[str] = field(default_factory=set)  # objects of the host that the step asked

    def add(self, key: Any, check: Check) -> None:
        self.checks.setdefault(key, check)

    def find_broken(self, numbers: Numbers) -> Check | None:
        return next((check for check in self.checks.values() if not check.holds(numbers)), None)


class GuardedNumber:
    """A number among a step's arguments. Arithmetic is followed, comparisons are guarded, tensors get it as an input.

    It is no `int`: PyTorch would take its value for a constant, silently.
    """

    def __init__(
        self,
        guards: Guards,
        name: str,
        value: Any,
        compute: Compute,
        tensor: torch.Tensor | None,
        sources: frozenset[int],
    ) -> None:
        """`sources` are the positions of the arguments that the number comes from."""
        self._guards, self._name, self._value, self._compute = guards, name, value, compute
        self._tensor, self._sources = tensor, sources

    def decide(self) -> Any:
        """The value, which the captured step relies on from here."""
        key = (self._name, repr(self._value))
        self._guards.add(key, Check(self._name, self._value, self._compute))
        return self._value

    def as_tensor(self) -> torch.Tensor:
        if self._tensor is None:
            self._guards.tensor_numbers |= self._sources
            raise NumberAsTensorError(self._name)
        return self._tensor

    def compute(self, numbers: Numbers) -> Any:
        return self._compute(numbers)

    def _apply(self, symbol: str, function: Callable[..., Any], other: Any, reverse: bool) -> Any:
        if isinstance(other, torch.Tensor):
            tensor = self.as_tensor()
            return function(other, tensor) if reverse else function(tensor, other)
        if not isinstance(other, GuardedNumber | int | float):
            return NotImplemented
        other_value = other._value if isinstance(other, GuardedNumber) else other
        other_name = other._name if isinstance(other, GuardedNumber) else repr(other)
        name = f"({other_name} {symbol} {self._name})" if reverse else f"({self._name} {symbol} {other_name})"
        mine = self._compute

        def compute(numbers: Numbers) -> Any:
            theirs = other._compute(numbers) if isinstance(other, GuardedNumber) else other
            return function(theirs, mine(numbers)) if reverse else function(mine(numbers), theirs)

        value = function(other_value, self._value) if reverse else function(self._value, other_value)
        their_tensor = other._tensor if isinstance(other, GuardedNumber) else other
        sources = self._sources | (other._sources if isinstance(other, GuardedNumber) else frozenset())
        combined = None
        if self._tensor is not None and their_tensor is not None:
            combined = function(their_tensor, self._tensor) if reverse else function(self._tensor, their_tensor)
        return GuardedNumber(self._guards, name, value, compute, combined, sources)

    def __bool__(self) -> bool:
        key = (self._name, "bool", bool(self._value))
        compute = self._compute
        self._guards.add(key, Check(self._name, bool(self._value), lambda numbers: bool(compute(numbers))))
        return bool(self._value)

    def __index__(self) -> int:
        return operator.index(self.decide())

    def __int__(self) -> int:
        return int(self.decide())

    def __float__(self) -> float:
        return float(self.decide())

    def __hash__(self) -> int:
        return hash(self.decide())

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.decide(), digits)

    def __neg__(self) -> Any:
        return self._apply("*", operator.mul, -1, False)

    def __repr__(self) -> str:
        return repr(self._value)

    def __format__(self, spec: str) -> str:
        return format(self._value, spec)


class NumberAsTensorError(Exception):
    """A number meets a tensor: the step is captured again, with the number as an input."""


_BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
}  # fmt: skip
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def _define_operators() -> None:
    def define(name: str, symbol: str, reverse: bool) -> None:
        function = getattr(operator, name)
        method = f"__{'r' if reverse else ''}{name}__"
        setattr(GuardedNumber, method, lambda self, other: self._apply(symbol, function, other, reverse))

    for name, symbol in _BINARY.items():
        define(name, symbol, False)
        define(name, symbol, True)
    for name, symbol in _COMPARISONS.items():
        define(name, symbol, False)


_define_operators()


class _Watched:
    """Mixed into the class of a module while its step is captured: remembers what is read of it."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        watch = _watches.get(id(self))
        return value if watch is None else watch(name, value)


_watches: dict[int, Callable[[str, Any], Any]] = {}
_HOST_OBJECTS = frozenset({"trainer", "optimizers", "lr_schedulers", "logger", "loggers"})


class _WatchedTrainer:
    """The trainer as a captured step sees it: its plain attributes are guarded as the module's are."""

    def __init__(self, trainer: Any, guards: Guards, place: str) -> None:
        self._trainer, self._guards, self._place = trainer, guards, place

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # for isinstance
        return type(self._trainer)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._trainer, name)
        frozen, trainer, place = _freeze(value), self._trainer, f"{self._place}.{name}"
        if frozen is not None and not name.startswith("_"):
            self._guards.add(place, Check(place, frozen, lambda numbers: _freeze(getattr(trainer, name))))
        return value


@contextmanager
def watch_attributes(root: nn.Module, guards: Guards) -> Iterator[None]:
    """Guard the plain attributes of a module, and of the user's modules in it, that are read inside the block."""
    watched: list[tuple[nn.Module, type]] = []
    for path, module in root.named_modules():
        plain = type(module)
        if plain.__module__.startswith(("torch.", "torchmetrics.")):
            continue
        try:
            module.__class__ = type(plain.__name__, (_Watched, plain), {"__module__": plain.__module__})
        except TypeError:  # a class that cannot be derived from, or has slots
            continue
        watched.append((module, plain))
        _watches[id(module)] = _make_watch(path, module, guards)
    try:
        yield
    finally:
        for module, plain in watched:
            _watches.pop(id(module), None)
            module.__class__ = plain


def _make_watch(path: str, module: nn.Module, guards: Guards) -> Callable[[str, Any], Any]:
    place = f"self.{path}." if path else "self."

    def watch(name: str, value: Any) -> Any:
        if name in _HOST_OBJECTS:
            guards.host_reads.add(place + name)
        if name == "trainer" and value is not None:
            return _WatchedTrainer(value, guards, place + name)
        if name in _OWN_NAMES or name.startswith(_SKIPPED_PREFIXES):
            return value
        frozen = _freeze(value)
        if frozen is not None:
            guards.add(place + name, Check(place + name, frozen, lambda numbers: _freeze(getattr(module, name))))
        return value

    return watch


def _freeze(value: Any) -> tuple[Any, ...] | None:
    """A value to compare with later; None if it is nothing that a step could take a constant from."""
    if isinstance(value, PRIMITIVES):
        return (type(value).__name__, value)
    if isinstance(value, Mapping) and not isinstance(value, nn.Module):
        items = [(key, item) for key, item in value.items() if isinstance(item, PRIMITIVES)]
        return ("mapping", tuple(items)) if items else None
    if type(value) in (list, tuple) and value and all(isinstance(item, PRIMITIVES) for item in value):
        return ("sequence", tuple(value))
    return None
