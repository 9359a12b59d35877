"""Ops of TensorFlow that become one: the same values from fewer ops, and no fusing where somebody reads in between."""

from __future__ import annotations

import pytest
import torch

from openipu.translate.foreign import ForeignGraph, ForeignNode, Place, TensorType
from openipu.translate.interpret import Interpreter
from openipu.translate.tensorflow.fusing import SOFTMAX_GRADIENT, fuse_ops
from openipu.translate.tensorflow.table import TABLE

CONVOLUTION = {"strides": [1, 1, 1, 1], "padding": "SAME", "data_format": "NHWC"}


def make_values(**shapes):
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def make_graph(nodes, values, outputs):
    numbered = tuple(node if node.name else replace_name(node) for node in nodes)
    inputs = {name: TensorType(value.dtype, tuple(value.shape)) for name, value in values.items()}
    return ForeignGraph("graph", numbered, inputs, tuple(outputs))


def replace_name(node):
    return ForeignNode(node.op, node.inputs, node.outputs, node.attributes, name=node.outputs[0], place=node.place)


def run(graph, values):
    return Interpreter(TABLE).run(graph, values, dict.fromkeys(graph.outputs))


def list_ops(graph):
    return [node.op for node in graph.nodes]


def check(graph, values, ops):
    fused = fuse_ops(graph, graph.outputs)
    assert list_ops(fused) == ops
    found, wanted = run(fused, values), run(graph, values)
    for name in graph.outputs:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-5, atol=1e-6)
    return fused


PRODUCTS = {
    "Conv2D": (make_values(x=(2, 5, 5, 3), w=(3, 3, 3, 4), b=(4,)), CONVOLUTION),
    "DepthwiseConv2dNative": (make_values(x=(2, 5, 5, 3), w=(3, 3, 3, 2), b=(6,)), CONVOLUTION),
    "MatMul": (make_values(x=(2, 3), w=(3, 4), b=(4,)), {}),
}


def make_product(op, **bias_options):
    values, attributes = PRODUCTS[op]
    nodes = [
        ForeignNode(op, ("x", "w"), ("product",), attributes),
        ForeignNode("BiasAdd", ("product", "b"), ("sum",), **bias_options),
    ]
    return nodes, values


@pytest.mark.parametrize("op", PRODUCTS)
def test_a_bias_is_an_input_of_the_product_that_it_is_added_to(op):
    nodes, values = make_product(op)
    fused = check(make_graph(nodes, values, ["sum"]), values, [op])
    assert fused.nodes[0].inputs == ("x", "w", "b")
    assert fused.nodes[0].outputs == ("sum",)


def test_a_product_that_somebody_wants_stays():
    nodes, values = make_product("Conv2D")
    check(make_graph(nodes, values, ["sum", "product"]), values, ["Conv2D", "BiasAdd"])


def test_a_product_that_another_op_reads_stays():
    nodes, values = make_product("MatMul")
    nodes.append(ForeignNode("Relu", ("product",), ("positive",)))
    check(make_graph(nodes, values, ["sum", "positive"]), values, ["MatMul", "BiasAdd", "Relu"])


def test_a_product_that_the_body_of_a_loop_reads_stays():
    nodes, values = make_product("MatMul")
    body = make_graph([ForeignNode("Relu", ("product",), ("inner",))], {}, ["inner"])
    nodes.append(ForeignNode("While", (), ("looped",), {"body": body}))
    assert list_ops(fuse_ops(make_graph(nodes, values, ["sum"]), ["sum"])) == ["MatMul", "BiasAdd", "While"]


def test_a_bias_on_another_ipu_stays_there():
    nodes, values = make_product("MatMul", place=Place(ipu=1))
    check(make_graph(nodes, values, ["sum"]), values, ["MatMul", "BiasAdd"])


def test_a_bias_along_another_dimension_stays():
    values = make_values(x=(2, 4, 4, 3), w=(3, 3, 3, 4), b=(4,))
    nodes = [
        ForeignNode("Conv2D", ("x", "w"), ("product",), CONVOLUTION),
        ForeignNode("BiasAdd", ("product", "b"), ("sum",), {"data_format": "NCHW"}),
    ]
    check(make_graph(nodes, values, ["sum"]), values, ["Conv2D", "BiasAdd"])


def make_softmax_gradient(axis=-1):
    values = make_values(x=(2, 3, 3), g=(2, 3, 3))
    nodes = [
        ForeignNode("Softmax", ("x",), ("y",)),
        ForeignNode("Mul", ("g", "y"), ("weighted",)),
        ForeignNode("Const", (), ("axes",), {"value": torch.tensor([axis], dtype=torch.int32)}),
        ForeignNode("Sum", ("weighted", "axes"), ("total",), {"keep_dims": True}),
        ForeignNode("Sub", ("g", "total"), ("difference",)),
        ForeignNode("Mul", ("difference", "y"), ("result",)),
    ]
    return nodes, values


def test_the_gradient_of_a_softmax_is_one_op():
    nodes, values = make_softmax_gradient()
    check(make_graph(nodes, values, ["result"]), values, ["Softmax", "Const", SOFTMAX_GRADIENT])


@pytest.mark.parametrize(
    ("axis", "outputs"), [(1, ["result"]), (-1, ["result", "total"]), (-1, ["result", "weighted"])]
)
def test_what_only_looks_like_the_gradient_of_a_softmax_stays(axis, outputs):
    nodes, values = make_softmax_gradient(axis)
    check(make_graph(nodes, values, outputs), values, [node.op for node in nodes])
