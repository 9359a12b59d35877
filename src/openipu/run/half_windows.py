"""Half precision in front of windows, for the compiled tier.

In: a draft that is to be compiled. Out: the same draft, in which a half-precision value that an operator reads through
strided or overlapping windows is stored before it is read. Inductor would otherwise round every element again for every
window that holds it, one number at a time: a quarter of the time of a small convolutional network. `as_strided` with a
value's own shape and strides changes nothing; Inductor stores what it is taken of.
"""

from __future__ import annotations

import torch
from torch import fx

from openipu.run.draft import Draft

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
        if not isinstance(source, fx.Node):
            continue
        reader, value = node, source
        if not _is_half(source) and source.target is aten._to_copy.default and isinstance(source.args[0], fx.Node):
            reader, value = source, source.args[0]  # it computes in float32: what is converted for it is stored
        if value.op != "call_function" or not _is_half(value):
            continue
        if value not in stored:
            held = value.meta["val"]
            with draft.graph.inserting_before(reader):
                stored[value] = draft.graph.call_function(
                    aten.as_strided.default, (value, list(held.shape), list(held.stride()))
                )
            stored[value].meta = dict(value.meta)
        reader.replace_input_with(value, stored[value])


def _is_half(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype is torch.float16
