"""Rows of logits that a loss leaves out, as rows without a class.

In: a draft in which `class_gradients` has been. Out: the same draft, in which a loss that leaves out a few rows (that
of a language model: the last place of each sequence) reads all of them, and ignores these. The logits are then copied
neither to take rows out nor, in their gradient, to put rows of zeros in.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.draft import Draft
from openipu.run.passes.class_gradients import VIEWS, differentiate_classes, skip_views
from openipu.run.passes.simplify import remove_dead_code

aten = torch.ops.aten

_UNREDUCED = 0  # the reduction, by ATen's number
_SMALLEST_SHARE = 0.75  # of rows that are read: else computing with all takes longer than copying


def keep_rows(draft: Draft) -> None:
    """Let losses read the rows that they leave out, where the copies that this spares have no other reader."""
    for node in list(draft.graph.find_nodes(op="call_function", target=aten.slice_backward.default)):
        joined = skip_views(node.args[0])
        if joined.target is differentiate_classes:
            _keep_rows(draft.graph, node, joined)
    remove_dead_code(draft)


def _keep_rows(graph: fx.Graph, padded: fx.Node, joined: fx.Node) -> None:
    operands: tuple[Any, ...] = joined.args
    logarithms, classes, gradient, _, reduction, ignored = operands
    taken = skip_views(logarithms.args[0], (*VIEWS, aten.clone.default))
    loss = _find_loss(logarithms, joined)
    if loss is None or loss.args[2:] != (None, reduction, ignored) or not _is_reverse(taken, padded):
        return
    whole = _Rows(graph, taken, padded)
    with graph.inserting_before(logarithms):
        kept = _add(graph, aten._log_softmax.default, whole.logits, len(whole.shape), False)
    with graph.inserting_before(loss):
        rows = _add(graph, aten.reshape.default, kept, [-1, kept.meta["val"].shape[-1]])
        found = _add(graph, aten.nll_loss_forward.default, rows, whole.spread(loss.args[1], ignored), *loss.args[2:])
    for item in list(loss.users):
        with graph.inserting_before(item):
            new = _add(graph, operator.getitem, found, item.args[1])
            if reduction == _UNREDUCED and item.args[1] == 0:
                new = whole.take(new)
        item.replace_all_uses_with(new)
        graph.erase_node(item)
    with graph.inserting_before(joined):
        if reduction == _UNREDUCED:
            gradient = whole.spread(gradient, 0.0)
        arguments = (kept, whole.spread(classes, ignored), gradient, *joined.args[3:])
        result = graph.call_function(differentiate_classes, arguments)
    result.meta = dict(padded.meta)
    padded.replace_all_uses_with(result)
    unread: Any = padded
    while unread is not logarithms and not unread.users:
        source = unread.args[0]
        graph.erase_node(unread)
        unread = source


class _Rows:
    """The rows of logits, of which a loss reads some."""

    def __init__(self, graph: fx.Graph, taken: fx.Node, padded: fx.Node) -> None:
        self._graph = graph
        logits: Any = taken.args[0]
        self.logits = logits
        self.shape = list(logits.meta["val"].shape[:-1])
        self._read = list(taken.meta["val"].shape[:-1])
        self._where = padded.args[2:]

    def spread(self, value: Any, filled: float) -> fx.Node:
        """Put this number for each row that is left out between those of the others."""
        empty = _add(self._graph, aten.new_full.default, value, self.shape, filled)
        shaped = _add(self._graph, aten.reshape.default, value, self._read)
        whole = _add(self._graph, aten.slice_scatter.default, empty, shaped, *self._where)
        return _add(self._graph, aten.reshape.default, whole, [-1])

    def take(self, value: fx.Node) -> fx.Node:
        """The numbers of those rows that are read."""
        shaped = _add(self._graph, aten.reshape.default, value, self.shape)
        taken = _add(self._graph, aten.slice.Tensor, shaped, *self._where)
        return _add(self._graph, aten.reshape.default, taken, [-1])


def _add(graph: fx.Graph, target: Any, *args: Any) -> fx.Node:
    node = graph.call_function(target, args)
    given: Any = fx.map_arg(args, lambda value: value.meta["val"])
    node.meta["val"] = target(*given)
    return node


def _find_loss(logarithms: fx.Node, joined: fx.Node) -> fx.Node | None:
    """The loss that reads these logarithms, if nobody else does."""
    readers = [user for user in logarithms.users if user is not joined]
    while len(readers) == 1 and readers[0].target in VIEWS:
        readers = list(readers[0].users)
    return readers[0] if len(readers) == 1 and readers[0].target is aten.nll_loss_forward.default else None


def _is_reverse(taken: fx.Node, padded: fx.Node) -> bool:
    """Whether rows that were taken out of a tensor are put back where they were; these must be most of its rows."""
    if taken.target is not aten.slice.Tensor or taken.kwargs or padded.kwargs:
        return False
    source: Any = taken.args[0]
    shape = tuple(source.meta["val"].shape)
    operands: tuple[Any, ...] = padded.args
    _, sizes, dim, start, end, step = operands
    given: tuple[Any, ...] = (*taken.args[1:], *(0, None, None, 1)[len(taken.args) - 1 :])
    dim, size = dim % len(shape), shape[dim]
    read = range(*slice(start, end, step).indices(size))
    same = given[0] % len(shape) == dim and range(*slice(*given[1:]).indices(size)) == read
    rows = dim != len(shape) - 1 and step == 1 and len(read) >= _SMALLEST_SHARE * size
    return tuple(sizes) == shape and same and rows
