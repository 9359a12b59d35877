"""Shapes of what a builder's nodes make, as they are added: by the rules that will also run them.

In: a node, and what is known of its inputs: real tensors for constants, meta tensors for all else. Out: the same of its
outputs, or None where an op is unknown, or a shape depends on data. Nothing is computed but constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import torch

from openipu.capture import PlainResults
from openipu.errors import OpenIpuError
from openipu.translate import ForeignGraph, ForeignNode
from openipu.translate import DEEPEST_BODY
from openipu.translate.onnx import read_model
from openipu.translate.onnx import TABLE
from openipu.translate import Site

_MOST_ELEMENTS = 1 << 16  # of a constant that is computed while a graph is built
Known = Mapping[str, torch.Tensor]


def infer_outputs(node: onnx.NodeProto, known: Known, opsets: Mapping[str, int]) -> list[torch.Tensor | None]:
    """What is known of a node's outputs, in their order."""
    nothing: list[torch.Tensor | None] = [None] * len(node.output)
    if node.op_type == "Ctc" and node.input[0] in known:
        return [_infer_ctc(node, known[node.input[0]]), *nothing][: len(node.output)]
    if node.op_type == "Nll" and all(name in known for name in node.input):  # whatever the labels, a session checks them
        return [_infer_nll(node, *(known[name] for name in node.input[:2]))]
    for where in ("cpu", "meta"):  # a rule may make tensors of its own, which then meet those without data
        try:
            with torch.no_grad(), torch.device(where), PlainResults():
                found = _run(_read_node(node, known, opsets), known, 0)
            return [*found, *nothing][: len(node.output)]
        except (OpenIpuError, RuntimeError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError):
            continue  # the session says what is wrong, with all that it knows
    return nothing


def _infer_ctc(node: onnx.NodeProto, probabilities: torch.Tensor) -> torch.Tensor:
    """PyTorch's rule looks at the lengths, which are data."""
    kept = any(entry.name == "reduction" and entry.s == b"None" for entry in node.attribute)
    return torch.empty(probabilities.shape[1:2] if kept else (), dtype=probabilities.dtype, device="meta")


def _infer_nll(node: onnx.NodeProto, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    kept = any(entry.name == "reduction" and entry.s == b"None" for entry in node.attribute)
    return torch.empty(labels.shape if kept else (), dtype=x.dtype, device="meta")


def shrink(value: torch.Tensor) -> torch.Tensor:
    """A constant, or its shape alone where it is large."""
    return value if value.is_meta or value.numel() <= _MOST_ELEMENTS else value.to("meta")


def _read_node(node: onnx.NodeProto, known: Known, opsets: Mapping[str, int]) -> ForeignNode:
    graph = onnx.GraphProto(name="node")
    graph.node.add().CopyFrom(node)
    has_bodies = any(entry.HasField("g") for entry in node.attribute)  # these may read any tensor around them
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in (known if has_bodies else set(node.input)) if name)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
    model = onnx.ModelProto(ir_version=4, graph=graph)
    for domain, version in opsets.items():
        model.opset_import.add(domain=domain, version=version)
    return read_model(model.SerializeToString()).graph.nodes[0]


def _run(node: ForeignNode, known: Known, depth: int) -> Sequence[torch.Tensor | None]:
    if depth > DEEPEST_BODY:
        raise ValueError("too deep")

    def run_body(body: ForeignGraph, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        inside: dict[str, torch.Tensor] = {**known}
        inside |= {name: shrink(weight.read()) for name, weight in body.weights.items()}
        inside |= dict(zip(body.inputs, inputs, strict=False))
        for one in body.nodes:
            made = zip(one.outputs, _run(one, inside, depth + 1), strict=False)
            inside |= {name: value for name, value in made if name and value is not None}
        return [inside[name] for name in body.outputs]

    inputs = tuple(known[name] if name else None for name in node.inputs)
    rule = TABLE.need(node, "")
    has_bodies = any(isinstance(value, ForeignGraph) for value in node.attributes.values())
    constant = rule.folds and not has_bodies and all(value is None or not value.is_meta for value in inputs)
    site = Site(node, inputs, "", run_body, False, None if constant else _forget)
    found: Any = rule.handler(site)
    results = (found,) if found is None or isinstance(found, torch.Tensor) else tuple(found)
    return [None if value is None else shrink(value) for value in results]


def _forget(value: torch.Tensor) -> torch.Tensor:
    return value if value.is_meta else value.to("meta")
