"""Products with their bias as one op, as TensorFlow's own optimizer fuses them.

In: a flat graph, and the tensors that somebody wants. Out: the same graph, in which a bias that is added to the result
of a convolution or of a matrix product, and to nothing else, is an input of that op. One pass over the result is saved.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from openipu.translate.foreign import ForeignGraph, ForeignNode

_PRODUCTS = {"Conv2D": 2, "Conv3D": 2, "DepthwiseConv2dNative": 2, "MatMul": 2}  # op -> inputs without a bias


def fuse_biases(graph: ForeignGraph, wanted: Iterable[str]) -> ForeignGraph:
    """`wanted`: tensors that must stay."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    reads = Counter(name for node in graph.nodes for name in node.inputs)
    reads.update(wanted)
    reads.update(name for node in graph.nodes for name in _list_captured(node))
    fused: dict[int, ForeignNode] = {}
    gone: set[int] = set()
    for node in graph.nodes:
        product = makers.get(node.inputs[0]) if node.op == "BiasAdd" else None
        if product is not None and reads[node.inputs[0]] == 1 and _go_together(product, node):
            gone.add(id(product))
            fused[id(node)] = dataclasses.replace(
                product, inputs=(*product.inputs, node.inputs[1]), outputs=node.outputs
            )
    nodes = tuple(fused.get(id(node), node) for node in graph.nodes if id(node) not in gone)
    return dataclasses.replace(graph, nodes=nodes)


def _go_together(product: ForeignNode, bias: ForeignNode) -> bool:
    if len(product.inputs) != _PRODUCTS.get(product.op) or product.place != bias.place:
        return False
    if _list_marks(product.attributes) != _list_marks(bias.attributes):
        return False
    last = str(bias.attributes.get("data_format", "NHWC")).endswith("C")
    return product.op == "MatMul" or last == str(product.attributes.get("data_format", "NHWC")).endswith("C")


def _list_marks(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What scopes have said of a node."""
    return {key: value for key, value in attributes.items() if key.startswith("_") and not key.startswith("_output")}


def _list_captured(node: ForeignNode) -> set[str]:
    """Tensors of the graph around that graphs inside a node read."""
    return {name for body in node.bodies for inner in body.nodes for name in inner.inputs}
