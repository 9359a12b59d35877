"""Half precision in front of windows, for the compiled tier.

In: a draft that is to be compiled. Out: the same draft, in which a half-precision value that an operator reads through
strided or overlapping windows is stored before it is read: in float32 if that is how it is read. Inductor would
otherwise round or convert every element again for every window that holds it, one number at a time: a quarter of the
time of a small convolutional network. `as_strided` with a value's own shape and strides changes nothing; Inductor
stores what it is taken of.
"""

from __future__ import annotations

import torch
from torch import fx

from openipu.run.drafts.draft import Draft

aten = torch.ops.aten

_WINDOWED = frozenset(
    {
        aten._adaptive_avg_pool2d.default,
        aten._adaptive_avg_pool3d.default,
        aten.adaptive_max_pool2d.default,
        aten.adaptive_max_pool3d.default,
        aten.avg_pool2d.default,
        aten.avg_pool3d.default,
        aten.im2col.default,
        aten.max_pool2d_with_indices.default,
        aten.max_pool3d_with_indices.default,
        aten.upsample_bicubic2d.vec,
        aten.upsample_bilinear2d.vec,
        aten.upsample_linear1d.vec,
        aten.upsample_trilinear3d.vec,
    }
)


def store_windowed_values(draft: Draft) -> None:
    """Let operators with windows read half-precision values from memory."""
    stored: dict[fx.Node, fx.Node] = {}
    for node in list(draft.graph.nodes):
        source = node.args[0] if node.op == "call_function" and node.target in _WINDOWED else None
        if not isinstance(source, fx.Node) or source.op != "call_function" or not _was_half(source):
            continue
        if source not in stored:
            held = source.meta["val"]
            with draft.graph.inserting_before(node):
                stored[source] = draft.graph.call_function(
                    aten.as_strided.default, (source, list(held.shape), list(held.stride()))
                )
            stored[source].meta = dict(source.meta)
        node.replace_input_with(source, stored[source])


def _was_half(node: fx.Node) -> bool:
    """Whether this is a half-precision value, or one as float32."""
    if node.target is aten._to_copy.default and isinstance(node.args[0], fx.Node):
        return _is_half(node) or _is_half(node.args[0])
    return _is_half(node)


def _is_half(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype is torch.float16
