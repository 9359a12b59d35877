"""Which ops of `ai.onnx` PopART's builder writes and its sessions do not run.

In: a graph. Out: those of its nodes that are such. Here most of them have a rule, and an ONNX file that holds them
runs; a front end that stands for PopART asks this first, since on an IPU no session would be made.
"""

from __future__ import annotations

from openipu.translate.foreign import ForeignGraph, ForeignNode

NEWEST_OPSET = 11
BUILT_ONLY = frozenset(
    {
        *("BitShift", "Compress", "ConcatFromSequence", "ConvInteger", "DequantizeLinear", "Det"),
        *("DynamicQuantizeLinear", "EyeLike", "GatherElements", "GatherND", "GlobalLpPool", "Hardmax"),
        *("LpNormalization", "LpPool", "MatMulInteger", "MaxRoiPool", "MaxUnpool", "MeanVarianceNormalization"),
        *("Multinomial", "NonMaxSuppression", "NonZero", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "Range"),
        *("ReverseSequence", "ScatterND", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase"),
        *("SequenceInsert", "SequenceLength", "Size", "SplitToSequence", "StringNormalizer", "TfIdfVectorizer"),
        "Unique",
    }
)


def list_built_only(graph: ForeignGraph) -> list[ForeignNode]:
    """Nodes that a builder writes and no session of PopART runs."""
    return [node for node in graph.list_nodes() if node.domain == "" and node.op in BUILT_ONLY]
