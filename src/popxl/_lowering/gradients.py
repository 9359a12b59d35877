"""The backward of one op as a function over torch tensors.

In: the op's function, its rule, which gradients and values there are, which gradients are wanted. Out: a function of
gradients, inputs and outputs, in this order. Without a formula of its own an op is differentiated by autograd; what its
forward computes again for that is left out of the program where backward does not read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from popxl._ir.operation import Function, Rule

Spec = tuple[tuple[int, ...], torch.dtype]


def pull_back(
    function: Function,
    rule: Rule,
    input_specs: Sequence[Spec],
    output_specs: Sequence[Spec],
    seeds: Sequence[int],
    inputs: Sequence[int],
    outputs: Sequence[int],
    wanted: Sequence[int],
) -> Callable[..., list[torch.Tensor]]:
    """The gradients of the inputs `wanted`, from gradients of the outputs `seeds`, values of `inputs` and `outputs`."""

    def run(*values: torch.Tensor) -> list[torch.Tensor]:
        given = list(values)
        gradients = _place(given[: len(seeds)], seeds, len(output_specs))
        read = _place(given[len(seeds) : len(seeds) + len(inputs)], inputs, len(input_specs))
        made = _place(given[len(seeds) + len(inputs) :], outputs, len(output_specs))
        if rule.formula is not None:
            full = [
                torch.zeros(spec[0], dtype=spec[1]) if gradient is None else gradient
                for gradient, spec in zip(gradients, output_specs, strict=True)
            ]
            found = rule.formula(full, read, made)
            chosen = [found[place] for place in wanted]
        else:
            chosen = list(_differentiate(function, gradients, read, input_specs, wanted))
        return [
            torch.zeros(input_specs[place][0], dtype=input_specs[place][1]) if gradient is None else gradient
            for place, gradient in zip(wanted, chosen, strict=True)
        ]

    return run


def _place(values: Sequence[Any], places: Sequence[int], count: int) -> list[Any]:
    found: list[Any] = [None] * count
    for place, value in zip(places, values, strict=True):
        found[place] = value
    return found


def _differentiate(
    function: Function,
    gradients: Sequence[torch.Tensor | None],
    read: Sequence[torch.Tensor | None],
    specs: Sequence[Spec],
    wanted: Sequence[int],
) -> Sequence[torch.Tensor | None]:
    with torch.enable_grad():
        leaves = []
        for place, value in enumerate(read):
            shape, held = specs[place]
            leaf = torch.zeros(shape, dtype=held) if value is None else value.detach()
            leaves.append(leaf.requires_grad_() if place in wanted else leaf)
        returned = function(*leaves)
    results = list(returned) if isinstance(returned, list | tuple) else [returned]
    pairs = [
        (result, gradient)
        for result, gradient in zip(results, gradients, strict=True)
        if gradient is not None and result.requires_grad
    ]
    if not pairs:
        return [None] * len(wanted)
    return torch.autograd.grad(
        [result for result, _ in pairs],
        [leaves[place] for place in wanted],
        [gradient for _, gradient in pairs],
        allow_unused=True,
    )
