"""Models that leave nothing to compute, or say twice what is computed again.

In: a model, its anchors, options. Out: popart_exception, or nothing.
"""

from __future__ import annotations

from openipu.translate.onnx import OnnxModel
from popart._build.contexts import RECOMPUTE
from popart._dataflow import DataFlow
from popart._enumerations.sessions import RecomputationType, RecomputeType
from popart._exceptions import popart_exception
from popart._options import SessionOptions

_AUTOMATIC = (RecomputationType.Standard, RecomputationType.NormOnly)


def check_something_left(model: OnnxModel, flow: DataFlow) -> None:
    """Ops that no anchor depends on are left out: not all of them may be."""
    nodes = model.graph.nodes
    made = {name for node in nodes for name in node.outputs}
    passed = all(anchor in model.graph.inputs for anchor in flow.anchors())
    if nodes and flow.anchors() and passed and not made.intersection(flow.anchors()):
        raise popart_exception("All operations in the main graph were pruned, nothing to compute")


def check_recomputation(model: OnnxModel, options: SessionOptions) -> None:
    """Nodes choose what is computed again, or an option does."""
    if options.autoRecomputation not in _AUTOMATIC:
        return
    if any(node.attributes.get(RECOMPUTE) == int(RecomputeType.Recompute) for node in model.graph.nodes):
        raise popart_exception("A mixture of auto and manual recomputation is not supported")
