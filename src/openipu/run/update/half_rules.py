"""Update rules of half-precision weights that compute in float32.

In: the graph of an element-wise rule that converts weight and gradient to float32 first, and the new weight to half
last. Out: the float32 rule in between, by its values; and, for a function that computes it, one with the conversions
around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

Values = Mapping[str, fx.Node]


def strip_conversions(targets: Values, results: Values) -> tuple[dict[str, fx.Node], dict[str, fx.Node]]:
    """Targets and results by role, in float32 where a conversion is all that is done with the half-precision ones."""
    wide = {role: _find_widened(node) for role, node in targets.items()}
    new = {role: _find_unrounded(node) if wide[role] is not targets[role] else node for role, node in results.items()}
    return wide, new


def convert_around(update: Callable[..., Any], targets: Values, wide: Values) -> Callable[..., Any]:
    """A function of half-precision tensors from one of float32 tensors. `targets` are its first arguments, in order."""
    converted = [index for index, role in enumerate(targets) if wide[role] is not targets[role]]
    written = [index for index in converted if list(targets)[index] != "gradient"]
    if not converted:
        return update

    def update_half(*values: Any) -> None:
        changed = list(values)
        for index in converted:
            changed[index] = values[index].float()
        update(*changed)
        for index in written:
            values[index].copy_(changed[index])

    return update_half


def _find_widened(node: fx.Node) -> fx.Node:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype is not torch.float16 or len(node.users) != 1:
        return node
    (user,) = node.users
    return user if user.target is aten._to_copy.default and dict(user.kwargs) == {"dtype": torch.float32} else node


def _find_unrounded(node: fx.Node) -> fx.Node:
    source = node.args[0] if node.target is aten._to_copy.default else None
    return source if isinstance(source, fx.Node) and dict(node.kwargs) == {"dtype": torch.float16} else node
