"""Stochastic rounding: sampling its bits and rounding are one call.

In: a graph in which random bits are sampled for one rounding. Out: the same graph with one call for both, by operators
in some twenty passes. `bound_rounding.py` gives such calls a C++ kernel: one pass over memory, the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import fx

from openipu.numerics import Overflow
from openipu.run.drafts.random_numbers import random_bits, sample_bits
from openipu.run.drafts.rules import Constant, Match, Rule, Value, Writer, op
from openipu.run.kernels import OperandError, Run, address_of, address_or_none
from openipu.run.kernels.catalog import RoundingArguments
from openipu.run.rewrites.half.rounding import round_half

OVERFLOWS = {Overflow.INFINITY.value: 0, Overflow.SATURATE.value: 1, Overflow.NAN.value: 2}  # as the kernel counts them

_round_half = round_half._op


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a sample: all that go before the last dimension are one."""

    first: int
    count: int
    columns: int
    places: torch.Tensor | None = None  # int64: which rows, where they do not follow one another

    def list_places(self) -> torch.Tensor:
        return torch.arange(self.first, self.first + self.count) if self.places is None else self.places


def round_stochastically(
    values: torch.Tensor, seed: torch.Tensor, sample: int, shape: Sequence[int], overflow: str, run: Run | None = None
) -> torch.Tensor:
    """Float32 numbers rounded to half, up or down by the bits of this sample; by a kernel, where it is given."""
    held = values.contiguous()
    results = torch.empty(held.shape, dtype=torch.float16)
    if run is None or not _round(held, results, seed, sample, _count_rows(shape), overflow, run):
        found: torch.Tensor = _round_half(values, sample_bits(seed, sample, shape), overflow)
        return found
    return results


def round_rows_into(
    results: torch.Tensor,
    values: torch.Tensor,
    seed: torch.Tensor,
    sample: int,
    rows: Rows,
    overflow: str,
    run: Run | None = None,
) -> None:
    """Some rows of a sample, into half memory. Values and results lie in order, whatever their shapes."""
    if run is None or not _round(values, results, seed, sample, rows, overflow, run):
        bits = sample_bits(seed, sample, (rows.count, rows.columns), rows.list_places())
        results.copy_(_round_half(values, bits.view(values.shape), overflow))


def round_in_place(
    values: torch.Tensor, seed: torch.Tensor, sample: int, shape: Sequence[int], overflow: str, run: Run | None = None
) -> torch.Tensor:
    """What `round_stochastically` gives, but in float32, and in the memory of the values if they lie in order."""
    held = values.contiguous()
    return _round_wide(held, held, seed, sample, shape, overflow, run)


def round_wide(
    values: torch.Tensor, seed: torch.Tensor, sample: int, shape: Sequence[int], overflow: str, run: Run | None = None
) -> torch.Tensor:
    """The same in memory of its own."""
    held = values.contiguous()
    return _round_wide(held, torch.empty_like(held), seed, sample, shape, overflow, run)


def _round_wide(
    values: torch.Tensor,
    results: torch.Tensor,
    seed: torch.Tensor,
    sample: int,
    shape: Sequence[int],
    overflow: str,
    run: Run | None,
) -> torch.Tensor:
    if run is None or not _round(values, results, seed, sample, _count_rows(shape), overflow, run):
        return round_stochastically(values, seed, sample, shape, overflow).float()
    return results


def _count_rows(shape: Sequence[int]) -> Rows:
    return Rows(0, math.prod(shape[:-1]), shape[-1] if shape else 1)


def _round(
    values: torch.Tensor,
    results: torch.Tensor,
    seed: torch.Tensor,
    sample: int,
    rows: Rows,
    overflow: str,
    run: Run,
) -> bool:
    """Whether the kernel takes these operands, and has rounded them."""
    count, wide = seed.numel() * rows.count * rows.columns, results.dtype is torch.float32
    seeds = seed.contiguous()
    try:
        arguments = RoundingArguments(
            values=address_of(values, count),
            results=address_of(results, count, torch.float32 if wide else torch.float16),
            seeds=address_of(seeds, seeds.numel(), torch.int32),
            places=address_or_none(rows.places, rows.count, torch.int64),
            seed_count=seeds.numel(),
            sample=sample,
            first_row=rows.first,
            rows=rows.count,
            columns=rows.columns,
            overflow=OVERFLOWS[overflow],
            wide=wide,
            threads=torch.get_num_threads(),
        )
    except OperandError:
        return False
    run(arguments)
    return True


def _round_at_once(match: Match, writer: Writer) -> fx.Node:
    return writer.call(round_stochastically, *(match[name] for name in ("x", "seed", "sample", "shape", "overflow")))


_BITS = op(random_bits, Value("seed"), Constant("sample"), Constant("shape"))
RULES = (Rule("stochastic rounding", op(round_half, Value("x"), _BITS, Constant("overflow")), _round_at_once),)
