"""What stands between convolutions in one call: a norm, images that are added, a rectifier; and their gradients.

In: a draft of training whose images have channels last, and the kernels. Out: the same draft, in which one kernel
normalizes, adds and rectifies in one call, and another one computes all gradients of that. Sums are added up in another
order than PyTorch's, in float64 at last, so that last bits differ.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from openipu.run import thresholds
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.ownership import is_last_use
from openipu.run.kernels.catalog import DIFFERENTIATE_NORM, NORMALIZE
from openipu.run.kernels.library import LoadedKernel
from openipu.run.rewrites.images.norms import CHANNEL_STEP, differentiate, normalize

aten = torch.ops.aten

_NORM, _GRADIENTS = aten._native_batch_norm_legit_functional.default, aten.native_batch_norm_backward.default


def join_norms(draft: Draft, kernel: LoadedKernel) -> None:
    """Let the kernels compute norms, with what stands behind them."""
    places = {node: place for place, node in enumerate(draft.graph.nodes)}
    for node in list(draft.graph.nodes):
        if _is_norm(node):
            _Forward(draft.graph, node, places, kernel[NORMALIZE]).join()
        elif _is_gradient(node):
            _Backward(draft.graph, node, places, kernel[DIFFERENTIATE_NORM]).join()


def find_norms(graph: fx.Graph) -> bool:
    """Whether there are norms that a kernel might compute."""
    return any(_is_norm(node) for node in graph.nodes)


def _is_norm(node: fx.Node) -> bool:
    if node.target is not _NORM:
        return False
    images, weight, bias, mean, variance, trains, *numbers = node.args
    if trains is not True or not all(isinstance(number, int | float) for number in numbers):
        return False
    return _suits(images, (weight, bias, mean, variance))


def _is_gradient(node: fx.Node) -> bool:
    if node.target is not _GRADIENTS:
        return False
    arguments: tuple[Any, ...] = node.args
    gradient, images, weight, _, _, mean, inverse, trains, _, wanted = arguments
    return trains is True and list(wanted) == [True] * 3 and _suits(images, (gradient, weight, mean, inverse))


def _suits(images: Any, others: Sequence[Any]) -> bool:
    """Whether images in float32 have many pixels and whole vectors of channels, and no operand is missing."""
    if not all(isinstance(value, fx.Node) for value in (images, *others)):
        return False
    value = images.meta["val"]
    if value.dim() != 4 or value.numel() < thresholds.NORM_ELEMENTS or value.numel() == value.shape[1]:
        return False
    return value.shape[1] % CHANNEL_STEP == 0 and all(
        other.meta["val"].dtype is torch.float32 for other in (images, *others)
    )


class _Forward:
    """A norm, and what alone reads its images."""

    def __init__(self, graph: fx.Graph, node: fx.Node, places: dict[fx.Node, int], run: Any) -> None:
        self._graph, self._node, self._places, self._run = graph, node, places, run

    def join(self) -> None:
        images, weight, bias, mean, variance, _, momentum, epsilon = self._node.args
        parts = {user.args[1]: user for user in self._node.users}
        if len(parts) != len(self._node.users) or 0 not in parts:
            return
        result = parts.pop(0)
        nodes, other = self._find_readers(result)
        if any(self._places[user] < self._places[nodes[-1]] for part in parts.values() for user in part.users):
            nodes, other = [result], None
        arguments = (images, weight, bias, mean, variance, momentum, epsilon, other, len(nodes) > 1, self._run)
        where = nodes[-1] if len(nodes) > 1 else self._node  # statistics may be read before the images are
        with self._graph.inserting_before(where):
            joined = self._graph.call_function(normalize, arguments)
            joined.meta = dict(self._node.meta)
            self._places[joined] = self._places[where]
            for place, old in ((0, nodes[-1]), *parts.items()):
                new = self._graph.call_function(operator.getitem, (joined, place))
                new.meta = dict(old.meta)
                self._places[new] = self._places[where]
                old.replace_all_uses_with(new)
        for old in (*reversed(nodes), *parts.values(), self._node):
            self._graph.erase_node(old)

    def _find_readers(self, result: fx.Node) -> tuple[list[fx.Node], fx.Node | None]:
        """The nodes that one call can stand for, from the result on, and what is added there."""
        reader = _find_reader(result)
        if reader is None:
            return [result], None
        if reader.target is aten.relu.default:
            return [result, reader], None
        rectifier = _find_reader(reader)
        if reader.target is not aten.add.Tensor or reader.kwargs or rectifier is None:
            return [result], None
        others = [value for value in reader.args if value is not result]
        if rectifier.target is not aten.relu.default or len(others) != 1 or not isinstance(others[0], fx.Node):
            return [result], None
        added = others[0].meta["val"]
        if added.dtype is not torch.float32 or added.shape != result.meta["val"].shape:
            return [result], None
        return [result, reader, rectifier], others[0]


class _Backward:
    """The gradients of a norm, and what blocks the gradient that it reads."""

    def __init__(self, graph: fx.Graph, node: fx.Node, places: dict[fx.Node, int], run: Any) -> None:
        self._graph, self._node, self._places, self._run = graph, node, places, run

    def join(self) -> None:
        blocked, images, weight, _, _, mean, inverse, _, epsilon, _ = self._node.args
        assert isinstance(blocked, fx.Node)
        gradient, results, keeps = self._find_blocked(blocked)
        with self._graph.inserting_before(self._node):
            settings = (images, weight, mean, inverse, epsilon, keeps, is_last_use(gradient), self._run)
            joined = self._graph.call_function(differentiate, (gradient, results, *settings))
            joined.meta = dict(self._node.meta)
            self._places[joined] = self._places[self._node]
            if keeps:
                kept = self._graph.call_function(operator.getitem, (joined, 3))
                kept.meta = dict(blocked.meta)
                self._places[kept] = self._places[self._node]
        self._node.replace_all_uses_with(joined)
        self._graph.erase_node(self._node)
        if keeps:
            blocked.replace_all_uses_with(kept)
        if results is not None:
            self._graph.erase_node(blocked)

    def _find_blocked(self, blocked: fx.Node) -> tuple[fx.Node, fx.Node | None, bool]:
        """The gradient before it is blocked, by which results, and whether somebody else reads what is left of it."""
        if blocked.target is not aten.threshold_backward.default or blocked.args[2] != 0:
            return blocked, None, False
        gradient, results, _ = blocked.args
        if not isinstance(gradient, fx.Node) or not isinstance(results, fx.Node):
            return blocked, None, False
        if any(value.meta["val"].shape != blocked.meta["val"].shape for value in (gradient, results)):
            return blocked, None, False
        others = [user for user in blocked.users if user is not self._node]
        if any(self._places[user] < self._places[self._node] for user in others):
            return blocked, None, False
        return gradient, results, bool(others)


def _find_reader(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None
