"""Functions of torch that are written in Python, made to run with capture's mode still on.

In: a function that torch handed to the mode, as `F.some_loss` does in its first lines. Out: a twin of it that does not
ask again whether a mode wants it. torch takes a mode off while it handles a call, so the constants and factories inside
such a function would land on the host; the twin's body runs under the mode like the user's own code.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

_QUESTIONS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_twins: dict[FunctionType, FunctionType | None] = {}


def find_open_twin(func: Any) -> FunctionType | None:
    """The twin of a function of torch's own, or None where there is nothing to open."""
    if not isinstance(func, FunctionType):
        return None
    if func not in _twins:
        _twins[func] = _make_twin(func)
    return _twins[func]


def _make_twin(func: FunctionType) -> FunctionType | None:
    names = func.__globals__
    asked = [name for name in _QUESTIONS if name in func.__code__.co_names and name in names]
    if not asked or not str(names.get("__name__", "")).startswith("torch"):
        return None
    answered = {**names, **dict.fromkeys(asked, _answer_no)}
    twin = FunctionType(func.__code__, answered, func.__name__, func.__defaults__, func.__closure__)
    twin.__kwdefaults__ = func.__kwdefaults__
    return twin


def _answer_no(*tensors: Any) -> bool:
    return False
