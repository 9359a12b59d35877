"""Dropout in one pass over memory, and without a mask in memory.

In: a draft whose dropouts multiply by a mask, sampled for them in some ten passes and kept for their gradients. Out:
the same draft, in which a C++ kernel samples the mask while it multiplies, once more for the gradient. A mask in half,
whose factor stochastic rounding makes a different one for each element, is sampled and rounded so as well. The results
are the same to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from openipu.numerics import Overflow
from openipu.run.drafts.ownership import gives_fresh_memory
from openipu.run.drafts.random_numbers import random_bits, sample_bits
from openipu.run.drafts.rules import Match, Rule, Search, Writer, matched
from openipu.run.kernels import OperandError, Run, address_of
from openipu.run.kernels.catalog import DropoutArguments
from openipu.run.rewrites.half.rounding import round_half
from openipu.run.rewrites.half.stochastic_rounding import round_in_place, round_wide

aten = torch.ops.aten

_LARGEST_HALF = 65504.0

UNROUNDED = -1  # no sample has this number


def find_masks(graph: fx.Graph) -> list[fx.Node]:
    """Masks that a dropout multiplies by in float32: chosen by random bits that nobody else reads."""
    return [node for node in graph.nodes if _read_mask(node) is not None and any(_keeps(user) for user in node.users)]


def draws_masks(graph: fx.Graph) -> bool:
    """Whether there are such masks, or will be: some are not yet read in float32 at the time."""
    return bool(find_masks(graph)) or any(
        node.target is round_half and isinstance(node.args[1], fx.Node) and _read_mask(node.args[0]) is not None
        for node in graph.nodes
    )


def compares_bits(graph: fx.Graph) -> bool:
    """Whether random bits choose anything, such as a half mask whose factors are rounded later."""
    compared = graph.find_nodes(op="call_function", target=aten.lt.Scalar)
    return any(isinstance(node.args[0], fx.Node) and node.args[0].target is random_bits for node in compared)


def make_rules(run: Run) -> tuple[Rule, ...]:
    """Let the kernel multiply by masks that it samples by itself."""

    def keep(match: Match, writer: Writer) -> fx.Node:
        return writer.call(keep_elements, match["values"], *match["sample"], run)

    return (Rule("dropout", Search((aten.mul.Tensor,), _find), keep, shared=frozenset({"mask"})),)


def _find(product: fx.Node) -> Match | None:
    """A product of a mask and other values."""
    if not _keeps(product):
        return None
    for mask, values in (product.args, product.args[::-1]):
        sample = _read_mask(mask)
        if sample is not None and isinstance(mask, fx.Node):
            return matched(product, mask, mask=mask, values=values, sample=sample)
    return None


@gives_fresh_memory
def keep_elements(
    values: torch.Tensor,
    seed: torch.Tensor,
    sample: int,
    shape: Sequence[int],
    quantile: int,
    factor: float,
    rounding: int,
    run: Run,
) -> torch.Tensor:
    """Multiply by the factor where the bits of this sample are below the quantile, and by 0 elsewhere.

    `rounding`: the sample by which the factor of each element is rounded to half.
    """
    held = values.contiguous()
    return _keep(held, torch.empty_like(held), seed, sample, shape, quantile, factor, rounding, run)


def keep_in_place(
    values: torch.Tensor,
    seed: torch.Tensor,
    sample: int,
    shape: Sequence[int],
    quantile: int,
    factor: float,
    rounding: int,
    run: Run,
) -> torch.Tensor:
    """The same in the memory of the values, if they lie in order."""
    held = values.contiguous()
    return _keep(held, held, seed, sample, shape, quantile, factor, rounding, run)


def _keep(
    values: torch.Tensor,
    results: torch.Tensor,
    seed: torch.Tensor,
    sample: int,
    shape: Sequence[int],
    quantile: int,
    factor: float,
    rounding: int,
    run: Run,
) -> torch.Tensor:
    count, rows, columns = seed.numel() * math.prod(shape), math.prod(shape[:-1]), shape[-1] if shape else 1
    seeds = seed.contiguous()  # held while the kernel runs
    try:
        arguments = DropoutArguments(
            values=address_of(values, count),
            results=address_of(results, count),
            seeds=address_of(seeds, seed.numel(), torch.int32),
            seed_count=seed.numel(),
            sample=sample,
            rounding_sample=rounding,
            rows=rows,
            columns=columns,
            factor=factor,
            quantile=quantile,
            threads=torch.get_num_threads(),
        )
    except OperandError:
        return _keep_plainly(values, seed, sample, shape, quantile, factor, rounding)
    run(arguments)
    return results


def _keep_plainly(
    values: torch.Tensor,
    seed: torch.Tensor,
    sample: int,
    shape: Sequence[int],
    quantile: int,
    factor: float,
    rounding: int,
) -> torch.Tensor:
    """The same by operators."""
    factors = torch.where(sample_bits(seed, sample, shape) < quantile, factor, 0.0).to(torch.float32)
    if rounding != UNROUNDED:
        factors = round_wide(factors, seed, rounding, shape, Overflow.INFINITY.value)
    return values * factors.view(values.shape)


def _keeps(node: fx.Node) -> bool:
    """Whether a mask of the result's own shape is multiplied by other numbers in float32."""
    if node.target is not aten.mul.Tensor or node.kwargs or len(node.all_input_nodes) != 2:
        return False
    values = [value.meta["val"] for value in node.all_input_nodes]
    return all(value.shape == node.meta["val"].shape and value.dtype is torch.float32 for value in values)


def _read_mask(node: Any) -> tuple[Any, ...] | None:
    """The seed, the sample and its shape, the quantile and the factor of a mask, and the sample that rounds that."""
    if not isinstance(node, fx.Node):
        return None
    if node.target in (round_in_place, round_wide):
        operands: tuple[Any, ...] = node.args
        values, seed, sample, shape, _ = operands
        found = _read_mask(values)
        if found is None or len(values.users) != 1 or (found[0], list(found[2])) != (seed, list(shape)):
            return None
        return (*found[:5], sample) if found[5] == UNROUNDED and abs(found[4]) < _LARGEST_HALF else None
    factor, chosen = 1.0, node
    if node.target is aten.div.Scalar and isinstance(node.args[0], fx.Node) and isinstance(node.args[1], int | float):
        # Divided as the operator does it, in float32.
        factor, chosen = (torch.ones((), dtype=torch.float32) / node.args[1]).item(), node.args[0]
    if not _is_converted(chosen):
        return None
    compared = chosen.args[0]
    if not isinstance(compared, fx.Node) or compared.target is not aten.lt.Scalar:
        return None
    bits, quantile = compared.args
    if not isinstance(bits, fx.Node) or bits.target is not random_bits or not isinstance(quantile, int):
        return None
    if any(len(value.users) != 1 for value in {compared, bits, chosen} - {node}) or not bits.meta["val"].numel():
        return None
    return (*bits.args, quantile, factor, UNROUNDED)


def _is_converted(node: fx.Node) -> bool:
    return node.target is aten._to_copy.default and dict(node.kwargs) == {"dtype": torch.float32}
