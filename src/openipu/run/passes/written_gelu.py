"""GELU that a model writes out with a tanh, as one operator.

In: a draft of an inference program. Out: the same draft, in which `x / 2 * (1 + tanh(c * (x + 0.044715 * x ** 3)))` is
PyTorch's `gelu` of the same formula: one way through memory instead of eight, or none behind a packed product.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.draft import Draft

aten = torch.ops.aten

_INNER, _CUBIC = math.sqrt(2 / math.pi), 0.044715
_SCALED = (aten.mul.Tensor, aten.mul.Scalar)
_SHIFTED = (aten.add.Tensor, aten.add.Scalar)


def use_gelu(draft: Draft) -> None:
    """Put the operator in the place of what is written out, where nobody reads anything between."""
    for node in draft.graph.find_nodes(op="call_function", target=aten.tanh.default):
        found = read_gelu(node)
        if found is None:
            continue
        source, last, between = found
        if any(len(value.users) != 1 for value in between):
            continue
        with draft.graph.inserting_before(last):
            result = draft.graph.call_function(aten.gelu.default, (source,), {"approximate": "tanh"})
        result.meta = dict(last.meta)
        last.replace_all_uses_with(result)
        unread = [last]
        while unread:
            value = unread.pop()
            if value is not source and not value._erased and not value.users:
                sources = value.all_input_nodes
                draft.graph.erase_node(value)
                unread += sources


def read_gelu(tanh: fx.Node) -> tuple[fx.Node, fx.Node, tuple[fx.Node, ...]] | None:
    """What the activation is applied to, its result, and the values between; others may read these."""
    scaled = tanh.args[0]
    total = _read_number(scaled, _SCALED, _INNER)
    if total is None or total.target is not aten.add.Tensor or total.kwargs or len(total.args) != 2:
        return None
    for source, cubic in (total.args, total.args[::-1]):
        cube = _read_number(cubic, _SCALED, _CUBIC)
        if cube is not None and cube.target is aten.pow.Tensor_Scalar and cube.args == (source, 3):
            break
    else:
        return None
    if not isinstance(source, fx.Node) or source.meta["val"].dtype is not torch.float32:
        return None
    for shifted in tanh.users:
        if _read_number(shifted, _SHIFTED, 1.0) is not tanh:
            continue
        for last in shifted.users:
            (half,) = [value for value in last.args if value is not shifted][:1] or [None]
            if last.target is aten.mul.Tensor and not last.kwargs and _read_number(half, _SCALED, 0.5) is source:
                between = (cube, cubic, total, scaled, tanh, shifted, half)
                return source, last, tuple(node for node in between if isinstance(node, fx.Node))
    return None


def _read_number(node: Any, targets: tuple[Any, ...], number: float) -> fx.Node | None:
    """The operand that such an operator joins with this number."""
    if not isinstance(node, fx.Node) or node.target not in targets or node.kwargs or len(node.args) != 2:
        return None
    operand, given = node.args
    if not isinstance(operand, fx.Node) or not isinstance(given, int | float):
        return None
    return operand if math.isclose(given, number, rel_tol=1e-6) else None
