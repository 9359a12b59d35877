"""What PopART refuses about the stages of a pipeline.

In: a placed model and options. Out: popart_exception where stages contradict each other.
"""

from __future__ import annotations

from openipu.translate import ForeignNode
from openipu.translate.onnx import OnnxModel
from popart._exceptions import popart_exception
from popart._options import SessionOptions

STAGE = "__pipeline_stage"
_FREE = ("Constant",)  # ops that are in no stage


def check_stages(model: OnnxModel) -> None:
    """Every op has a stage or none has; a stage is on one IPU; data go to later stages."""
    nodes = [node for node in model.graph.nodes if node.op not in _FREE]
    chosen = [node for node in nodes if _has_stage(node)]
    if chosen and len(chosen) < len(nodes):
        missing = next(node for node in nodes if not _has_stage(node))
        raise popart_exception(
            f"Only some ops have had their pipeline stage set. {missing.title} has none: give all of them a stage, or "
            "none."
        )
    _check_ipus(nodes)
    _check_order(nodes)


def check_forward_program(options: SessionOptions) -> None:
    """A program that only runs forward goes with an implicit pipeline that accumulates gradients."""
    if not options.createImplicitPipeliningFwdOnlyProgram:
        return
    words = "Implicit pipelining forward-only program is not supported"
    if not options.enablePipelining:
        raise popart_exception(f"{words} without implicit pipelining. Set SessionOptions.enablePipelining.")
    if options.enableExplicitMainLoops:
        raise popart_exception(f"{words} with explicit pipelining. Leave out SessionOptions.enableExplicitIR.")
    if not options.enableGradientAccumulation:
        raise popart_exception(f"{words} without gradient accumulation. Set SessionOptions.enableGradientAccumulation.")


def _has_stage(node: ForeignNode) -> bool:
    found = node.attributes.get(STAGE)
    return isinstance(found, int) and found >= 0


def _check_ipus(nodes: list[ForeignNode]) -> None:
    first: dict[int, ForeignNode] = {}
    for node in nodes:
        if node.place.stage is None or node.place.ipu is None:
            continue
        other = first.setdefault(node.place.stage, node)
        if other.place.ipu != node.place.ipu:
            raise popart_exception(
                f"Ops {other.title} and {node.title} have the same pipeline stage {node.place.stage}, but different "
                f"virtual graphs ({other.place.ipu} and {node.place.ipu})."
            )


def _check_order(nodes: list[ForeignNode]) -> None:
    made = {name: node for node in nodes for name in node.outputs if name}
    for node in nodes:
        for name in node.inputs:
            source = made.get(name)
            if source is None or source.place.stage is None or node.place.stage is None:
                continue
            if node.place.stage < source.place.stage:
                raise popart_exception(
                    f"Tensor {name} is consumed in an earlier pipeline stage than it is produced: {source.title} makes "
                    f"it in stage {source.place.stage}, and {node.title} reads it in stage {node.place.stage}."
                )
