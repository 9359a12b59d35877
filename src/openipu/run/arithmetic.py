"""Floating-point exceptions: stop where arithmetic leaves the ordinary numbers.

In: a draft. Out: the same draft, with operators that look at their operands and results. An operator stops the program
when it makes an infinity of finite operands, a NaN of operands without one, or when it compares a NaN. Values that
arrive as infinite, such as masks, pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from openipu.errors import ArithmeticFaultError
from openipu.graph import note_of
from openipu.run.draft import Draft
from openipu.run.fast_calls import find_call

_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum", "sort", "topk", "argmax", "argmin"})


def check_arithmetic(draft: Draft) -> None:
    """Make every operator of a draft check what it computes."""
    for node in draft.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            name = node.target.overloadpacket.__name__
            line = note_of(node).line
            node.target = _watch(find_call(node.target), name, f" at {line}" if line else "")


def _watch(call: Callable[..., Any], name: str, where: str) -> Callable[..., Any]:
    compares = name in _COMPARISONS

    def checked(*args: Any, **kwargs: Any) -> Any:
        operands = list(_list_numbers((*args, *kwargs.values())))
        had_nan = any(_holds_nan(value) for value in operands)
        had_infinity = any(_holds_infinity(value) for value in operands)
        if compares and had_nan:
            raise ArithmeticFaultError(f"Floating-point exception: {name} compares a NaN{where}. {_ADVICE}")
        result = call(*args, **kwargs)
        if operands:
            for value in _list_numbers([result]):
                if not had_nan and _holds_nan(value):
                    raise ArithmeticFaultError(f"Floating-point exception: {name} is invalid (NaN){where}. {_ADVICE}")
                if not had_nan and not had_infinity and _holds_infinity(value):
                    raise ArithmeticFaultError(
                        f"Floating-point exception: {name} overflows or divides by zero{where}. {_ADVICE}"
                    )
        return result

    return checked


_ADVICE = "Keep its operands in range, or disable floating-point exceptions to go on with infinities and NaNs."


def _list_numbers(values: Iterable[Any]) -> Iterable[torch.Tensor | float]:
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.is_floating_point():
                yield value
        elif isinstance(value, float):
            yield value
        elif isinstance(value, list | tuple):
            yield from _list_numbers(value)


def _holds_nan(value: torch.Tensor | float) -> bool:
    return math.isnan(value) if isinstance(value, float) else bool(torch.isnan(value).any())


def _holds_infinity(value: torch.Tensor | float) -> bool:
    return math.isinf(value) if isinstance(value, float) else bool(torch.isinf(value).any())
