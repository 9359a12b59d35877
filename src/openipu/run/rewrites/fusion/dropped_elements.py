"""Dropout as TensorFlow writes it, in few passes over memory.

In: a draft with `where(uniform >= rate, x, 0)`, in which the uniform numbers are whole random numbers, scaled. Out: the
same draft, which compares the whole numbers themselves, by the operator that blocks gradients of a rectifier: PyTorch
has vector code for it, and none for a choice between a tensor and a number. Elements that are dropped are 0 whatever
they were, as before, and those that are kept are the same ones.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import Match, Rule, Search, Writer, matched

aten = torch.ops.aten

_NEUTRAL = {aten.mul.Tensor: 1.0, aten.add.Tensor: 0.0}  # by operator, what changes nothing


def make_rules(draft: Draft) -> tuple[Rule, ...]:
    """Choose the kept elements by the whole numbers behind uniform ones."""

    def find(node: fx.Node) -> Match | None:
        condition, kept, dropped = node.args
        if not isinstance(condition, fx.Node) or _read_number(draft, dropped) != 0 or not _is_like(kept, node):
            return None
        found = _read_comparison(draft, condition)
        if found is None or found[0].meta["val"].shape != node.meta["val"].shape:
            return None
        return matched(node, kept=kept, whole=found[0], least=found[1])

    return (Rule("dropout by uniform numbers", Search((aten.where.self,), find), _compare),)


def _compare(match: Match, writer: Writer) -> fx.Node:
    # Whole numbers from `least` on are above this.
    return writer.call(aten.threshold_backward.default, match["kept"], match["whole"], match["least"] - 0.5)


def _is_like(value: Any, node: fx.Node) -> bool:
    """A float32 tensor of a result's shape."""
    if not isinstance(value, fx.Node):
        return False
    own, result = value.meta["val"], node.meta["val"]
    return own.shape == result.shape and own.dtype is result.dtype is torch.float32


def _read_comparison(draft: Draft, node: fx.Node) -> tuple[fx.Node, int] | None:
    """Whole numbers, as float32, and the least one for which the comparison holds."""
    if node.target not in (aten.ge.Tensor, aten.ge.Scalar):
        return None
    rate = _read_number(draft, node.args[1])
    value: Any = node.args[0]
    # What Keras multiplies and adds to bring [0, 1) to [0, 1): uniform numbers are not negative zeros.
    while isinstance(value, fx.Node) and value.target in _NEUTRAL and not value.kwargs:
        if _read_number(draft, value.args[1]) != _NEUTRAL[value.target]:
            break
        value = value.args[0]
    if rate is None or not isinstance(value, fx.Node) or value.target is not aten.mul.Tensor:
        return None
    whole, unit = value.args
    if not isinstance(whole, fx.Node) or not isinstance(unit, float) or not _is_whole(whole):
        return None
    mantissa, _ = math.frexp(unit)
    # A power of two scales exactly, and what is behind the point of a quotient by it is exact as well.
    return (whole, math.ceil(rate / unit)) if mantissa == 0.5 and 0 <= rate <= 1 else None


def _is_whole(node: fx.Node) -> bool:
    """Whole numbers in [0, 2^24), which float32 holds exactly."""
    if node.target is not aten._to_copy.default or node.meta["val"].dtype is not torch.float32:
        return False
    masked = node.args[0]
    if not isinstance(masked, fx.Node) or masked.target is not aten.bitwise_and.Scalar:
        return False
    mask = masked.args[1]
    return isinstance(mask, int) and 0 <= mask < 1 << 24


def _read_number(draft: Draft, value: Any) -> float | None:
    """A number, or what a tensor of one element holds that never changes."""
    if isinstance(value, fx.Node):
        value = draft.bound.get(value.name) if value.op == "placeholder" else None
    if isinstance(value, torch.Tensor):
        value = value.item() if value.numel() == 1 else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
