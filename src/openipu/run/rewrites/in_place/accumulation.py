"""Gradients on their way into accumulators.

In: a draft that is ready to be generated, and the accumulators. Out: the same draft, which adds each gradient to its
accumulator where it is computed, instead of returning it. A product is added by the library that computes it; the rows
of an embedding that were looked up are added alone. Written out first, such a gradient would go through memory two or
three times more: for a language model's vocabulary, a seventh of the step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import fx

from openipu.graph import OutputKind
from openipu.numerics import Overflow
from openipu.run import thresholds
from openipu.run.drafts.aliasing import find_owner, is_pure
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.random_numbers import random_bits
from openipu.run.drafts.rules import Constant, Is, Match, Rule, Value, Writer, op
from openipu.run.kernels import Run
from openipu.run.rewrites.half.rounding import round_half
from openipu.run.rewrites.half.stochastic_rounding import Rows, round_rows_into

aten = torch.ops.aten

_sum_rows = aten.embedding_dense_backward.default


def accumulate_gradients(
    draft: Draft, accumulators: Mapping[str, torch.Tensor], scale: float, *, single: bool = False
) -> None:
    """Add all gradients to their accumulators; with `single`, by an operator of its own each."""
    gradients = take_gradients(draft)
    for name, gradient in gradients.items():
        total = accumulators[name]
        accumulator = draft.add_placeholder("accumulator", total)
        # What is the gradient of another parameter, too, stays as it is.
        kept = {node for other, node in gradients.items() if single or other != name}
        # A sum in another format is rounded once: its parts cannot be added one by one, nor by a float32 kernel.
        exact = total.dtype is torch.float32
        for part in _list_parts(draft.graph, gradient, kept) if exact else [gradient]:
            _add_part(draft.graph, accumulator, part, scale, kept, exact=exact)


def take_gradients(draft: Draft, kept: frozenset[str] = frozenset()) -> dict[str, fx.Node]:
    """The gradient nodes by parameter; those not `kept` are no longer returned."""
    pairs = list(zip(draft.results, draft.outputs, strict=True))
    gradients = {entry.name: node for node, entry in pairs if entry.kind is OutputKind.GRADIENT}
    left = [(node, entry) for node, entry in pairs if entry.kind is not OutputKind.GRADIENT or entry.name in kept]
    draft.replace_results([node for node, _ in left], [entry for _, entry in left])
    return gradients


def add_rows(
    total: torch.Tensor, gradient: torch.Tensor, places: torch.Tensor, padding: int, scale: float
) -> torch.Tensor:
    """Add each row of a gradient to the row of the total that it was looked up from; padding has no gradient."""
    rows, where = gradient.reshape(-1, total.shape[1]), places.reshape(-1)
    if padding >= 0:
        real = where != padding
        if not bool(real.all()):
            rows, where = rows[real], where[real]
    return total.index_add_(0, where, rows, alpha=scale)


def add_rounded_rows(
    total: torch.Tensor,
    gradient: torch.Tensor,
    places: torch.Tensor,
    padding: int,
    scale: float,
    seed: torch.Tensor | None,
    sample: int,
    overflow: str,
    run: Run | None = None,
) -> None:
    """Add the gradient of an embedding, rounded to half, in the rows that were looked up: zeros stay what they are."""
    used, where = torch.unique(places, return_inverse=True)
    sums = gradient.new_zeros(len(used), total.shape[1])
    sums.index_add_(0, where.reshape(-1), gradient.reshape(-1, total.shape[1]))
    if padding >= 0:
        sums[used == padding] = 0.0
    if seed is None:
        rounded = round_half(sums, None, overflow)
    else:
        rounded = torch.empty_like(sums, dtype=torch.float16)
        round_rows_into(rounded, sums, seed, sample, Rows(0, len(used), total.shape[1], used), overflow, run)
    total[used] = total[used].add_(rounded, alpha=scale)


def add_half_rows(
    total: torch.Tensor, gradient: torch.Tensor, places: torch.Tensor, padding: int, scale: float
) -> None:
    """Add the gradient of a half embedding in the rows that were looked up. PyTorch's own operator adds those up, for a
    table of these rows alone: in the same order, rounded as often."""
    used, where = torch.unique(places, return_inverse=True)
    found = (used == padding).nonzero() if padding >= 0 else used[:0]
    skipped = int(found[0]) if len(found) else -1
    total[used] = total[used].add_(_sum_rows(gradient, where, len(used), skipped, False), alpha=scale)


def _list_parts(graph: fx.Graph, node: fx.Node, kept: Collection[fx.Node]) -> list[fx.Node]:
    """What a gradient is the sum of: each part can go to the accumulator, and its memory, as soon as it is there."""
    if node in kept or node.users or node.target is not aten.add.Tensor or node.kwargs or not _is_float32(node):
        return [node]
    first, second = node.args
    if first is second or not all(_has_shape_of(part, node) for part in (first, second)):
        return [node]
    graph.erase_node(node)
    assert isinstance(first, fx.Node)
    assert isinstance(second, fx.Node)
    return [*_list_parts(graph, first, kept), *_list_parts(graph, second, kept)]


def _add_part(
    graph: fx.Graph, accumulator: fx.Node, part: fx.Node, scale: float, kept: Collection[fx.Node], *, exact: bool
) -> None:
    alone = not part.users and part not in kept
    with graph.inserting_after(part):
        if alone and exact and _is_sum_of_rows(part):
            graph.call_function(add_rows, (accumulator, *part.args[:2], part.args[3], scale))
        elif alone and _is_rounded_sum_of_rows(part):
            _add_rounded_part(graph, accumulator, part, scale)
            return
        elif alone and _is_half_sum_of_rows(part):
            graph.call_function(add_half_rows, (accumulator, *part.args[:2], part.args[3], scale))
        elif alone and exact and part.target is aten.mm.default and _is_float32(part):
            graph.call_function(torch.Tensor.addmm_, (accumulator, *part.args), {"alpha": scale})
        else:
            graph.call_function(torch.Tensor.add_, (accumulator, part), {"alpha": scale})
            return
    graph.erase_node(part)


def _is_rounded_sum_of_rows(node: fx.Node) -> bool:
    """The gradient of an embedding with far more rows than were looked up, rounded to half for the accumulator."""
    narrows = node.target is aten._to_copy.default and dict(node.kwargs) == {"dtype": torch.float16}
    rounds = node.target is round_half and (node.args[1] is None or _is_own_sample(node.args[1]))
    rows = node.args[0] if narrows or rounds else None
    if not _is_sum_of_rows(rows) or not isinstance(rows, fx.Node) or set(rows.users) != {node}:
        return False
    return _is_sparse(rows)


def _is_half_sum_of_rows(node: fx.Node) -> bool:
    """The same, added up in half."""
    sums = node.target is aten.embedding_dense_backward.default and not node.args[4]
    return sums and node.meta["val"].dtype is torch.float16 and _is_sparse(node)


def _is_sparse(rows: fx.Node) -> bool:
    places = rows.args[1]
    assert isinstance(places, fx.Node)
    return bool(rows.meta["val"].shape[0] > thresholds.SPARSE_EMBEDDING_ROWS * places.meta["val"].numel())


def _is_own_sample(bits: Any) -> bool:
    return isinstance(bits, fx.Node) and bits.target is random_bits and len(bits.users) == 1


def _add_rounded_part(graph: fx.Graph, accumulator: fx.Node, part: fx.Node, scale: float) -> None:
    rows, *rounding = part.args
    assert isinstance(rows, fx.Node)
    bits, overflow = rounding or (None, Overflow.INFINITY.value)
    sample = bits.args[:2] if isinstance(bits, fx.Node) else (None, 0)
    graph.call_function(add_rounded_rows, (accumulator, *rows.args[:2], rows.args[3], scale, *sample, overflow))
    graph.erase_node(part)
    graph.erase_node(rows)
    if isinstance(bits, fx.Node):
        graph.erase_node(bits)


def _is_sum_of_rows(node: Any) -> bool:
    """The gradient of an embedding, unless its rows are weighed by how often they occur."""
    return (
        isinstance(node, fx.Node)
        and node.target is aten.embedding_dense_backward.default
        and _is_float32(node)
        and not node.args[4]
    )


def _is_float32(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype is torch.float32


def _has_shape_of(node: Any, other: fx.Node) -> bool:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return isinstance(value, torch.Tensor) and value.shape == other.meta["val"].shape


def _add_to_other(match: Match, writer: Writer) -> fx.Node:
    return writer.call(add_rows, match["other"], match["gradient"], match["places"], match["padding"], 1)


def _dies_here(match: Match) -> bool:
    """Whether the other gradient is memory of the graph's own that nobody else reads."""
    other, total = match["other"], match.root
    own = set(other.users) == {total} and is_pure(other) and find_owner(other) is other
    return own and _has_shape_of(other, total) and _is_float32(total)


# A language model's embedding is often its last layer as well, so that its gradient is the sum of two: the rows that
# were looked up are added to the other gradient.
ADDED_ROWS = (
    Rule(
        "rows of an embedding added to another gradient",
        op(
            aten.add.Tensor,
            op(_sum_rows, Value("gradient"), Value("places"), Constant("rows"), Constant("padding"), Is(False)),
            Value("other", torch.float32),
        ),
        _add_to_other,
        _dies_here,
    ),
)
