"""Floating-point exceptions: stop where arithmetic leaves the ordinary numbers.

In: a draft, or the memory that an update writes to. Out: the same draft, with operators that look at their operands and
results; or a watch that looks at memory before and after an update. An operator stops the program when it makes an
infinity of finite operands, a NaN of operands without one, or when it compares a NaN or makes a whole number of it.
Values that arrive as infinite, such as masks, pass. A half result stops it where it is rounded, and the message names
the operator that computed it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import fx

from openipu.errors import ArithmeticFaultError
from openipu.graph import FunctionCall, GraphCall, note_of
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.fast_calls import find_call

_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum", "sort", "topk", "argmax", "argmin"})
_CONVERSIONS = frozenset({"_to_copy", "round_half"})
_ADVICE = "Keep its operands in range, or disable floating-point exceptions to go on with infinities and NaNs."


def check_arithmetic(draft: Draft) -> None:
    """Make every operator of a draft check what it computes; a loop or a branch checks what it returns."""
    watched = {node: _name_operator(node) for node in draft.graph.nodes if _computes(node)}
    rounding = {node for node in watched if _read_name(node) == "round_half"}
    for node, name in watched.items():
        line = note_of(node).line
        place = f" at {line}" if line else ""
        node.target = _watch(find_call(node.target), name, place, node in rounding, _writes(node))


def _computes(node: fx.Node) -> bool:
    if isinstance(node.target, GraphCall):
        return not isinstance(node.target, FunctionCall)  # the host's arithmetic is its own affair
    return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)


def _writes(node: fx.Node) -> bool:
    """Does it write to its operands, so that they must be looked at before?"""
    return isinstance(node.target, GraphCall) or bool(node.target._schema.is_mutable)  # type: ignore[union-attr]


def _name_operator(node: fx.Node) -> str:
    """The operator's name; for a conversion that was put behind another operator, the name of that one."""
    name = _read_name(node)
    source = node.args[0] if node.args else None
    if name in _CONVERSIONS and isinstance(source, fx.Node) and _computes(source):
        behind = note_of(source) is note_of(node) and _read_name(source) not in _CONVERSIONS
        return _read_name(source) if behind else name
    return name


def _read_name(node: fx.Node) -> str:
    target: Any = node.target
    return str(target.overloadpacket.__name__ if isinstance(target, torch._ops.OpOverload) else target.__name__)


def _watch(call: Callable[..., Any], name: str, where: str, rounds: bool, writes: bool) -> Callable[..., Any]:
    compares = name in _COMPARISONS

    def checked(*args: Any, **kwargs: Any) -> Any:
        operands = list(_list_numbers((*args, *kwargs.values())))
        had_nan = (compares or writes) and any(map(_holds_nan, operands))
        had_infinity = writes and any(map(_holds_infinity, operands))
        if compares and had_nan:
            raise ArithmeticFaultError(f"Floating-point exception: {name} compares a NaN{where}. {_ADVICE}")
        result = call(*args, **kwargs)
        whole = name == "_to_copy" and _is_whole(result)
        if not operands or not (whole or any(not _is_finite(value) for value in _list_numbers([result]))):
            return result  # nearly always, and operands need not be looked at
        if not writes:
            had_nan, had_infinity = any(map(_holds_nan, operands)), any(map(_holds_infinity, operands))
        if had_nan and whole:
            raise ArithmeticFaultError(
                f"Floating-point exception: {name} makes a whole number of a NaN{where}. {_ADVICE}"
            )
        for value in _list_numbers([result]):
            # A rounding makes a NaN of what is too large if it is told so.
            if not had_nan and not rounds and _holds_nan(value):
                raise ArithmeticFaultError(f"Floating-point exception: {name} is invalid (NaN){where}. {_ADVICE}")
            overflows = _holds_infinity(value) or (rounds and _holds_nan(value))
            if not had_nan and not had_infinity and overflows:
                raise ArithmeticFaultError(
                    f"Floating-point exception: {name} overflows or divides by zero{where}. {_ADVICE}"
                )
        return result

    return checked


class UpdateWatch:
    """Looks at weights and optimizer state around an update, which is not a single operator."""

    def __init__(self, parameters: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]) -> None:
        """`state` by `StateSlot.key`: "exp_avg:layer.weight". Both are read anew each time, as they may move."""
        self._parameters, self._state = parameters, state
        self._odd: set[str] = set()

    def begin(self) -> None:
        """Before the update: what is infinite or NaN already is nobody's fault."""
        self._odd = {name for name, tensor in self._list_tensors() if not _is_finite(tensor)}

    def finish(self) -> None:
        """After the update: stop if it made an infinity or a NaN."""
        for name, tensor in self._list_tensors():
            if name not in self._odd and not _is_finite(tensor):
                problem = "is invalid (NaN)" if _holds_nan(tensor) else "overflows or divides by zero"
                raise ArithmeticFaultError(
                    f"Floating-point exception: the update of {name} {problem}. Lower the learning rate or the loss "
                    "scale, or disable floating-point exceptions to go on with infinities and NaNs."
                )

    def _list_tensors(self) -> Iterable[tuple[str, torch.Tensor]]:
        for name, tensor in self._parameters.items():
            if tensor.is_floating_point():
                yield f"parameter {name}", tensor
        for key, tensor in self._state.items():
            if tensor.is_floating_point():
                state, _, parameter = key.partition(":")
                yield f"{state} of parameter {parameter}", tensor


def _list_numbers(values: Iterable[Any]) -> Iterable[torch.Tensor | float]:
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.is_floating_point():
                yield value
        elif isinstance(value, float):
            yield value
        elif isinstance(value, list | tuple):
            yield from _list_numbers(value)


def _is_whole(value: Any) -> bool:
    plain = isinstance(value, torch.Tensor) and value.dtype is not torch.bool
    return plain and not value.is_floating_point() and not value.is_complex()


def _is_finite(value: torch.Tensor | float) -> bool:
    """A sum is a number only if all that it adds are, and takes one pass; where it is none, each is looked at."""
    if isinstance(value, float):
        return math.isfinite(value)
    total = value.sum(dtype=torch.float32 if value.dtype.itemsize < 4 else None)
    return math.isfinite(total.item()) or bool(torch.isfinite(value).all())


def _holds_nan(value: torch.Tensor | float) -> bool:
    return math.isnan(value) if isinstance(value, float) else bool(torch.isnan(value).any())


def _holds_infinity(value: torch.Tensor | float) -> bool:
    return math.isinf(value) if isinstance(value, float) else bool(torch.isinf(value).any())
