"""What stands between convolutions in one call: a norm, images that are added, a rectifier; and their gradients.

In: a draft of training whose images have channels last, and the kernels. Out: the same draft, in which one kernel
normalizes, adds and rectifies in one call, and another one computes all gradients of that. Sums are added up in another
order than PyTorch's, in float64 at last, so that last bits differ.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import fx

from openipu.run import thresholds
from openipu.run.drafts.ownership import is_last_use
from openipu.run.drafts.rules import Match, Rule, Search, Writer, find_only_user, matched
from openipu.run.kernels import Run
from openipu.run.kernels.catalog import DIFFERENTIATE_NORM, NORMALIZE
from openipu.run.kernels.library import LoadedKernel
from openipu.run.rewrites.images.norms import CHANNEL_STEP, differentiate, normalize

aten = torch.ops.aten

_NORM, _GRADIENTS = aten._native_batch_norm_legit_functional.default, aten.native_batch_norm_backward.default


def make_rules(kernel: LoadedKernel) -> tuple[Rule, ...]:
    """Let the kernels compute norms, with what stands behind them."""
    forward = partial(_normalize_at_once, kernel[NORMALIZE])
    backward = partial(_differentiate_at_once, kernel[DIFFERENTIATE_NORM])
    return (
        Rule("norm of images", Search((_NORM,), _find_norm), forward, shared=frozenset({"parts"})),
        Rule("gradients of a norm", Search((_GRADIENTS,), _find_gradients), backward, shared=frozenset({"blocked"})),
    )


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


def _find_norm(node: fx.Node) -> Match | None:
    """A norm, and what alone reads its images: images that are added, a rectifier."""
    if not _is_norm(node):
        return None
    parts = {user.args[1]: user for user in node.users}
    if len(parts) != len(node.users) or 0 not in parts:
        return None
    result = parts[0]
    nodes, other = _find_readers(result)
    # Statistics may be read before the images are.
    if any(user < nodes[-1] for place, part in parts.items() if place for user in part.users):
        nodes, other = [result], None
    root = nodes[-1] if len(nodes) > 1 else node
    parts[0] = nodes[-1]
    others = [old for old in (*reversed(nodes), *parts.values(), node) if old is not root]
    return matched(
        root, *others, norm=node, places=list(parts), parts=list(parts.values()), added=other, joins=len(nodes) > 1
    )


def _find_readers(result: fx.Node) -> tuple[list[fx.Node], fx.Node | None]:
    """The nodes that one call can stand for, from the result on, and what is added there."""
    reader = find_only_user(result)
    if reader is None:
        return [result], None
    if reader.target is aten.relu.default:
        return [result, reader], None
    rectifier = find_only_user(reader)
    if reader.target is not aten.add.Tensor or reader.kwargs or rectifier is None:
        return [result], None
    others = [value for value in reader.args if value is not result]
    if rectifier.target is not aten.relu.default or len(others) != 1 or not isinstance(others[0], fx.Node):
        return [result], None
    added = others[0].meta["val"]
    if added.dtype is not torch.float32 or added.shape != result.meta["val"].shape:
        return [result], None
    return [result, reader, rectifier], others[0]


def _normalize_at_once(run: Run, match: Match, writer: Writer) -> None:
    norm = match["norm"]
    images, weight, bias, mean, variance, _, momentum, epsilon = norm.args
    settings = (momentum, epsilon, match["added"], match["joins"], run)
    joined = writer.call(normalize, images, weight, bias, mean, variance, *settings, like=norm)
    for place, old in zip(match["places"], match["parts"], strict=True):
        writer.replace(old, writer.call(operator.getitem, joined, place, like=old))


def _find_gradients(node: fx.Node) -> Match | None:
    """The gradients of a norm, and what blocks the gradient that it reads."""
    if not _is_gradient(node):
        return None
    blocked: Any = node.args[0]
    gradient, results = blocked, None
    if blocked.target is aten.threshold_backward.default and blocked.args[2] == 0:
        operands = blocked.args[:2]
        alike = all(
            isinstance(value, fx.Node) and value.meta["val"].shape == blocked.meta["val"].shape for value in operands
        )
        if alike and not any(user < node for user in blocked.users):
            gradient, results = operands
    keeps = results is not None and len(blocked.users) > 1
    taken = [] if results is None else [blocked]
    return matched(node, *taken, gradient=gradient, results=results, blocked=blocked, keeps=keeps)


def _differentiate_at_once(run: Run, match: Match, writer: Writer) -> fx.Node:
    _, images, weight, _, _, mean, inverse, _, epsilon, _ = match.root.args
    gradient, results, blocked, keeps = (match[name] for name in ("gradient", "results", "blocked", "keeps"))
    settings = (images, weight, mean, inverse, epsilon, keeps, is_last_use(gradient), run)
    joined = writer.call(differentiate, gradient, results, *settings)
    if keeps:
        writer.replace(blocked, writer.call(operator.getitem, joined, 3, like=blocked))
    return joined
