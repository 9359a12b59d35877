"""Stochastic rounding in the instant tier: drawing its bits and rounding are one call.

In: a graph in which random bits are drawn for one rounding. Out: the same graph with one call for both. It goes to
native code if that has been installed, one pass over memory for any shape; else to the operators, some twenty passes.
Both give the same bits. `native/rounding_kernel.py` compiles it, once for all programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import fx

from openipu.numerics import Overflow
from openipu.run.half.rounding import round_half, round_values
from openipu.run.passes.seeded_random import draw_bits, list_keys, random_bits, spread_keys

Kernel = Callable[[list[torch.Tensor]], Sequence[torch.Tensor]]

_kernels: dict[str, Kernel] = {}  # by what becomes of numbers that are too large
_round_half = round_half._op


class RoundingKernel(torch.nn.Module):
    """What native code computes: float32 rows and a key for each of them, to half rows."""

    def __init__(self, overflow: Overflow) -> None:
        super().__init__()
        self._overflow = overflow

    def forward(self, rows: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return round_values(self._overflow, rows, spread_keys(keys, rows.shape[1]))


def fuse_draws(graph: fx.Graph) -> None:
    """Let one call draw the bits of a rounding and round."""
    for node in list(graph.nodes):
        if node.target is not round_half or not isinstance(node.args[1], fx.Node):
            continue
        values, bits, overflow = node.args
        if bits.target is not random_bits or len(bits.users) != 1:
            continue
        with graph.inserting_before(node):
            fused = graph.call_function(round_by_chance, (values, *bits.args, overflow))
        fused.meta = dict(node.meta)
        node.replace_all_uses_with(fused)
        graph.erase_node(node)
        graph.erase_node(bits)


def round_by_chance(
    values: torch.Tensor, seed: torch.Tensor, draw: int, shape: Sequence[int], overflow: str
) -> torch.Tensor:
    """Float32 numbers rounded to half, up or down by the bits of this draw."""
    kernel = _kernels.get(overflow)
    if kernel is None or not values.numel():
        found: torch.Tensor = _round_half(values, draw_bits(seed, draw, shape), overflow)
        return found
    keys, steps = list_keys(seed, draw, shape)
    rows = values.reshape(-1, steps.size).contiguous()
    return kernel([rows, torch.from_numpy(keys)])[0].view(values.shape)


def has_kernel(overflow: Overflow) -> bool:
    """Whether native code for this rounding is installed."""
    return overflow.value in _kernels


def install_kernel(overflow: Overflow, kernel: Kernel | None) -> None:
    """Use native code from here on, or no longer."""
    if kernel is None:
        _kernels.pop(overflow.value, None)
    else:
        _kernels[overflow.value] = kernel
