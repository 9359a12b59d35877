"""Gradients that are limited before an update: by their norm, over all or over groups of them, or one by one.

In: gradients by parameter. Out: gradients by parameter; the recorder writes down how.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import torch

from openipu.errors import OptionError
from openipu.graph import ClipGroup

Gradients = Mapping[str, torch.Tensor]
EnterModule = Callable[[str], None]


def clip_norm(gradients: Gradients, max_norm: float, enter_module: EnterModule) -> dict[str, torch.Tensor]:
    """As `torch.nn.utils.clip_grad_norm_`, over all gradients of the program."""
    total = _measure(gradients, gradients, enter_module)
    factor = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    return _scale(gradients, gradients, factor, enter_module)


def clip_groups(
    gradients: Gradients, groups: Sequence[ClipGroup], enter_module: EnterModule
) -> dict[str, torch.Tensor]:
    """Gradients of each group by the norm of the group: times max_norm / max(max_norm, norm)."""
    clipped = dict(gradients)
    for group in groups:
        names = group.parameters if group.parameters is not None else tuple(gradients)
        missing = [name for name in names if name not in gradients]
        if missing:
            raise OptionError(
                f"The norm of {missing[0]} is to be clipped, but it has no gradient here: leave it out of the group, "
                "or check its name."
            )
        if names:
            total = _measure(clipped, names, enter_module)
            factor = group.max_norm / torch.clamp(total, min=group.max_norm)
            clipped = _scale(clipped, names, factor, enter_module)
    return clipped


def limit_values(gradients: Gradients, size: float, enter_module: EnterModule) -> dict[str, torch.Tensor]:
    """As `torch.nn.utils.clip_grad_value_`."""
    limited = {}
    for name, gradient in gradients.items():
        enter_module(name)
        limited[name] = torch.clamp(gradient, -size, size)
    return limited


def _measure(gradients: Gradients, names: Collection[str], enter_module: EnterModule) -> torch.Tensor:
    norms = []
    for name in names:
        enter_module(name)
        norms.append(torch.linalg.vector_norm(gradients[name].to(torch.float32)))
    total: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return total


def _scale(
    gradients: Gradients, names: Collection[str], factor: torch.Tensor, enter_module: EnterModule
) -> dict[str, torch.Tensor]:
    scaled = dict(gradients)
    for name in names:
        enter_module(name)
        scaled[name] = gradients[name] * factor.to(gradients[name].dtype)
    return scaled
