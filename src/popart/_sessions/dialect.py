"""Where PopART reads a model otherwise than ONNX says.

In: a model. Out: the same, with attributes that tell the rules of translation so; popart_exception for what PopART
refuses. A reduction over an empty list of axes reduces nothing; a scan's slices keep the dimension that is scanned, and
what it collects is joined along it; random ops have no seeds of their own; the padding of transposed convolutions is at
the side where ONNX first said it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from openipu.translate import ForeignGraph, ForeignNode
from openipu.translate.onnx import STRIDED_CHANNELS, OnnxModel
from popart._exceptions import popart_exception
from popart._options import SessionOptions

KEEPS_SLICES = "__keeps_slices"
_RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
RANDOM_OPS = (*_RANDOM, "Dropout", "ShapedDropout")
_DOUBLE = 11
_OTHER_SIDE = {"SAME_UPPER": "SAME_LOWER", "SAME_LOWER": "SAME_UPPER"}  # as ONNX said it up to operator set 11


def adapt(model: OnnxModel, options: SessionOptions) -> OnnxModel:
    """The model as PopART reads it under these options."""
    return replace(model, graph=_adapt_graph(model.graph, bool(options.groupNormStridedChannelGrouping)))


def _adapt_graph(graph: ForeignGraph, strided: bool) -> ForeignGraph:
    doubles = {name for name, kind in graph.inputs.items() if kind.dtype is torch.float64}
    for node in graph.nodes:
        if node.op in _RANDOM and "dtype" not in node.attributes and doubles.intersection(node.inputs):
            raise popart_exception(f"{node.title}: Unsupported data type requested: DOUBLE")
    return replace(graph, nodes=tuple(_adapt_node(node, strided) for node in graph.nodes))


def _adapt_node(node: ForeignNode, strided: bool) -> ForeignNode:
    if node.domain:
        added: dict[str, Any] = {STRIDED_CHANNELS: 1} if strided and node.op == "GroupNormalization" else {}
    else:
        _check(node)
        added = _find_attributes(node)
    added |= {
        name: _adapt_graph(value, strided) for name, value in node.attributes.items() if isinstance(value, ForeignGraph)
    }
    return replace(node, attributes={**node.attributes, **added}) if added else node


def _find_attributes(node: ForeignNode) -> dict[str, Any]:
    if node.op.startswith("Reduce") and node.attributes.get("axes") == []:
        return {"noop_with_empty_axes": 1}
    if node.op == "Scan" and node.version >= 9:
        return {KEEPS_SLICES: 1}
    if node.op == "ConvTranspose":
        padding = node.attributes.get("auto_pad", "NOTSET")
        if padding in _OTHER_SIDE:
            return {"auto_pad": _OTHER_SIDE[padding]}
        if padding == "NOTSET" and node.attributes.get("output_shape"):
            return {"auto_pad": "SAME_UPPER"}
    return {}


def _check(node: ForeignNode) -> None:
    if node.op in _RANDOM:
        if "seed" in node.attributes:
            raise popart_exception(
                f"{node.title}: Optional seed attribute is not supported. Use session::setRandomSeed instead."
            )
        if node.attributes.get("dtype") == _DOUBLE:
            raise popart_exception(f"{node.title}: The data type DOUBLE is not supported in Poplar")
    if node.op == "Constant" and "sparse_value" in node.attributes:
        raise popart_exception("The Constant op attribute 'sparse_value' is not supported.")
