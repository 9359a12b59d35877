"""Calls of TensorFlow's ops, by the names of `tf.raw_ops`: what rules are compared on. Needs no TensorFlow."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_drawn = np.random.default_rng(7)


def draw(*sizes: int) -> np.ndarray:
    return _drawn.standard_normal(sizes).astype(np.float32)


def positive(*sizes: int) -> np.ndarray:
    return np.abs(draw(*sizes)) + np.float32(0.5)


def inside(*sizes: int) -> np.ndarray:
    return np.tanh(draw(*sizes)) * np.float32(0.9)


def whole(limit: int, *sizes: int) -> np.ndarray:
    return _drawn.integers(0, limit, sizes).astype(np.int32)


def ints(*values: Any) -> np.ndarray:
    return np.array(values[0] if len(values) == 1 else values, np.int32)


@dataclass(frozen=True)
class Case:
    """One op: inputs by name (a list for several), those that are constants of the graph, attributes."""

    op: str
    inputs: dict[str, Any]
    fixed: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)  # a dtype is given by its name: "float32"
    results: tuple[int, ...] | None = None  # those that are compared; None: all


def _list_elementwise() -> list[Case]:
    anywhere = (
        *(
            "Abs",
            "Asinh",
            "Atan",
            "Ceil",
            "Cos",
            "Cosh",
            "Elu",
            "Erf",
            "Erfc",
            "Exp",
            "Expm1",
            "Floor",
            "IsFinite",
            "IsInf",
        ),
        *("IsNan", "Neg", "Relu", "Relu6", "Rint", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus"),
        *("Softsign", "Square", "Tan", "Tanh"),
    )
    cases = [Case(op, {"features" if op in _FEATURES else "x": draw(3, 4)}) for op in anywhere]
    above = ("Digamma", "Inv", "Lgamma", "Log", "Log1p", "Reciprocal", "Rsqrt", "Sqrt", "Acosh")
    cases += [Case(op, {"x": positive(3, 4) + np.float32(1)}) for op in above]
    cases += [Case(op, {"x": inside(3, 4)}) for op in ("Acos", "Asin", "Atanh", "Erfinv")]
    cases.append(Case("Ndtri", {"x": (inside(3, 4) + 1) / 2}))
    for op in ("AddV2", "Mul", "Sub", "Maximum", "Minimum", "SquaredDifference", "Greater", "GreaterEqual", "Less"):
        cases.append(Case(op, {"x": draw(3, 4), "y": draw(4)}))
    for op in ("LessEqual", "FloorMod", "FloorDiv", "Atan2", "RealDiv", "Mod", "TruncateMod", "Div", "Add"):
        cases.append(Case(op, {"x": draw(2, 1, 4), "y": draw(3, 1)}))
    zeros = np.array([[1, 0, -2, 0]], np.float32)
    for op in ("DivNoNan", "MulNoNan", "Xdivy"):
        cases.append(Case(op, {"x": draw(3, 4), "y": zeros if op != "Xdivy" else positive(1, 4)}))
    cases += [Case(op, {"x": positive(3, 4), "y": positive(4)}) for op in ("Pow", "Xlogy", "Xlog1py")]
    numbers = [np.array([-7, -3, 0, 5, 8], np.int32), np.array([3, -2, 5, -4, 3], np.int32)]
    for op in ("FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal"):
        cases.append(Case(op, {"x": numbers[0], "y": numbers[1]}))
    cases += [Case(op, {"x": np.abs(numbers[0]), "y": np.abs(numbers[1])}) for op in ("LeftShift", "RightShift")]
    cases += [
        Case("NotEqual", {"x": numbers[0], "y": numbers[0][::-1].copy()}),
        Case("Invert", {"x": numbers[0]}),
        Case("LogicalAnd", {"x": draw(4) > 0, "y": draw(4) > 0}),
        Case("LogicalOr", {"x": draw(4) > 0, "y": draw(4) > 0}),
        Case("LogicalNot", {"x": draw(4) > 0}),
        Case("AddN", {"inputs": [draw(3), draw(3), draw(3)]}),
        Case("LeakyRelu", {"features": draw(3, 4)}, attributes={"alpha": 0.1}),
        Case("LeakyReluGrad", {"gradients": draw(3, 4), "features": draw(3, 4)}, attributes={"alpha": 0.1}),
        Case("ClipByValue", {"t": draw(9), "clip_value_min": np.float32(-0.5), "clip_value_max": np.float32(0.5)}),
        Case("Cast", {"x": draw(4) * 3}, attributes={"DstT": "int32"}),
        Case("Cast", {"x": np.array([0, 2, -1], np.int32)}, attributes={"DstT": "bool"}),
        Case("Cast", {"x": draw(4)}, attributes={"DstT": "float16"}),
        Case("SelectV2", {"condition": draw(4) > 0, "t": draw(3, 4), "e": draw(1)}),
        Case("Select", {"condition": draw(3) > 0, "x": draw(3, 4), "y": draw(3, 4)}),
        Case("ZerosLike", {"x": draw(3)}),
        Case("OnesLike", {"x": draw(3)}),
        Case("StopGradient", {"input": draw(3)}),
        Case("IdentityN", {"input": [draw(3), draw(2)]}),
    ]
    for op in ("ReluGrad", "Relu6Grad", "SoftplusGrad", "SoftsignGrad"):
        cases.append(Case(op, {"gradients": draw(3, 4), "features": draw(3, 4) * 4}))
    for op in ("EluGrad", "SeluGrad"):
        cases.append(Case(op, {"gradients": draw(3, 4), "outputs": inside(3, 4)}))
    for op in ("InvGrad", "ReciprocalGrad", "RsqrtGrad", "SigmoidGrad", "SqrtGrad", "TanhGrad"):
        cases.append(Case(op, {"y": positive(3, 4), "dy": draw(3, 4)}))
    return cases


_FEATURES = {"Elu", "Relu", "Relu6", "Selu", "Softplus", "Softsign"}


def _list_shapes() -> list[Case]:
    x = draw(2, 3, 4)
    return [
        Case("Shape", {"input": x}),
        Case("ShapeN", {"input": [x, draw(5)]}),
        Case("Size", {"input": x}),
        Case("Rank", {"input": x}),
        *(
            Case("BroadcastGradientArgs", {}, {"s0": ints(first), "s1": ints(second)})
            for first, second in [([2, 3], [3]), ([2, 1], [1, 4]), ([1, 3], [1, 3]), ([], [2, 3]), ([1], [1, 1])]
        ),
        Case("BroadcastArgs", {}, {"s0": ints([2, 1]), "s1": ints([4])}),
        Case("ConcatOffset", {}, {"concat_dim": ints(1), "shape": [ints([2, 3]), ints([2, 4])]}),
        Case("InvertPermutation", {"x": ints(2, 0, 1)}),
        Case("Reshape", {"tensor": x}, {"shape": ints(-1, 4)}),
        Case("Squeeze", {"input": draw(2, 1, 3, 1)}),
        Case("Squeeze", {"input": draw(2, 1, 3, 1)}, attributes={"axis": [-1]}),
        Case("ExpandDims", {"input": x}, {"axis": ints(-1)}),
        Case("Transpose", {"x": x}, {"perm": ints(2, 0, 1)}),
        Case("Fill", {"value": np.float32(2.5)}, {"dims": ints(2, 3)}),
        Case("Range", {}, {"start": ints(2), "limit": ints(11), "delta": ints(3)}),
        Case("Range", {}, {"start": np.float32(1), "limit": np.float32(0), "delta": np.float32(-0.3)}),
        Case("LinSpace", {}, {"start": np.float32(1), "stop": np.float32(2), "num": ints(5)}),
        Case("Pack", {"values": [draw(3), draw(3)]}, attributes={"axis": 1}),
        Case("Unpack", {"value": x}, attributes={"axis": 1, "num": 3}),
        Case("ConcatV2", {"values": [draw(2, 3), draw(2, 1)]}, {"axis": ints(1)}),
        Case("Split", {"value": draw(2, 6)}, {"axis": ints(1)}, {"num_split": 3}),
        Case("SplitV", {"value": draw(2, 6)}, {"size_splits": ints(1, -1, 2), "axis": ints(1)}, {"num_split": 3}),
        Case("Tile", {"input": draw(2, 3)}, {"multiples": ints(2, 2)}),
        Case("Tile", {"input": draw(1, 3)}, {"multiples": ints(4, 1)}),
        Case("BroadcastTo", {"input": draw(3, 1)}, {"shape": ints(2, 3, 4)}),
        Case("Slice", {"input": x}, {"begin": ints(0, 1, 1), "size": ints(2, -1, 2)}),
        Case("Pad", {"input": draw(2, 3)}, {"paddings": ints([[1, 0], [0, 2]])}),
        Case("PadV2", {"input": draw(2, 3)}, {"paddings": ints([[1, 0], [0, 2]]), "constant_values": np.float32(9)}),
        Case("MirrorPad", {"input": draw(3, 4)}, {"paddings": ints([[1, 1], [2, 0]])}, {"mode": "REFLECT"}),
        Case("MirrorPad", {"input": draw(3, 4)}, {"paddings": ints([[1, 1], [2, 0]])}, {"mode": "SYMMETRIC"}),
        Case("ReverseV2", {"tensor": x}, {"axis": ints([1])}),
        Case("Roll", {"input": x}, {"shift": ints([1]), "axis": ints([2])}),
        Case("SpaceToDepth", {"input": draw(1, 4, 4, 2)}, attributes={"block_size": 2}),
        Case("DepthToSpace", {"input": draw(1, 2, 2, 8)}, attributes={"block_size": 2}),
    ]


def _slice(begin: list[int], end: list[int], strides: list[int], **masks: int) -> tuple[dict[str, Any], dict[str, int]]:
    return {"begin": ints(begin), "end": ints(end), "strides": ints(strides)}, masks


def _list_indexing() -> list[Case]:
    slices = [
        _slice([0, 1], [2, 3], [1, 1]),
        _slice([1, 0, 0], [2, 3, 4], [1, 1, 2], shrink_axis_mask=1),
        _slice([0, 0], [0, 2], [1, 1], ellipsis_mask=1),
        _slice([0, 0, 1], [0, 0, 2], [1, 1, 1], new_axis_mask=1, begin_mask=2, end_mask=2),
        _slice([2, 3], [0, 0], [-1, -2], begin_mask=1, end_mask=1),
    ]
    cases = []
    for fixed, masks in slices:
        cases.append(Case("StridedSlice", {"input": draw(3, 4, 5)}, fixed, masks))
    sliced = {0: (2, 2, 5), 1: (3, 2), 2: (3, 4, 2), 4: (3, 2, 5)}
    for number, sizes in sliced.items():
        fixed, masks = slices[number]
        cases.append(Case("StridedSliceGrad", {"dy": draw(*sizes)}, {"shape": ints(3, 4, 5), **fixed}, masks))
    return [
        *cases,
        Case("GatherV2", {"params": draw(5, 3), "indices": whole(5, 2, 4)}, {"axis": ints(0)}),
        Case("GatherV2", {"params": draw(2, 5, 3), "indices": whole(5, 4)}, {"axis": ints(1)}),
        Case("GatherV2", {"params": draw(2, 5, 3), "indices": whole(5, 2, 4)}, {"axis": ints(1)}, {"batch_dims": 1}),
        Case("GatherNd", {"params": draw(3, 4, 2), "indices": whole(3, 5, 2)}),
        Case("ScatterNd", {"indices": ints([[1], [3], [1]]), "updates": draw(3, 2)}, {"shape": ints(5, 2)}),
        *(
            Case(op, {"tensor": draw(5, 2), "indices": ints([[1], [3]]), "updates": draw(2, 2)})
            for op in ("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub")
        ),
        Case("UnsortedSegmentSum", {"data": draw(6, 2), "segment_ids": whole(4, 6)}, {"num_segments": ints(4)}),
        Case("UnsortedSegmentSum", {"data": draw(2, 3, 2), "segment_ids": whole(4, 2, 3)}, {"num_segments": ints(4)}),
        Case(
            "OneHot",
            {"indices": ints(1, -1, 3)},
            {"depth": ints(4), "on_value": np.float32(2), "off_value": np.float32(0)},
        ),
        Case(
            "OneHot",
            {"indices": whole(3, 2, 2)},
            {"depth": ints(3), "on_value": np.float32(1), "off_value": np.float32(0)},
            {"axis": 1},
        ),
        Case(
            "ReverseSequence",
            {"input": draw(3, 4, 2), "seq_lengths": ints(2, 4, 1)},
            {},
            {"seq_dim": 1, "batch_dim": 0},
        ),
    ]


def _list_reductions() -> list[Case]:
    cases = []
    for op, (axes, keep) in itertools.product(
        ("Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm"), [([1], False), ([0, -1], True), ([], False)]
    ):
        cases.append(Case(op, {"input": draw(2, 3, 4)}, {"axis": np.array(axes, np.int32)}, {"keep_dims": keep}))
    cases += [Case(op, {"input": draw(2, 3) > -0.5}, {"axis": ints([1])}) for op in ("Any", "All")]
    for op in ("Cumsum", "Cumprod"):
        for exclusive, backwards in itertools.product([False, True], repeat=2):
            settings = {"exclusive": exclusive, "reverse": backwards}
            cases.append(Case(op, {"x": draw(3, 4)}, {"axis": ints(1)}, settings))
    return [
        *cases,
        Case("ArgMax", {"input": draw(3, 4)}, {"dimension": ints(1)}),
        Case("ArgMin", {"input": draw(3, 4)}, {"dimension": ints(0)}, {"output_type": "int32"}),
        Case("Softmax", {"logits": draw(3, 4)}),
        Case("LogSoftmax", {"logits": draw(3, 4)}),
        Case("L2Loss", {"t": draw(3, 4)}),
        Case("TopKV2", {"input": draw(3, 5)}, {"k": ints(2)}),
        Case("InTopKV2", {"predictions": draw(4, 5), "targets": whole(5, 4)}, {"k": ints(2)}),
        Case("MatMul", {"a": draw(4, 3), "b": draw(4, 2)}, attributes={"transpose_a": True}),
        Case("MatMul", {"a": draw(3, 4), "b": draw(2, 4)}, attributes={"transpose_b": True}),
        Case("BatchMatMulV2", {"x": draw(2, 3, 4), "y": draw(1, 2, 4)}, attributes={"adj_y": True}),
        Case("Einsum", {"inputs": [draw(2, 3, 4), draw(2, 5, 4)]}, attributes={"equation": "bij,bkj->bik"}),
        Case("MatrixBandPart", {"input": draw(4, 4)}, {"num_lower": ints(1), "num_upper": ints(0)}),
        Case("MatrixBandPart", {"input": draw(4, 4)}, {"num_lower": ints(-1), "num_upper": ints(0)}),
        Case(
            "SoftmaxCrossEntropyWithLogits", {"features": draw(3, 4), "labels": np.eye(4, dtype=np.float32)[[0, 2, 3]]}
        ),
        Case("SparseSoftmaxCrossEntropyWithLogits", {"features": draw(3, 4), "labels": whole(4, 3)}),
        Case("BiasAdd", {"value": draw(2, 3, 3, 4), "bias": draw(4)}),
        Case("BiasAdd", {"value": draw(2, 4, 3, 3), "bias": draw(4)}, attributes={"data_format": "NCHW"}),
        Case("BiasAddGrad", {"out_backprop": draw(2, 3, 3, 4)}),
        Case(
            "LRN", {"input": draw(1, 2, 2, 8)}, attributes={"depth_radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.5}
        ),
    ]


def _count(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    reach = dilation * (kernel - 1) + 1
    return -(-size // stride) if padding == "SAME" else (size - reach) // stride + 1


# size, kernel, stride, dilation: remainders on one side, windows wider than strides and narrower
_WINDOWS = [(7, 3, 1, 1), (7, 3, 2, 1), (8, 3, 2, 1), (8, 2, 3, 1), (9, 3, 1, 2), (6, 1, 2, 1), (8, 5, 4, 1)]


def _list_convolutions() -> list[Case]:
    cases: list[Case] = []
    for (size, kernel, stride, dilation), padding in itertools.product(_WINDOWS, ("SAME", "VALID")):
        settings = {"strides": [1, stride, stride, 1], "padding": padding, "dilations": [1, dilation, dilation, 1]}
        x, weight = draw(2, size, size, 3), draw(kernel, kernel, 3, 4)
        deep = draw(kernel, kernel, 3, 2)
        out = _count(size, kernel, stride, dilation, padding)
        gradient, deep_gradient = draw(2, out, out, 4), draw(2, out, out, 6)
        sizes, filter_sizes, deep_sizes = ints(x.shape), ints(weight.shape), ints(deep.shape)
        cases.append(Case("Conv2D", {"input": x, "filter": weight}, {}, settings))
        if dilation > 1:  # TensorFlow has no more of these for a CPU
            continue
        cases.append(Case("DepthwiseConv2dNative", {"input": x, "filter": deep}, {}, settings))
        given = {"filter": weight, "out_backprop": gradient}
        cases.append(Case("Conv2DBackpropInput", given, {"input_sizes": sizes}, settings))
        given = {"input": x, "out_backprop": gradient}
        cases.append(Case("Conv2DBackpropFilter", given, {"filter_sizes": filter_sizes}, settings))
        given = {"filter": deep, "out_backprop": deep_gradient}
        cases.append(Case("DepthwiseConv2dNativeBackpropInput", given, {"input_sizes": sizes}, settings))
        given = {"input": x, "out_backprop": deep_gradient}
        cases.append(Case("DepthwiseConv2dNativeBackpropFilter", given, {"filter_sizes": deep_sizes}, settings))
    settings = {"strides": [1, 2, 2, 2, 1], "padding": "SAME"}
    x, weight = draw(1, 4, 5, 4, 2), draw(3, 3, 3, 2, 3)
    cases += [
        Case("Conv3D", {"input": x, "filter": weight}, {}, settings),
        Case(
            "Conv3DBackpropInputV2",
            {"filter": weight, "out_backprop": draw(1, 2, 3, 2, 3)},
            {"input_sizes": ints(x.shape)},
            settings,
        ),
        Case(
            "Conv3DBackpropFilterV2",
            {"input": x, "out_backprop": draw(1, 2, 3, 2, 3)},
            {"filter_sizes": ints(weight.shape)},
            settings,
        ),
        Case(
            "Conv2D",
            {"input": draw(1, 5, 5, 2), "filter": draw(3, 3, 2, 3)},
            {},
            {"strides": [1, 2, 1, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 0, 2, 1, 0, 0]},
        ),
        Case(
            "Conv2D",
            {"input": draw(1, 5, 5, 4), "filter": draw(3, 3, 2, 6)},
            {},
            {"strides": [1, 1, 1, 1], "padding": "SAME"},
        ),
    ]
    return cases


def _list_pools() -> list[Case]:
    cases: list[Case] = []
    windows = [(6, 2, 2), (7, 3, 2), (8, 3, 2), (5, 2, 1), (7, 2, 3)]
    for (size, kernel, stride), padding in itertools.product(windows, ("SAME", "VALID")):
        settings = {"ksize": [1, kernel, kernel, 1], "strides": [1, stride, stride, 1], "padding": padding}
        x = draw(2, size, size, 3)
        out = _count(size, kernel, stride, 1, padding)
        gradient = draw(2, out, out, 3)
        cases.append(Case("MaxPool", {"input": x}, {}, settings))
        cases.append(Case("AvgPool", {"value": x}, {}, settings))
        cases.append(Case("AvgPoolGrad", {"grad": gradient}, {"orig_input_shape": ints(x.shape)}, settings))
        # Where a window has several largest elements, as after a ReLU, the first one counts.
        flat = np.maximum(x, 0)
        given = {"orig_input": flat, "orig_output": _pool(flat, kernel, stride, padding, out), "grad": gradient}
        cases.append(Case("MaxPoolGrad", given, {}, settings))
    settings = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "SAME"}
    cases.append(Case("MaxPool3D", {"input": draw(1, 4, 5, 4, 2)}, {}, settings))
    cases.append(Case("AvgPool3D", {"input": draw(1, 4, 5, 4, 2)}, {}, settings))
    return cases


def _pool(x: np.ndarray, kernel: int, stride: int, padding: str, out: int) -> np.ndarray:
    size = x.shape[1]
    total = max(0, (out - 1) * stride + kernel - size) if padding == "SAME" else 0
    pads = (total // 2, total - total // 2)
    padded = np.pad(x, [(0, 0), pads, pads, (0, 0)], constant_values=-np.inf)
    found = np.empty((x.shape[0], out, out, x.shape[3]), np.float32)
    for row, column in itertools.product(range(out), repeat=2):
        window = padded[:, row * stride : row * stride + kernel, column * stride : column * stride + kernel]
        found[:, row, column] = window.max((1, 2))
    return found


def _list_norms() -> list[Case]:
    given = {"x": draw(4, 3, 3, 2), "scale": positive(2), "offset": draw(2)}
    held = {"mean": draw(2), "variance": positive(2)}
    return [
        Case("FusedBatchNormV3", {**given, **held}, {}, {"epsilon": 1e-3, "is_training": True}, (0, 1, 2)),
        Case("FusedBatchNormV3", {**given, **held}, {}, {"epsilon": 1e-3, "is_training": False}, (0, 1, 2)),
        Case(
            "FusedBatchNormV3",
            {**given, **held},
            {},
            {"epsilon": 1e-3, "is_training": True, "exponential_avg_factor": 0.25},
            (0, 1, 2),
        ),
    ]


CASES = [
    *_list_elementwise(),
    *_list_shapes(),
    *_list_indexing(),
    *_list_reductions(),
    *_list_convolutions(),
    *_list_pools(),
    *_list_norms(),
]
TITLES = [f"{number:03d} {case.op}" for number, case in enumerate(CASES)]
