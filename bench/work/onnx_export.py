"""A module as an ONNX file, by `torch.onnx`.

In: a module, its inputs, a path. Out: the file, with one input `x` and one output `y`. Of two operators that
Transformers' masks use, the exporter has no rule for one (the difference of neighbours), and one that ONNX Runtime does
not take for the other (sums of truth values): both get one here.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.onnx import symbolic_helper

OPSET = 17
_INT64 = 7  # as ONNX numbers its types
_COUNTED = ("Bool", "Byte", "Char", "Short", "Int")


def export_module(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], path: Path) -> None:
    """Write the file."""
    torch.onnx.register_custom_op_symbolic("aten::diff", _write_difference, OPSET)
    torch.onnx.register_custom_op_symbolic("aten::cumsum", _write_sums, OPSET)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = {"input_names": ["x"], "output_names": ["y"]}
        torch.onnx.export(module, inputs, path, dynamo=False, opset_version=OPSET, **names)


@symbolic_helper.parse_args("v", "i", "i", "v", "v")
def _write_difference(graph: Any, values: Any, order: int, dim: int, before: Any, after: Any) -> Any:
    """`torch.diff`: each number less the one before it."""
    parts = [part for part in (before, values, after) if not symbolic_helper._is_none(part)]
    joined = parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis_i=dim)
    for _ in range(order):
        later, earlier = _slice(graph, joined, dim, 1, sys.maxsize), _slice(graph, joined, dim, 0, -1)
        joined = graph.op("Sub", later, earlier)
    return joined


@symbolic_helper.parse_args("v", "i", "i")
def _write_sums(graph: Any, values: Any, dim: int, dtype: int | None) -> Any:
    """`torch.cumsum`, of whole numbers where there are truth values."""
    axis = graph.op("Constant", value_t=torch.tensor(dim))
    numbers = graph.op("Cast", values, to_i=_INT64) if values.type().scalarType() in _COUNTED else values
    return graph.op("CumSum", numbers, axis)


def _slice(graph: Any, values: Any, dim: int, start: int, end: int) -> Any:
    places = [graph.op("Constant", value_t=torch.tensor([place])) for place in (start, end, dim)]
    return graph.op("Slice", values, *places)
