"""Ops that belong together as one op, as TensorFlow's own optimizer fuses them.

In: a flat graph, and the tensors that somebody wants. Out: the same graph, in which a bias that is added to the result
of a convolution or of a matrix product, and to nothing else, is an input of that op; and in which the four ops of a
softmax' gradient are one. Each saves passes over memory.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from openipu.translate.foreign import ForeignGraph, ForeignNode

SOFTMAX_GRADIENT = "IpuSoftmaxGrad"  # (gradient, result of the softmax)
_PRODUCTS = {"Conv2D": 2, "Conv3D": 2, "DepthwiseConv2dNative": 2, "MatMul": 2}  # op -> inputs without a bias


def fuse_ops(graph: ForeignGraph, wanted: Iterable[str]) -> ForeignGraph:
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
        elif node.op == "Mul":
            found = _find_softmax_gradient(node, makers, reads)
            if found is not None:
                gradient, result, inner = found
                gone.update(id(entry) for entry in inner)
                fused[id(node)] = dataclasses.replace(
                    node, op=SOFTMAX_GRADIENT, inputs=(gradient, result), attributes=_list_marks(node.attributes)
                )
    nodes = tuple(fused.get(id(node), node) for node in graph.nodes if id(node) not in gone)
    return dataclasses.replace(graph, nodes=nodes)


def _find_softmax_gradient(
    last: ForeignNode, makers: Mapping[str, ForeignNode], reads: Mapping[str, int]
) -> tuple[str, str, list[ForeignNode]] | None:
    """(g - sum(g * y)) * y, where y is the result of a softmax: g, y, and the three ops inside."""
    for difference_name, result in (last.inputs, last.inputs[::-1]):
        difference, softmax = makers.get(difference_name), makers.get(result)
        if softmax is None or softmax.op != "Softmax" or difference is None or difference.op != "Sub":
            continue
        gradient, total = difference.inputs[0], makers.get(difference.inputs[1])
        if total is None or total.op != "Sum" or not total.attributes.get("keep_dims"):
            continue
        product, axes = makers.get(total.inputs[0]), makers.get(total.inputs[1])
        if product is None or product.op != "Mul" or sorted(product.inputs) != sorted((gradient, result)):
            continue
        alone = all(reads[entry.outputs[0]] == 1 for entry in (difference, total, product))
        if alone and axes is not None and axes.op == "Const" and _is_last(axes.attributes.get("value")):
            return gradient, result, [difference, total, product]
    return None


def _is_last(axes: Any) -> bool:
    return isinstance(axes, torch.Tensor) and axes.flatten().tolist() == [-1]


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
