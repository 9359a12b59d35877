"""One node of the domain ai.graphcore as a model that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from onnx import TensorProto, helper, numpy_helper

from openipu.model_files import run_file

_KINDS = {
    torch.float32: TensorProto.FLOAT,
    torch.float16: TensorProto.FLOAT16,
    torch.int32: TensorProto.INT32,
    torch.uint32: TensorProto.UINT32,
    torch.uint8: TensorProto.UINT8,
    torch.bool: TensorProto.BOOL,
}


def make_graphcore_model(
    nodes: Sequence[Any],
    inputs: Mapping[str, torch.Tensor],
    outputs: Sequence[str],
    weights: Mapping[str, np.ndarray] | None = None,
    *,
    opset: int = 10,
) -> bytes:
    """A model with the inputs' shapes and number formats."""
    entries = [
        helper.make_tensor_value_info(name, _KINDS[value.dtype], list(value.shape)) for name, value in inputs.items()
    ]
    graph = helper.make_graph(
        list(nodes),
        "graph",
        entries,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (weights or {}).items()],
    )
    sets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.graphcore", 1)]
    return bytes(helper.make_model(graph, opset_imports=sets).SerializeToString())


def make_call(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    """A node of ai.graphcore."""
    return helper.make_node(op, list(inputs), list(outputs), domain="ai.graphcore", **attributes)


def make_body(nodes: Sequence[Any], inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    """A graph for a node of its own."""
    return helper.make_graph(
        list(nodes),
        "body",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in inputs],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )


def run_op(op: str, *inputs: torch.Tensor | None, outputs: int = 1, **attributes: Any) -> list[torch.Tensor]:
    """The results of one node on these inputs; None is an input that is left out."""
    given = {f"x{place}": value for place, value in enumerate(inputs) if value is not None}
    names = [f"x{place}" if value is not None else "" for place, value in enumerate(inputs)]
    results = [f"y{place}" for place in range(outputs)]
    model = make_graphcore_model([make_call(op, names, results, **attributes)], given, results)
    return list(run_file(model, given).values())
