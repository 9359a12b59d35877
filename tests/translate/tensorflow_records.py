"""Foreign graphs as JSON and back: for values that TensorFlow computed elsewhere."""

from __future__ import annotations

from typing import Any

import torch

from openipu.translate.foreign import ForeignGraph, ForeignNode, TensorType


def pack_graph(graph: ForeignGraph) -> dict[str, Any]:
    return {
        "name": graph.name,
        "inputs": [[name, _name(kind.dtype), kind.shape] for name, kind in graph.inputs.items()],
        "outputs": list(graph.outputs),
        "nodes": [
            [node.op, list(node.inputs), list(node.outputs), node.name, _pack(dict(node.attributes))]
            for node in graph.nodes
        ],
    }


def unpack_graph(record: dict[str, Any]) -> ForeignGraph:
    inputs = {
        name: TensorType(getattr(torch, dtype), None if shape is None else tuple(shape))
        for name, dtype, shape in record["inputs"]
    }
    nodes = tuple(
        ForeignNode(op, tuple(inputs), tuple(outputs), _unpack(attributes), name=name, number=number)
        for number, (op, inputs, outputs, name, attributes) in enumerate(record["nodes"])
    )
    return ForeignGraph(record["name"], nodes, inputs, tuple(record["outputs"]))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _pack(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return {"dtype": _name(value)}
    if isinstance(value, torch.Tensor):
        return {"tensor": value.reshape(-1).tolist(), "of": _name(value.dtype), "shape": list(value.shape)}
    if isinstance(value, ForeignGraph):
        return {"graph": pack_graph(value)}
    if isinstance(value, dict):
        return {"map": {key: _pack(item) for key, item in value.items()}}
    return [_pack(item) for item in value] if isinstance(value, list) else value


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "dtype" in value:
        return getattr(torch, value["dtype"])
    if "tensor" in value:
        return torch.tensor(value["tensor"], dtype=getattr(torch, value["of"])).reshape(value["shape"])
    if "graph" in value:
        return unpack_graph(value["graph"])
    return {key: _unpack(item) for key, item in value["map"].items()}
