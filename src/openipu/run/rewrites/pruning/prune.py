"""Compute alone what is read alone.

In: a draft in which one entry of a sequence is selected, as a classifier on top of a transformer selects the first
token, and maybe its gradient, which is zero at all other entries. Out: the same draft, in which what leads to that
entry is computed for it alone, as far down as nothing reads the others, and so is what its gradient leads to, up to
where it meets a gradient of all entries. Of the last layer of a transformer, keys and values alone are left for all
tokens.

Sums lose terms that were zero, so that last bits may differ. Samples keep their places, and so their bits. A number
that is not finite, in an entry that nobody reads, no longer makes gradients not finite.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.draft import Draft
from openipu.run.drafts.random_numbers import random_bits, random_rows, set_value
from openipu.run.drafts.replacement import replace_value
from openipu.run.rewrites.pruning.axes import Axis
from openipu.run.rewrites.pruning.rules import (
    PRODUCTS,
    VIEWS,
    can_narrow,
    find_contracted,
    find_needed,
    find_zeros,
    read_selection,
    read_shape,
    sums_over,
)

aten = torch.ops.aten

_SELECTIONS = frozenset({aten.select.int, aten.slice.Tensor})
_GRADIENTS = frozenset({aten.select_backward.default, aten.slice_backward.default})


def prune_rows(draft: Draft) -> None:
    """Compute what leads to a selected entry, and to its gradient, for that entry alone, if that spares products."""
    if not any(node.target in _SELECTIONS or node.target in _GRADIENTS for node in draft.graph.nodes):
        return
    zeros = _list_zeros(draft.graph)
    axes = _list_narrow(draft.graph, zeros)
    if any(node.target in PRODUCTS for node in axes):
        _Narrower(draft.graph, axes, zeros).apply()


def _list_zeros(graph: fx.Graph) -> dict[fx.Node, Axis]:
    """Values that are zero but for one entry of a sequence."""
    zeros: dict[fx.Node, Axis] = {}
    for node in graph.nodes:
        axis = find_zeros(node, zeros)
        if axis is not None and (node.target in _GRADIENTS or can_narrow(node, axis)):
            zeros[node] = axis
    return zeros


def _list_narrow(graph: fx.Graph, zeros: dict[fx.Node, Axis]) -> dict[fx.Node, Axis]:
    """These, and values of which nothing but one entry is read."""
    axes = dict(zeros)
    for node in reversed(list(graph.nodes)):
        if node in axes or not node.users:
            continue
        wanted = {axis for user in node.users for axis in _list_wanted(user, node, axes, zeros)}
        axis = wanted.pop() if len(wanted) == 1 else None
        if axis is not None and can_narrow(node, axis):
            axes[node] = axis
            continue
        for user in node.users:
            if user.target is operator.getitem:
                axes.pop(user, None)  # one of several results, of which another is wanted whole
    return axes


def _list_wanted(
    user: fx.Node, node: fx.Node, axes: dict[fx.Node, Axis], zeros: dict[fx.Node, Axis]
) -> Iterator[Axis | None]:
    """Which entry a reader wants, for each time that it reads a value; nothing stands for all of them."""
    if not user.users and user.op != "output":
        return  # nobody wants what it makes
    reads: list[fx.Node] = []
    fx.map_arg((user.args, user.kwargs), lambda value: reads.append(value) if value is node else None)
    places = [place for place, value in enumerate(user.args) if value is node]
    if len(places) < len(reads) or user.target in _GRADIENTS:
        yield None
        return
    contracted = None if user in axes else find_contracted(user, zeros)
    for place in places:
        if user.target in _SELECTIONS:
            yield read_selection(user)
        elif user in axes:
            yield find_needed(user, axes[user], place)
        else:
            yield contracted[place] if contracted is not None else None


class _Narrower:
    """Writes the narrow forms of values beside them, and lets their readers read those."""

    def __init__(self, graph: fx.Graph, axes: dict[fx.Node, Axis], zeros: dict[fx.Node, Axis]) -> None:
        self._graph, self._axes, self._zeros = graph, axes, zeros
        self._forms: dict[fx.Node, fx.Node] = {}
        self._others: dict[tuple[fx.Node, Axis | None], fx.Node] = {}  # entries of whole values, and the reverse

    def apply(self) -> None:
        for node in list(self._graph.nodes):
            with self._graph.inserting_before(node):
                if node in self._axes:
                    self._forms[node] = self._write_form(node, self._axes[node])
                elif node.op == "call_function" and (new := self._write_reader(node)) is not None:
                    replace_value(self._graph, node, new)
                else:
                    for source in node.all_input_nodes:
                        if source in self._axes:
                            node.replace_input_with(source, self._read_whole(source))
        for node in reversed(self._forms):
            self._graph.erase_node(node)

    def _write_form(self, node: fx.Node, axis: Axis) -> fx.Node:
        """The entries of a value alone."""
        shape = axis.narrow(read_shape(node) or ())
        if node.target in _GRADIENTS:
            source = self._read_whole(node.args[0])
            if node.target is aten.slice_backward.default:
                return source
            return self._call(node, aten.unsqueeze.default, (source, axis.dim))
        if node.target is random_bits:
            seed, sample, _ = node.args
            return self._call(node, random_rows, (seed, sample, shape, axis.index, axis.size))
        args: tuple[Any, ...] = tuple(
            self._read(value, find_needed(node, axis, place)) if isinstance(value, fx.Node) else value
            for place, value in enumerate(node.args)
        )
        if node.target in VIEWS:
            return self._view(node, args[0], shape)
        return self._call(node, node.target, args, fx.map_arg(node.kwargs, self._read_whole))

    def _write_reader(self, node: fx.Node) -> fx.Node | None:
        """What takes entries out, or adds them up, from narrow forms; nothing, if it reads whole values."""
        source = node.args[0] if node.args else None
        axis = self._axes.get(source) if isinstance(source, fx.Node) else None
        contracted = find_contracted(node, self._zeros)
        if contracted is not None:
            left, right = node.args
            return self._call(node, node.target, (self._read(left, contracted[0]), self._read(right, contracted[1])))
        if axis is None or not isinstance(source, fx.Node):
            return None
        if node.target in _SELECTIONS and read_selection(node) == axis:
            form = self._forms[source]
            taken = node.target is aten.select.int
            return self._call(node, aten.select.int, (form, axis.dim, 0)) if taken else form
        if node.target is operator.getitem or sums_over(node, axis):
            return self._call(node, node.target, (self._forms[source], *node.args[1:]), node.kwargs)
        return None

    def _read(self, source: Any, axis: Axis | None) -> fx.Node:
        """A value's entries, or all of it."""
        assert isinstance(source, fx.Node)
        if axis is None:
            return self._read_whole(source)
        if self._axes.get(source) == axis:
            return self._forms[source]
        key = (source, axis)
        if key not in self._others:
            arguments = (self._read_whole(source), *_choose_slice(axis))
            self._others[key] = self._call(source, aten.slice.Tensor, arguments)
        return self._others[key]

    def _read_whole(self, source: Any) -> fx.Node:
        """A value with all of its entries: zeros beside those of a narrow form."""
        assert isinstance(source, fx.Node)
        axis = self._axes.get(source)
        if axis is None:
            return source
        key = (source, None)
        if key not in self._others:
            arguments = (self._forms[source], list(read_shape(source) or ()), *_choose_slice(axis))
            self._others[key] = self._call(source, aten.slice_backward.default, arguments)
        return self._others[key]

    def _view(self, node: fx.Node, source: fx.Node, shape: list[int]) -> fx.Node:
        try:
            source.meta["val"].view(shape)
        except RuntimeError:  # entries that lie apart
            source = self._call(source, aten.clone.default, (source,), {"memory_format": torch.contiguous_format})
        return self._call(node, aten.view.default, (source, shape))

    def _call(self, node: fx.Node, target: Any, args: tuple[Any, ...], kwargs: Any = None) -> fx.Node:
        new = self._graph.call_function(target, args, kwargs)
        set_value(new, node.meta)
        return new


def _choose_slice(axis: Axis) -> tuple[int, int, int, int]:
    """Dimension, beginning, end and step of the entries."""
    if axis.repeats == 1:
        return axis.dim, axis.index, axis.index + 1, 1
    return axis.dim, axis.index, axis.repeats * axis.size, axis.size
