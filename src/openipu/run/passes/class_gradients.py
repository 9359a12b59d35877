"""The gradient of a cross-entropy over many classes in one way through memory.

In: a draft of a training program. Out: the same draft, in which one function writes `softmax - one_hot`, weighed, where
autograd fills a matrix with zeros, puts one number into each row, and computes with the whole of it. Nothing is written
beside the logarithms where nobody reads these again (`reused_memory`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.draft import Draft
from openipu.run.passes.simplify import remove_dead_code

aten = torch.ops.aten

_MEAN = 1  # of the reductions, by ATen's numbers
_SMALLEST_ELEMENTS = 1 << 16  # below, two calls are as quick
_CACHED_BYTES = 1 << 19  # for each thread: stays in the cache between two operators
VIEWS = (aten.view.default, aten._unsafe_view.default)

_softmax_into = aten._softmax.out._op


def join_class_gradients(draft: Draft) -> None:
    """Use one function for the gradients of a logarithmic softmax and of what reads it, where nobody reads between."""
    target = aten._log_softmax_backward_data.default
    for node in list(draft.graph.find_nodes(op="call_function", target=target)):
        incoming, logarithms, dim, dtype = node.args
        if not isinstance(logarithms, fx.Node) or dtype is not torch.float32 or not _suits(logarithms, dim):
            continue
        picked = skip_views(incoming)
        if picked.target is not aten.nll_loss_backward.default or not _is_read_alone(incoming, picked):
            continue
        arguments: tuple[Any, ...] = picked.args
        gradient, rows, classes, weights, reduction, ignored, total = arguments
        if weights is not None or skip_views(rows) is not logarithms or rows.meta["val"].dim() != 2:
            continue
        if rows.meta["val"].shape[-1] != logarithms.meta["val"].shape[-1]:
            continue  # rows of the loss are parts of those of the softmax
        with draft.graph.inserting_before(node):
            operands = (logarithms, classes, gradient, total, reduction, ignored)
            joined = draft.graph.call_function(differentiate_classes, operands)
        joined.meta = dict(node.meta)
        node.replace_all_uses_with(joined)
        draft.graph.erase_node(node)
    remove_dead_code(draft)


def differentiate_classes(
    logarithms: torch.Tensor,
    classes: torch.Tensor,
    gradient: torch.Tensor,
    total: torch.Tensor,
    reduction: int,
    ignored: int,
) -> torch.Tensor:
    """The gradient of the logits, from their logarithmic softmax, the classes of its rows, and the loss's gradient."""
    return _differentiate(logarithms, torch.empty_like(logarithms), classes, gradient, total, reduction, ignored)


def differentiate_in_place(
    logarithms: torch.Tensor,
    classes: torch.Tensor,
    gradient: torch.Tensor,
    total: torch.Tensor,
    reduction: int,
    ignored: int,
) -> torch.Tensor:
    """The same in the memory of the logarithms, if they lie in order."""
    return _differentiate(logarithms, logarithms, classes, gradient, total, reduction, ignored)


def _differentiate(
    logarithms: torch.Tensor,
    result: torch.Tensor,
    classes: torch.Tensor,
    gradient: torch.Tensor,
    total: torch.Tensor,
    reduction: int,
    ignored: int,
) -> torch.Tensor:
    if not logarithms.is_contiguous() or not result.is_contiguous():
        logarithms = logarithms.contiguous()
        result = torch.empty_like(logarithms)
    columns = logarithms.shape[-1]
    weights = gradient / total if reduction == _MEAN else gradient
    weights = weights.reshape(-1, 1)  # one, or one for each row
    parts = max(1, _CACHED_BYTES // (columns * 4)) * torch.get_num_threads()
    sources, results = logarithms.view(-1, columns), result.view(-1, columns)
    for start in range(0, len(results), parts):
        part = results[start : start + parts]
        # Of logarithms of probabilities: the probabilities, sooner than by their exponential.
        _softmax_into(sources[start : start + parts], 1, False, out=part)
        part.mul_(weights if len(weights) == 1 else weights[start : start + parts])
    without = classes == ignored
    places = classes.masked_fill(without, 0).unsqueeze(1)
    results.scatter_add_(1, places, weights.neg().expand(len(results), 1))
    if without.any():
        results.index_fill_(0, without.nonzero().view(-1), 0.0)
    return result


def skip_views(node: Any, views: Collection[Any] = VIEWS) -> fx.Node:
    """The value behind views in other shapes."""
    while node.target in views:
        node = node.args[0]
    found: fx.Node = node
    return found


def _is_read_alone(view: Any, source: fx.Node) -> bool:
    """Whether the one reader of a view is the one reader of its source as well."""
    while len(view.users) == 1 and view is not source:
        view = view.args[0]
    return len(view.users) == 1


def _suits(logarithms: fx.Node, dim: Any) -> bool:
    """Whether a logarithmic softmax is one of rows in float32, and large."""
    value = logarithms.meta["val"]
    if logarithms.target is not aten._log_softmax.default or value.numel() < _SMALLEST_ELEMENTS:
        return False
    return value.dtype is torch.float32 and dim in (-1, value.dim() - 1)
