"""Attention of inference in one call, by PyTorch's own kernel for processors.

In: a draft of an inference program, in which attention is written out as an IPU runs it: a product, a softmax, another
product, and copies of all operands between. Out: the same draft with one call in their place, where nobody reads
anything between. The kernel goes over blocks of scores that stay in the cache, reads heads where they lie and writes
them beside one another, as the next product reads them: half to two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.rules import Match, Rule, Search, find_only_user, matched

aten = torch.ops.aten

_attend = aten._scaled_dot_product_flash_attention_for_cpu.default._op
_VIEWS = frozenset({aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.expand.default})
_FACTORS: dict[Any, Callable[[float], float]] = {
    aten.mul.Scalar: lambda factor: factor,
    aten.mul.Tensor: lambda factor: factor,
    aten.div.Scalar: lambda factor: 1 / factor,
    aten.div.Tensor: lambda factor: 1 / factor,
}
_HEADS = 4  # dimensions: samples, heads, places, features


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    transposed: bool,
    joined: bool,
    safe: bool,
) -> torch.Tensor:
    """The result by heads; or, joined, with the heads of each place beside one another in memory. `safe`: what has
    nothing to look at becomes zero."""
    places = key.transpose(2, 3) if transposed else key
    operands = (_lay_out(query), _lay_out(places), _lay_out(value))
    found: torch.Tensor
    found, sums = _attend(*operands, 0.0, False, attn_mask=mask, scale=scale)
    # The kernel makes zeros of a place whose scores are all hidden, and also where none of them is a number.
    if bool((sums == 0).any()) and (mask is None or not _are_finite(query, places)):
        found = _attend_plainly(query, places, value, mask, scale, safe)
    return found.transpose(1, 2).contiguous() if joined else found


def _are_finite(*operands: torch.Tensor) -> bool:
    return all(bool(operand.isfinite().all()) for operand in operands)


def _attend_plainly(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scale: float, safe: bool
) -> torch.Tensor:
    """The same by operators."""
    scores = query @ key.transpose(2, 3) * scale
    scores = scores if mask is None else scores + mask
    return (aten._safe_softmax(scores, -1) if safe else torch.softmax(scores, -1)) @ value


def _lay_out(heads: torch.Tensor) -> torch.Tensor:
    """The kernel reads features that lie beside one another."""
    return heads if heads.stride(3) == 1 else heads.contiguous()


def _find(softmax: fx.Node) -> Match | None:
    """All that makes up softmax(scale * query @ key.T + mask) @ value."""
    shape = _shape_of(softmax)
    if len(shape) != _HEADS or softmax.args[1] not in (-1, _HEADS - 1) or not _is_float(softmax):
        return None
    found, scores = _find_heads(softmax), _read_scores(softmax)
    if found is None or scores is None:
        return None
    (last, values), (product, mask, scale) = found, scores
    query, query_factor = _peel(product.args[0])
    key, key_factor = _peel(product.args[1])
    transposed = not _exchanges(key, 2, 3)  # features by places
    if not transposed:
        key, factor = _peel(key.args[0])
        key_factor *= factor
    value, value_factor = _peel(values)
    samples, heads, places, width = _shape_of(last)
    if 0 in (*_shape_of(last), *shape, _shape_of(query)[-1]):
        return None  # the kernel divides by sizes
    expected = (
        (query, (samples, heads, places, width)),
        (key, (samples, heads, width, shape[3]) if transposed else (samples, heads, shape[3], width)),
        (value, (samples, heads, shape[3], width)),
    )
    if value_factor != 1 or any(not _is_float(node) or _shape_of(node) != size for node, size in expected):
        return None
    joined = _find_joined(last)
    safe = softmax.target is aten._safe_softmax.default
    operands = (query, key, value, mask, scale * query_factor * key_factor, transposed, joined is not None, safe)
    return matched(last if joined is None else joined, operands=operands)


def _find_heads(softmax: fx.Node) -> tuple[fx.Node, Any] | None:
    """The product with the values, by samples and heads, and these, if nobody reads anything before it."""
    weights = _skip_views(softmax)
    product = find_only_user(weights)
    if product is None or product.target is not aten.bmm.default or product.args[0] is not weights:
        return None
    last = _skip_views(product)
    return (last, product.args[1]) if _joins(_shape_of(last), _shape_of(product)) else None


def _read_scores(softmax: fx.Node) -> tuple[fx.Node, fx.Node | None, float] | None:
    """The product in front of a softmax, what is added to it, and what it is multiplied by before."""
    node: Any = softmax.args[0]
    mask: Any = None
    scale = 1.0
    while isinstance(node, fx.Node) and len(node.users) == 1:
        if node.target is aten.bmm.default:
            return node, mask, scale
        factor = _read_factor(node)
        if factor is not None:
            scale *= factor
            node = node.args[0]
        elif _is_same(node):
            node = node.args[0]
        elif node.target is aten.add.Tensor and mask is None and scale == 1:
            # What has nothing to look at becomes zero there; with the plain softmax it is not a number.
            if softmax.target is not aten._safe_softmax.default or node.kwargs or len(node.args) != 2:
                return None
            node, mask = node.args
            if not _is_mask(mask, softmax):
                node, mask = mask, node
            if not _is_mask(mask, softmax):
                return None
        else:
            return None
    return None


def _is_mask(node: Any, softmax: fx.Node) -> bool:
    """Something to add to scores that is not itself made of them."""
    if not isinstance(node, fx.Node) or not _is_float(node) or _leads_to_product(node):
        return False
    whole, size = _shape_of(softmax), _shape_of(node)
    if len(size) not in (2, _HEADS):
        return False
    return all(count in (1, most) for count, most in zip(size, whole[-len(size) :], strict=True))


def _leads_to_product(node: fx.Node) -> bool:
    while node.target is not aten.bmm.default:
        if not (_is_same(node) or _read_factor(node) is not None) or not isinstance(node.args[0], fx.Node):
            return False
        node = node.args[0]
    return True


def _peel(node: Any) -> tuple[fx.Node, float]:
    """The heads that an operand of a product is a copy of, and what they were multiplied by."""
    scale = 1.0
    while True:
        factor = _read_factor(node)
        if factor is not None:
            scale *= factor
        elif node.target is not aten.clone.default and not (
            _is_same(node) and not _joins(_shape_of(node), _shape_of(node.args[0]))
        ):
            return node, scale
        node = node.args[0]


def _read_factor(node: fx.Node) -> float | None:
    """The number that a value is multiplied by."""
    if node.target not in _FACTORS or node.kwargs or not isinstance(node.args[0], fx.Node):
        return None
    factor = node.args[1]
    if isinstance(factor, bool) or not isinstance(factor, int | float) or factor == 0:
        return None
    return _FACTORS[node.target](factor)


def _is_same(view: fx.Node) -> bool:
    """Whether a view has the shape of its source, or has samples and heads joined or parted."""
    if view.target not in _VIEWS or not isinstance(view.args[0], fx.Node):
        return False
    own, source = _shape_of(view), _shape_of(view.args[0])
    return own == source or _joins(own, source) or _joins(source, own)


def _joins(parted: tuple[int, ...], joined: tuple[int, ...]) -> bool:
    alike = len(parted) == _HEADS and len(joined) == _HEADS - 1 and parted[2:] == joined[1:]
    return alike and parted[0] * parted[1] == joined[0]


def _exchanges(node: fx.Node, first: int, second: int) -> bool:
    """Whether a view exchanges these two of four dimensions."""
    if node.target not in (aten.transpose.int, aten.permute.default) or len(_shape_of(node)) != _HEADS:
        return False
    arguments: Any = node.args[1:]
    if node.target is aten.transpose.int:
        return {dim % _HEADS for dim in arguments} == {first, second}
    order = list(range(_HEADS))
    order[first], order[second] = second, first
    return [dim % _HEADS for dim in arguments[0]] == order


def _find_joined(heads: fx.Node) -> fx.Node | None:
    """A copy in which the heads of each place lie beside one another, if nothing else is made of the heads."""
    turned = find_only_user(heads)
    copy = find_only_user(turned) if turned is not None and _exchanges(turned, 1, 2) else None
    if copy is None or copy.target is not aten.clone.default:
        return None
    return copy if copy.kwargs.get("memory_format") is torch.contiguous_format else None


def _skip_views(node: fx.Node) -> fx.Node:
    """The last of the views that follow, each of which is all that becomes of the one before."""
    while (user := find_only_user(node)) is not None and user.target in _VIEWS and _is_same(user):
        node = user
    return node


def _shape_of(node: fx.Node) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)


def _is_float(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype is torch.float32


RULES = (
    Rule(
        "written-out attention",
        Search((aten._safe_softmax.default, aten._softmax.default), _find),
        lambda match, writer: writer.call(attend, *match["operands"]),
    ),
)
