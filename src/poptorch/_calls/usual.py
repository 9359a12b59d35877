"""The usual call: tensors, in memory and format as at compilation, by position or by name.

In: what a model was compiled with; then the arguments of a call. Out: its leaves, ready for the executable, after one
look at each argument; None where anything is different, and the long way through `binding` and `inputs` finds out what,
converts it or says what is wrong. A small model runs for less long than that way takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from poptorch._calls.binding import BoundInputs
from poptorch._calls.inputs import NARROWED

_PLAIN = (type(None), bool, int, float, str)
_ABSENT = object()


class UsualCall:
    """How the arguments of one compiled model look when nothing has to be done to them."""

    def __init__(self, compiled: BoundInputs, signature: inspect.Signature) -> None:
        self._names = compiled.names
        self._defaults = [_find_default(signature, name) for name in compiled.names]
        self._expected = [
            (value, value.shape, value.dtype) if isinstance(value, torch.Tensor) else (value, None, None)
            for value in compiled.args
        ]

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any] | None:
        """One leaf for each argument, in the order of the compiled ones."""
        values = list(args)
        if len(values) < len(self._names):
            named = 0
            for name, default in zip(self._names[len(values) :], self._defaults[len(values) :], strict=True):
                value = kwargs.get(name, _ABSENT)
                named += value is not _ABSENT
                values.append(default if value is _ABSENT else value)
            if named != len(kwargs):
                return None
        elif kwargs or len(values) > len(self._names):
            return None
        for value, (fixed, shape, dtype) in zip(values, self._expected, strict=True):
            if shape is None:
                if value is not fixed:
                    return None
            elif (
                type(value) is not torch.Tensor
                or value.dtype is not dtype
                or value.shape != shape
                or value.requires_grad
                or not value.is_contiguous()
            ):
                return None
        return values


def find_usual(compiled: BoundInputs, signature: inspect.Signature, input_group_size: int) -> UsualCall | None:
    """None where every call has something to be converted, spread or looked into."""
    if compiled.kwargs or input_group_size > 1:
        return None
    for value in compiled.args:
        if isinstance(value, torch.Tensor):
            if value.dtype in NARROWED:
                return None
        elif type(value) not in _PLAIN:
            return None
    return UsualCall(compiled, signature)


def _find_default(signature: inspect.Signature, name: str) -> Any:
    parameter = signature.parameters.get(name)
    return _ABSENT if parameter is None or parameter.default is parameter.empty else parameter.default
