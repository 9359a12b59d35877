"""One op of Paddle on its way to torch: tensors by slot instead of by position.

In: a `Site` whose node `make_node` made. Out: what a rule asks for, and a decorator that makes rules of functions
which return a tensor (for the op's main result) or tensors by slot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import torch

from openipu.translate.foreign import ForeignNode, Place
from openipu.translate.paddle.custom import CUSTOM, DOMAIN, CustomName, list_own_attributes
from openipu.translate.paddle.program import DTYPES, PaddleOp
from openipu.translate.rules import Results, Rule
from openipu.translate.site import Site

_INPUTS, _OUTPUTS, _STOPPED = "#inputs", "#outputs", "#stopped"
_MAIN_SLOTS = ("Out", "Output", "Y", "Loss")

Slots = Mapping[str, tuple[int, int]]
Made = torch.Tensor | Sequence[torch.Tensor] | None
Answer = torch.Tensor | Mapping[str, Made]
Translate = Callable[["Call"], Answer]
T = TypeVar("T", bound=Translate)


def make_node(op: PaddleOp, stopped: frozenset[str] = frozenset()) -> ForeignNode:
    """An op in the interpreter's form. `stopped`: results through which no gradient flows."""
    attributes = dict(op.attributes)
    attributes[_INPUTS] = _find_extents(op.inputs)
    attributes[_OUTPUTS] = _find_extents(op.outputs)
    attributes[_STOPPED] = frozenset(name for name in op.list_outputs() if name in stopped)
    outputs = op.list_outputs()
    ipu, stage = op.attributes.get("ipu_index"), op.attributes.get("ipu_stage")
    place = Place(
        ipu if isinstance(ipu, int) and ipu >= 0 else None, stage if isinstance(stage, int) and stage >= 0 else None
    )
    main = next((names[0] for slot in _MAIN_SLOTS if (names := op.outputs.get(slot))), None)
    name = main or (outputs[0] if outputs else f"{op.type}_{op.number}")
    scope = str(op.attributes.get("op_namescope", "")).strip("/").replace("/", ".")
    scope = f"{scope}.{op.type}" if scope else name
    tensors = tuple(op.list_inputs()), tuple(outputs)
    custom = op.attributes.get(CUSTOM)
    if isinstance(custom, CustomName):
        own, called = list_own_attributes(op.attributes), (custom.table_domain, custom.version)
        return ForeignNode(custom.op, *tensors, own, *called, name, op.number, scope, place, line=op.line)
    return ForeignNode(op.type, *tensors, attributes, DOMAIN, 1, name, op.number, scope, place, line=op.line)


def _find_extents(slots: Mapping[str, tuple[str, ...]]) -> Slots:
    found, position = {}, 0
    for slot, names in slots.items():
        found[slot] = (position, position + len(names))
        position += len(names)
    return found


class Call:
    """What a rule may ask of one op."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._inputs: Slots = site.get(_INPUTS)
        self._outputs: Slots = site.get(_OUTPUTS)

    @property
    def op(self) -> str:
        return self.site.node.op

    def has(self, slot: str) -> bool:
        return slot in self._inputs

    def tensors(self, slot: str) -> list[torch.Tensor]:
        """All tensors of a slot."""
        start, stop = self._inputs.get(slot, (0, 0))
        return [self.site.input(place) for place in range(start, stop)]

    def tensor(self, slot: str) -> torch.Tensor:
        """The tensor of a slot that must be filled."""
        if slot not in self._inputs:
            self.fail(f"needs a tensor in its slot {slot}")
        return self.site.input(self._inputs[slot][0])

    def maybe(self, slot: str) -> torch.Tensor | None:
        return self.tensor(slot) if slot in self._inputs else None

    def get(self, name: str, default: Any = None) -> Any:
        return self.site.node.attributes.get(name, default)

    def number(self, name: str, default: float = 0.0) -> float:
        return float(self.get(name, default))

    def whole(self, name: str, default: int = 0) -> int:
        return int(self.get(name, default))

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.get(name, default))

    def counts(self, slot: str) -> int:
        """How many results a slot has."""
        start, stop = self._outputs.get(slot, (0, 0))
        return stop - start

    def wants(self, slot: str) -> bool:
        return slot in self._outputs

    def numbers(self, attribute: str, *slots: str, default: Sequence[int] = ()) -> list[int]:
        """Whole numbers that decide the graph: from the first of some slots that is filled, else from an attribute."""
        for slot in slots:
            if slot in self._inputs:
                start, stop = self._inputs[slot]
                return [number for place in range(start, stop) for number in self.site.numbers(place, slot)]
        found = self.get(attribute, default)
        return [int(number) for number in (found if isinstance(found, list | tuple) else [found])]

    def scalar(self, attribute: str, slot: str, default: float = 0.0) -> float:
        """A number that decides the graph, from a slot or from an attribute."""
        if slot in self._inputs:
            return float(self.site.value(self._inputs[slot][0], slot).reshape(-1)[0])
        return float(self.get(attribute, default))

    def dtype(self, name: str = "dtype", default: torch.dtype = torch.float32) -> torch.dtype:
        """A number format by Paddle's number for it."""
        number = self.get(name)
        if number is None or number == -1:
            return default
        found = DTYPES.get(int(number))
        if found is None:
            self.fail(f"has the unknown data type {number} as its {name}")
        return found

    def fail(self, problem: str) -> NoReturn:
        self.site.fail(problem)

    def arrange(self, answer: Answer) -> list[torch.Tensor | None]:
        """Results in the order of the node's outputs; gradients end where the program says so."""
        if isinstance(answer, torch.Tensor):
            main = next((slot for slot in _MAIN_SLOTS if slot in self._outputs), next(iter(self._outputs), ""))
            answer = {main: answer}
        arranged: list[torch.Tensor | None] = [None] * len(self.site.node.outputs)
        for slot, (start, stop) in self._outputs.items():
            made = answer.get(slot)
            parts = [made] if made is None or isinstance(made, torch.Tensor) else list(made)
            arranged[start : start + len(parts)] = parts[: stop - start]
        stopped = self.get(_STOPPED)
        if not stopped:
            return arranged
        names = self.site.node.outputs
        return [
            value.detach() if value is not None and name in stopped and value.requires_grad else value
            for name, value in zip(names, arranged, strict=True)
        ]


def translates(*ops: str, folds: bool = True) -> Callable[[T], T]:
    """Mark a function as what one or more ops compute."""

    def mark(function: T) -> T:
        found: list[Rule] = getattr(function, "_rules", [])
        function._rules = [*found, *make_rules(dict.fromkeys(ops, function), folds=folds)]  # type: ignore[attr-defined]
        return function

    return mark


def make_rules(functions: Mapping[str, Translate], *, folds: bool = True) -> list[Rule]:
    """Rules of functions by op."""
    return [Rule(op, _adapt(function), domain=DOMAIN, folds=folds) for op, function in functions.items()]


def _adapt(function: Translate) -> Callable[[Site], Results]:
    def handle(site: Site) -> Results:
        call = Call(site)
        return call.arrange(function(call))

    return handle
