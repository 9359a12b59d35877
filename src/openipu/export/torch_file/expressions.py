"""Values and calls of a graph as Python expressions.

In: a node, and the expressions of what it reads. Out: text. Operators that Python has signs for are written with them;
everything else is the very ATen operator that was captured, so the file computes the same, whatever torch adds later.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from openipu.errors import ExportError
from openipu.export.places import describe_place
from openipu.graph import RECURRENT_OPS

aten = torch.ops.aten

Names = Mapping[fx.Node, str]

_SIGNS: dict[Any, str] = {
    aten.add.Tensor: "+",
    aten.sub.Tensor: "-",
    aten.mul.Tensor: "*",
    aten.div.Tensor: "/",
    aten.mm.default: "@",
    aten.bmm.default: "@",
    aten.eq.Tensor: "==",
    aten.ne.Tensor: "!=",
    aten.lt.Tensor: "<",
    aten.le.Tensor: "<=",
    aten.gt.Tensor: ">",
    aten.ge.Tensor: ">=",
}
_USELESS = {"pin_memory": (False, None), "layout": (None, torch.strided), "device": (None,), "memory_format": (None,)}
OWN_OPS: dict[Any, str] = {op: name for name, op in RECURRENT_OPS.items()}


def write_call(node: fx.Node, names: Names) -> str:
    """The right-hand side of one node."""
    target: Any = node.target
    args = [write_value(value, names) for value in node.args]
    kwargs = {key: value for key, value in node.kwargs.items() if not _is_useless(key, value)}
    if target is operator.getitem:
        return f"{args[0]}[{args[1]}]"
    if target in _SIGNS and len(args) == 2 and not kwargs:
        return f"{args[0]} {_SIGNS[target]} {args[1]}"
    words = ", ".join([*args, *(f"{key}={write_value(value, names)}" for key, value in kwargs.items())])
    if target in OWN_OPS:
        return f"{OWN_OPS[target]}({words})"
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in ("aten", "prims"):
        raise ExportError(
            f"{target} has no counterpart in plain PyTorch{describe_place(node)}. Leave it out of the model, or write "
            "what it computes with operators of torch."
        )
    name = f"{target.namespace}.{target._opname}.{target._overloadname}"
    return f"{name}({words})"


def write_value(value: Any, names: Names) -> str:
    """One argument."""
    if isinstance(value, fx.Node):
        return names[value]
    if isinstance(value, list | tuple):
        inner = ", ".join(write_value(item, names) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, bool | int | str) or value is None:
        return repr(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if isinstance(value, torch.device):
        return '"cpu"'
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value)
    raise ExportError(f"An argument of type {type(value).__name__} cannot be written as Python: {value!r}.")


def _write_slice(value: slice) -> str:
    return f"slice({value.start!r}, {value.stop!r}, {value.step!r})"


_WRITERS: dict[type, Callable[[Any], str]] = {
    torch.dtype: str,
    torch.layout: str,
    torch.memory_format: str,
    complex: repr,
    slice: _write_slice,
}


def _is_useless(key: str, value: Any) -> bool:
    return key in _USELESS and (value in _USELESS[key] or isinstance(value, torch.device))
