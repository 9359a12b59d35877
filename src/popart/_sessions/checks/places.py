"""What PopART refuses about single nodes before a session is made or prepared: IPUs, patterns, number formats.

In: a placed model, options. Out: popart_exception, or poplar_exception where Poplar's libraries refuse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import torch

from openipu.translate import ForeignGraph, ForeignNode
from openipu.translate.onnx import OnnxModel
from popart._build.contexts import EXCLUDED
from popart._enumerations.sessions import VirtualGraphMode
from popart._exceptions import popart_exception, poplar_exception
from popart._options import SessionOptions
from popart._patterns import KNOWN

IPU = "__ipu_number"
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Pow", "Sum", "Mean", "MatMul", "Gemm", "Conv", "Neg", "Abs", "Relu")
_NARROW = (torch.int8, torch.uint8)
Types = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]


def check_nodes(model: OnnxModel, options: SessionOptions) -> None:
    """When a session is made."""
    _check_patterns(model.graph)
    if options.virtualGraphMode is VirtualGraphMode.Manual:
        _check_all_or_none(model.graph)
    if options.enablePipelining:
        _check_called(model.graph)


def check_formats(graph: ForeignGraph, types: Types) -> None:
    """When it is prepared: Poplar's libraries move and cast numbers of 8 bits, and do not reckon with them."""
    for node in graph.nodes:
        narrow = [name for name in node.inputs if name in types and types[name][0] in _NARROW]
        if narrow and not node.domain and node.op in _ARITHMETIC and node.inputs[0] not in graph.weights:
            kind = str(types[narrow[0]][0]).removeprefix("torch.")
            raise poplar_exception(
                f"{node.title} reckons with {kind} numbers ({narrow[0]!r}), which an IPU only moves and casts. Cast "
                "them to FLOAT16, FLOAT or INT32 first."
            )


def _check_patterns(graph: ForeignGraph) -> None:
    for node in graph.list_nodes():
        for name in node.attributes.get(EXCLUDED, None) or ():
            if name not in KNOWN:
                raise popart_exception(
                    f"Invalid pattern name '{name}' in Op::excludePatterns of {node.title}. Known are "
                    f"{', '.join(KNOWN)}."
                )


def _check_all_or_none(graph: ForeignGraph) -> None:
    """Nodes that are made of constants alone are computed on the host, and are nowhere."""
    constant = {name for name in graph.weights if not graph.weights[name].dtype.is_floating_point}
    counts: Counter[int] = Counter()
    missing: list[ForeignNode] = []
    for node in graph.nodes:
        if node.op == "Constant" or all(name in constant for name in node.inputs if name):
            constant.update(node.outputs)
        elif node.place.ipu is None:
            missing.append(node)
        else:
            counts[node.place.ipu] += 1
    if counts and missing:
        shown = ", ".join(f"{count} on {ipu}" for ipu, count in sorted(counts.items()))
        raise popart_exception(
            f"Either all Ops must have their virtual graph ids set, or none must: there are {shown}, and "
            f"{len(missing)} without one, such as {missing[0].title}."
        )


def _check_called(graph: ForeignGraph) -> None:
    """In a pipeline a subgraph is on the IPU of the op that calls it."""
    for node in graph.nodes:
        for body in node.bodies if node.op == "Call" else ():
            for inside in body.nodes:
                own = inside.attributes.get(IPU)
                shown = f"Op({inside.domain or 'ai.onnx'}.{inside.op}, inputs=[{', '.join(inside.inputs)}])"
                if inside.op == "Constant":
                    continue
                if own is None:
                    raise popart_exception(
                        f'Op {shown} in subgraph "{body.name}" does not have a virtual graph id. When pipelining, '
                        "subgraph ops must have a virtual graph id set."
                    )
                if own != node.place.ipu:
                    raise popart_exception(
                        f'The virtual graph id ({own}) for Op {shown} in subgraph "{body.name}" does not match the '
                        f"virtual graph id ({node.place.ipu}) of the calling op. When pipelining, subgraph ops must "
                        "have a virtual graph id matching the calling op: make a subgraph for each IPU."
                    )
