"""Small ONNX models for tests, written with the package's own helpers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

KINDS = {
    "float32": TensorProto.FLOAT,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
    "float16": TensorProto.FLOAT16,
}


def make_model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[int | str | None]],
    outputs: Sequence[str],
    weights: Mapping[str, np.ndarray] | None = None,
    *,
    opset: int = 21,
    kinds: Mapping[str, str] | None = None,
) -> Any:
    """A `ModelProto`. Inputs are float32 unless `kinds` says otherwise; outputs say nothing of their types."""
    given = kinds or {}
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [
            helper.make_tensor_value_info(name, KINDS[given.get(name, "float32")], list(shape))
            for name, shape in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def make_perceptron(batch: int | str = "batch") -> Any:
    """Two layers with weights that are large enough to lie in a file of their own."""
    rng = np.random.default_rng(0)
    weights = {
        "first": rng.standard_normal((16, 32)).astype(np.float32),
        "second": rng.standard_normal((32, 4)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["hidden"], name="/encoder/product"),
        helper.make_node("Relu", ["hidden"], ["active"], name="/encoder/relu"),
        helper.make_node("MatMul", ["active", "second"], ["y"], name="/head/product"),
    ]
    return make_model(nodes, {"x": [batch, 16]}, ["y"], weights)
