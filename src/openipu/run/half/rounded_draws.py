"""Stochastic rounding: drawing its bits and rounding are one call.

In: a graph in which random bits are drawn for one rounding. Out: the same graph with one call for both. It goes to
native code if that has been installed, one pass over memory for any shape; else to the operators, some twenty passes.
Both give the same bits. `native/shared_kernels.py` compiles it, once for all programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from openipu.numerics import Overflow
from openipu.run.half.rounding import round_half
from openipu.run.passes.seeded_random import draw_bits, random_bits

# values, results, seeds, number of seeds, draw, first row, or else the places of rows, rows, columns, what becomes of
# too large numbers, whether results are float32, threads
Kernel = Callable[[int, int, int, int, int, int, int | None, int, int, int, int, int], None]

OVERFLOWS = {Overflow.INFINITY.value: 0, Overflow.SATURATE.value: 1, Overflow.NAN.value: 2}  # as the kernel counts them

_installed: list[Kernel] = []  # one, or none
_round_half = round_half._op


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a draw: all that go before the last dimension are one."""

    first: int
    count: int
    columns: int
    places: torch.Tensor | None = None  # int64: which rows, where they do not follow one another

    def list_places(self) -> torch.Tensor:
        return torch.arange(self.first, self.first + self.count) if self.places is None else self.places


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
    if not _installed or not values.numel():
        found: torch.Tensor = _round_half(values, draw_bits(seed, draw, shape), overflow)
        return found
    held = values.contiguous()
    results = torch.empty(held.shape, dtype=torch.float16)
    _run_kernel(held, results, seed, draw, _count_rows(shape), overflow)
    return results


def round_rows_into(
    results: torch.Tensor, values: torch.Tensor, seed: torch.Tensor, draw: int, rows: Rows, overflow: str
) -> None:
    """Some rows of a draw, into half memory. Values and results lie in order, whatever their shapes."""
    if _installed and values.numel():
        _run_kernel(values, results, seed, draw, rows, overflow)
    else:
        bits = draw_bits(seed, draw, (rows.count, rows.columns), rows.list_places())
        results.copy_(_round_half(values, bits.view(values.shape), overflow))


def round_in_place(
    values: torch.Tensor, seed: torch.Tensor, draw: int, shape: Sequence[int], overflow: str
) -> torch.Tensor:
    """The same numbers as `round_by_chance`, but in float32, and in the memory of the values if they lie in order."""
    held = values.contiguous()
    return _round_wide(held, held, seed, draw, shape, overflow)


def round_wide(
    values: torch.Tensor, seed: torch.Tensor, draw: int, shape: Sequence[int], overflow: str
) -> torch.Tensor:
    """The same in memory of its own."""
    held = values.contiguous()
    return _round_wide(held, torch.empty_like(held), seed, draw, shape, overflow)


def _round_wide(
    values: torch.Tensor, results: torch.Tensor, seed: torch.Tensor, draw: int, shape: Sequence[int], overflow: str
) -> torch.Tensor:
    if not _installed or not values.numel():
        return round_by_chance(values, seed, draw, shape, overflow).float()
    _run_kernel(values, results, seed, draw, _count_rows(shape), overflow)
    return results


def _count_rows(shape: Sequence[int]) -> Rows:
    return Rows(0, math.prod(shape[:-1]), shape[-1] if shape else 1)


def _run_kernel(
    values: torch.Tensor, results: torch.Tensor, seed: torch.Tensor, draw: int, rows: Rows, overflow: str
) -> None:
    _installed[0](
        values.data_ptr(),
        results.data_ptr(),
        seed.data_ptr(),
        seed.numel(),
        draw,
        rows.first,
        None if rows.places is None else rows.places.data_ptr(),
        rows.count,
        rows.columns,
        OVERFLOWS[overflow],
        results.dtype is torch.float32,
        torch.get_num_threads(),
    )


def has_kernel() -> bool:
    """Whether native code is installed."""
    return bool(_installed)


def install_kernel(kernel: Kernel | None) -> None:
    """Use native code from here on, or no longer."""
    _installed[:] = [] if kernel is None else [kernel]
