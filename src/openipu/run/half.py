"""Half-precision products at the speed of single precision.

In: a draft. Out: the same draft, in which matrix products and convolutions of half-precision operands are computed in
float32 and their results rounded to half. That is what an IPU does (half operands, float32 partials); CPUs have no
quick half-precision products. Operators that PyTorch has no half-precision kernel for on CPUs are treated alike.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from openipu.run.draft import Draft

aten = torch.ops.aten

_PRODUCTS = frozenset(
    {
        aten.mm.default,
        aten.addmm.default,
        aten.bmm.default,
        aten.baddbmm.default,
        aten.convolution.default,
        aten.convolution_backward.default,
    }
)
_WITHOUT_HALF_KERNEL = frozenset(
    {
        aten._cdist_forward.default,
        aten._cdist_backward.default,
        aten._pdist_forward.default,
        aten._pdist_backward.default,
        aten._ctc_loss.default,
        aten._ctc_loss.Tensor,
        aten._ctc_loss_backward.default,
        aten._ctc_loss_backward.Tensor,
        aten._standard_gamma.default,
        aten.avg_pool3d.default,
        aten.avg_pool3d_backward.default,
        aten.multi_margin_loss.default,
        aten.multi_margin_loss_backward.default,
        aten.multilabel_margin_loss_forward.default,
        aten.multilabel_margin_loss_backward.default,
        aten.rrelu_with_noise_functional.default,
        aten.rrelu_with_noise_backward.default,
    }
)
_WIDENED = _PRODUCTS | _WITHOUT_HALF_KERNEL


def widen_half_products(draft: Draft) -> None:
    """Compute half-precision products, and what has no half-precision kernel, in float32."""
    widened: dict[fx.Node, fx.Node] = {}
    for node in list(draft.graph.nodes):
        if node.target not in _WIDENED or not any(_is_half(source) for source in node.all_input_nodes):
            continue
        for source in node.all_input_nodes:
            if _is_half(source):
                node.replace_input_with(source, _widen(draft.graph, node, source, widened))
        values = node.meta.get("val")
        if isinstance(values, torch.Tensor):
            _round_result(draft.graph, node)
            node.meta = {**node.meta, "val": values.to(torch.float32)}
            continue
        for user in list(node.users):
            if user.target is operator.getitem and _is_half(user):
                _round_result(draft.graph, user)
                user.meta = {**user.meta, "val": user.meta["val"].to(torch.float32)}
        node.meta = {**node.meta, "val": _widen_values(values)}


def _widen(graph: fx.Graph, before: fx.Node, source: fx.Node, widened: dict[fx.Node, fx.Node]) -> fx.Node:
    """A float32 copy of a value, made once: nodes are visited in order, so the first copy precedes all its readers."""
    if source not in widened:
        with graph.inserting_before(before):
            wide = graph.call_function(aten._to_copy.default, (source,), {"dtype": torch.float32})
        wide.meta = {**source.meta, "val": source.meta["val"].to(torch.float32)}
        widened[source] = wide
    return widened[source]


def _round_result(graph: fx.Graph, node: fx.Node) -> None:
    """Let all readers see the result rounded to half."""
    with graph.inserting_after(node):
        rounded = graph.call_function(aten._to_copy.default, (node,), {"dtype": torch.float16})
    rounded.meta = dict(node.meta)
    node.replace_all_uses_with(rounded, delete_user_cb=lambda user: user is not rounded)


def _widen_values(values: Any) -> Any:
    if not isinstance(values, list | tuple):
        return values
    return [
        value.to(torch.float32) if isinstance(value, torch.Tensor) and value.dtype is torch.float16 else value
        for value in values
    ]


def _is_half(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype is torch.float16
