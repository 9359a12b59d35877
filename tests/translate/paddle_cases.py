"""One call of each op of Paddle's table: what `record_paddle.py` runs on Paddle and the tests hold ours against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

_draw = np.random.RandomState(4)


def floats(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return _draw.uniform(low, high, shape).astype("float32")


def wholes(*shape: int, high: int = 5, kind: str = "int64") -> np.ndarray:
    return _draw.randint(0, high, shape).astype(kind)


def truths(*shape: int) -> np.ndarray:
    return _draw.rand(*shape) > 0.5


@dataclass
class Case:
    """An op with its inputs by slot, its attributes, and the slots of its results; a number: so many results."""

    op: str
    inputs: dict[str, Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=lambda: {"Out": 1})
    hidden: tuple[str, ...] = ()  # slots that the op must have and nobody compares
    written: dict[str, str] = field(default_factory=dict)  # slot of a result -> slot of the input that it replaces


def _unary(*ops: str, low: float = -2.0, high: float = 2.0, **attributes: Any) -> list[Case]:
    return [Case(op, {"X": floats(2, 5, low=low, high=high)}, attributes) for op in ops]


def _image(op: str, attributes: dict[str, Any], x: np.ndarray, weight: np.ndarray) -> Case:
    return Case(op, {"Input": x, "Filter": weight}, attributes, {"Output": 1})


def _pool(**attributes: Any) -> Case:
    plain = {"ksize": [2, 2], "strides": [2, 2], "paddings": [0, 0], "pooling_type": "max"}
    return Case("pool2d", {"X": floats(2, 3, 7, 6)}, {**plain, **attributes})


def _interpolate(op: str, shape: tuple[int, ...], **attributes: Any) -> Case:
    method = {"nearest": "nearest", "linear": "linear", "bilinear": "bilinear", "bicubic": "bicubic"}[op.split("_")[0]]
    return Case(op, {"X": floats(*shape)}, {"interp_method": method, **attributes})


CASES = [
    *_unary("abs", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor", "logsigmoid", "relu", "round", "sigmoid"),
    *_unary("sign", "silu", "sin", "sinh", "softsign", "square", "tan", "tanh", "tanh_shrink", "atan", "asinh", "mish"),
    *_unary("log", "log10", "log1p", "log2", "rsqrt", "sqrt", "reciprocal", low=0.1),
    *_unary("acos", "asin", "atanh", low=-0.9, high=0.9),
    *_unary("acosh", low=1.1),
    *_unary("relu6", low=-3, high=9),
    *_unary("leaky_relu", "elu", "celu", alpha=0.3),
    *_unary("selu", "gelu", "hard_sigmoid", "hard_swish", "swish", "softplus", "stanh", "hard_shrink", "softshrink"),
    *_unary("gelu", approximate=True),
    *_unary("thresholded_relu", threshold=0.4),
    *_unary("brelu", t_min=-0.5, t_max=1.0),
    *_unary("scale", scale=2.5, bias=0.5, bias_after_scale=False),
    *_unary("clip", min=-0.5, max=0.7),
    *_unary("softmax", "log_softmax", axis=0),
    *_unary("pow", factor=2.0),
    *(
        Case(f"elementwise_{name}", {"X": floats(2, 3, 4, low=0.5), "Y": floats(3, low=0.5)}, {"axis": 1})
        for name in ("add", "sub", "mul", "div", "max", "min", "pow", "mod")
    ),
    Case("elementwise_floordiv", {"X": wholes(4, 3, high=20), "Y": wholes(4, 3, high=4) + 1}, {"axis": -1}),
    Case("elementwise_add", {"X": floats(2, 3, 4), "Y": floats(3, 4)}, {"axis": -1}),
    *(
        Case(name, {"X": wholes(3, 4), "Y": wholes(3, 4)}, {"axis": -1})
        for name in ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal")
    ),
    *(Case(f"logical_{name}", {"X": truths(3, 4), "Y": truths(3, 4)}) for name in ("and", "or", "xor")),
    Case("logical_not", {"X": truths(3, 4)}),
    Case("sum", {"X": [floats(2, 3), floats(2, 3), floats(2, 3)]}),
    Case("prelu", {"X": floats(2, 3, 4, 4), "Alpha": floats(3)}, {"mode": "channel", "data_format": "NCHW"}),
    Case("cast", {"X": floats(3, 4)}, {"in_dtype": 5, "out_dtype": 2}),
    Case("where", {"Condition": truths(3, 4), "X": floats(3, 4), "Y": floats(3, 4)}),
    *(
        Case(f"reduce_{name}", {"X": floats(2, 3, 4)}, {"dim": [0, -1], "keep_dim": keep, "reduce_all": False})
        for name in ("sum", "mean", "max", "min", "prod")
        for keep in (True, False)
    ),
    *(Case(f"reduce_{name}", {"X": truths(2, 3)}, {"dim": [1], "keep_dim": False}) for name in ("all", "any")),
    Case("reduce_sum", {"X": floats(2, 3)}, {"dim": [0], "keep_dim": False, "reduce_all": True}),
    Case("mean", {"X": floats(3, 4)}),
    Case("logsumexp", {"X": floats(3, 4)}, {"axis": [1], "keepdim": True, "reduce_all": False}),
    *(
        Case(name, {"X": floats(3, 4)}, {"axis": 1, "keepdims": False, "flatten": False, "dtype": 3})
        for name in ("arg_max", "arg_min")
    ),
    Case("argsort", {"X": floats(3, 4)}, {"axis": 0, "descending": True}, {"Out": 1, "Indices": 1}),
    Case(
        "top_k_v2", {"X": floats(3, 6)}, {"k": 2, "axis": 1, "largest": True, "sorted": True}, {"Out": 1, "Indices": 1}
    ),
    Case("cumsum", {"X": floats(3, 4)}, {"axis": 1, "exclusive": True, "reverse": True}),
    Case("cumsum", {"X": floats(3, 4)}, {"axis": 0, "flatten": True}),
    *(
        Case("p_norm", {"X": floats(3, 4)}, {"axis": 1, "porder": order, "keepdim": False, "asvector": False})
        for order in (1.0, 2.0, 3.0, float("inf"), 0.0)
    ),
    Case("dist", {"X": floats(3, 4), "Y": floats(3, 4)}, {"p": 2.0}),
    Case("dot", {"X": floats(3, 4), "Y": floats(3, 4)}),
    Case("matmul_v2", {"X": floats(2, 3, 4), "Y": floats(2, 5, 4)}, {"trans_x": False, "trans_y": True}),
    Case("matmul", {"X": floats(4, 3), "Y": floats(4, 5)}, {"transpose_X": True, "transpose_Y": False, "alpha": 0.5}),
    Case("mul", {"X": floats(2, 3, 4), "Y": floats(12, 5)}, {"x_num_col_dims": 1, "y_num_col_dims": 1}),
    Case("bmm", {"X": floats(2, 3, 4), "Y": floats(2, 4, 5)}),
    _image(
        "conv2d",
        {"strides": [2, 1], "paddings": [1, 2], "dilations": [1, 1], "groups": 1},
        floats(2, 3, 8, 7),
        floats(4, 3, 3, 3),
    ),
    _image(
        "conv2d",
        {"strides": [1, 1], "paddings": [0, 1, 2, 0], "dilations": [2, 1], "groups": 1},
        floats(1, 3, 8, 8),
        floats(4, 3, 3, 3),
    ),
    _image(
        "conv2d",
        {"strides": [2, 2], "paddings": [0, 0], "padding_algorithm": "SAME", "groups": 1},
        floats(1, 3, 8, 7),
        floats(4, 3, 3, 3),
    ),
    _image(
        "depthwise_conv2d", {"strides": [1, 1], "paddings": [1, 1], "groups": 4}, floats(1, 4, 6, 6), floats(4, 1, 3, 3)
    ),
    _image(
        "conv2d_transpose",
        {"strides": [2, 2], "paddings": [1, 1], "groups": 1, "output_padding": [1, 1]},
        floats(1, 4, 5, 5),
        floats(4, 3, 3, 3),
    ),
    _pool(),
    _pool(ceil_mode=True, paddings=[1, 1], ksize=[3, 3]),
    _pool(pooling_type="avg", paddings=[1, 1], ksize=[3, 3], exclusive=True),
    _pool(pooling_type="avg", paddings=[1, 1], ksize=[3, 3], exclusive=False),
    _pool(pooling_type="avg", global_pooling=True),
    _pool(pooling_type="avg", ksize=[3, 2], adaptive=True),
    Case(
        "max_pool2d_with_index",
        {"X": floats(2, 3, 6, 6)},
        {"ksize": [2, 2], "strides": [2, 2], "paddings": [0, 0]},
        {"Out": 1, "Mask": 1},
    ),
    *(
        Case(
            "batch_norm",
            {
                "X": floats(4, 3, 5, 5),
                "Scale": floats(3),
                "Bias": floats(3),
                "Mean": floats(3),
                "Variance": floats(3, low=0.1),
            },
            {"epsilon": 1e-5, "momentum": 0.8, "is_test": test, "data_layout": "NCHW"},
            {"Y": 1},
            hidden=("SavedMean", "SavedVariance", "ReserveSpace"),
            written={"MeanOut": "Mean", "VarianceOut": "Variance"},
        )
        for test in (True, False)
    ),
    Case(
        "layer_norm",
        {"X": floats(2, 3, 4), "Scale": floats(12), "Bias": floats(12)},
        {"begin_norm_axis": 1, "epsilon": 1e-5},
        {"Y": 1},
        hidden=("Mean", "Variance"),
    ),
    Case(
        "group_norm",
        {"X": floats(2, 6, 4, 4), "Scale": floats(6), "Bias": floats(6)},
        {"groups": 3, "epsilon": 1e-5, "data_layout": "NCHW"},
        {"Y": 1},
        hidden=("Mean", "Variance"),
    ),
    Case(
        "instance_norm",
        {"X": floats(2, 3, 5, 5), "Scale": floats(3), "Bias": floats(3)},
        {"epsilon": 1e-5},
        {"Y": 1},
        hidden=("SavedMean", "SavedVariance"),
    ),
    Case(
        "softmax_with_cross_entropy",
        {"Logits": floats(4, 5), "Label": wholes(4, 1)},
        {"axis": -1, "soft_label": False, "ignore_index": 2},
        {"Softmax": 1, "Loss": 1},
    ),
    Case(
        "softmax_with_cross_entropy",
        {"Logits": floats(2, 5, 3), "Label": floats(2, 5, 3, low=0.0, high=1.0)},
        {"axis": 1, "soft_label": True},
        {"Softmax": 1, "Loss": 1},
    ),
    Case("bce_loss", {"X": floats(4, 3, low=0.1, high=0.9), "Label": floats(4, 3, low=0.0, high=1.0)}),
    Case(
        "sigmoid_cross_entropy_with_logits",
        {"X": floats(4, 3), "Label": floats(4, 3, low=0.0, high=1.0)},
        {"ignore_index": -100, "normalize": True},
    ),
    *(
        Case(
            "kldiv_loss",
            {"X": floats(4, 3), "Target": floats(4, 3, low=0.0, high=1.0)},
            {"reduction": way},
            {"Loss": 1},
        )
        for way in ("none", "mean", "sum", "batchmean")
    ),
    Case("huber_loss", {"X": floats(4, 1), "Y": floats(4, 1)}, {"delta": 0.5}, {"Out": 1, "Residual": 1}),
    Case(
        "log_loss",
        {"Predicted": floats(4, 1, low=0.1, high=0.9), "Labels": floats(4, 1, low=0, high=1)},
        {"epsilon": 1e-4},
        {"Loss": 1},
    ),
    Case(
        "nll_loss",
        {"X": floats(4, 5), "Label": wholes(4), "Weight": floats(5, low=0.1)},
        {"reduction": "mean", "ignore_index": 3},
        {"Out": 1, "Total_weight": 1},
    ),
    Case("reshape2", {"X": floats(2, 3, 4)}, {"shape": [0, -1]}, hidden=("XShape",)),
    Case("transpose2", {"X": floats(2, 3, 4)}, {"axis": [2, 0, 1]}, hidden=("XShape",)),
    Case("squeeze2", {"X": floats(2, 1, 3, 1)}, {"axes": [1]}, hidden=("XShape",)),
    Case("unsqueeze2", {"X": floats(2, 3)}, {"axes": [0, 2]}, hidden=("XShape",)),
    Case("flatten2", {"X": floats(2, 3, 4)}, {"axis": 2}, hidden=("XShape",)),
    Case("flatten_contiguous_range", {"X": floats(2, 3, 4, 5)}, {"start_axis": 1, "stop_axis": 2}, hidden=("XShape",)),
    Case("concat", {"X": [floats(2, 3), floats(2, 4)]}, {"axis": 1}),
    Case("split", {"X": floats(2, 6)}, {"axis": 1, "sections": [1, -1, 2]}, {"Out": 3}),
    Case("split", {"X": floats(2, 6)}, {"axis": 1, "num": 3}, {"Out": 3}),
    Case("stack", {"X": [floats(2, 3), floats(2, 3)]}, {"axis": 1}, {"Y": 1}),
    Case("unstack", {"X": floats(2, 3)}, {"axis": 1, "num": 3}, {"Y": 3}),
    Case(
        "slice", {"Input": floats(4, 5, 6)}, {"axes": [0, 2], "starts": [1, -3], "ends": [3, 100], "decrease_axis": []}
    ),
    Case("slice", {"Input": floats(4, 5)}, {"axes": [0], "starts": [2], "ends": [3], "decrease_axis": [0]}),
    Case(
        "strided_slice",
        {"Input": floats(6, 5)},
        {
            "axes": [0, 1],
            "starts": [5, 0],
            "ends": [0, 5],
            "strides": [-2, 2],
            "infer_flags": [1, 1],
            "decrease_axis": [],
        },
    ),
    Case("tile", {"X": floats(2, 3)}, {"repeat_times": [2, 1, 2]}),
    Case("expand_v2", {"X": floats(1, 3)}, {"shape": [2, 4, -1]}),
    Case("expand_as_v2", {"X": floats(1, 3)}, {"target_shape": [4, 3]}),
    Case("meshgrid", {"X": [floats(3), floats(2)]}, {}, {"Out": 2}),
    Case("flip", {"X": floats(2, 3)}, {"axis": [0, 1]}),
    Case("roll", {"X": floats(3, 4)}, {"shifts": [1], "axis": [1]}),
    Case("gather", {"X": floats(5, 3), "Index": wholes(4)}, {"axis": 0}),
    Case("gather_nd", {"X": floats(5, 5, 3), "Index": wholes(4, 2)}),
    Case("index_select", {"X": floats(3, 5), "Index": wholes(4)}, {"dim": 1}),
    Case("scatter", {"X": floats(5, 3), "Ids": np.array([1, 3]), "Updates": floats(2, 3)}, {"overwrite": True}),
    Case("pad", {"X": floats(2, 3)}, {"paddings": [1, 0, 2, 1], "pad_value": 0.5}),
    *(
        Case(
            "pad3d",
            {"X": floats(1, 2, 3, 4, 5)},
            {"paddings": [1, 2, 0, 1, 1, 0], "mode": mode, "value": 0.5, "data_format": "NCDHW"},
        )
        for mode in ("constant", "reflect", "replicate", "circular")
    ),
    Case("tril_triu", {"X": floats(4, 5)}, {"diagonal": 1, "lower": True}),
    Case("shape", {"Input": floats(4, 5)}),
    Case("fill_any_like", {"X": floats(2, 3)}, {"value": 1.5, "dtype": -1}),
    Case("fill_constant", {}, {"shape": [2, 3], "value": 2.5, "dtype": 5, "str_value": "2.5"}),
    Case("one_hot_v2", {"X": wholes(3, 4)}, {"depth": 6, "dtype": 5}),
    Case("lookup_table_v2", {"Ids": wholes(3, 4), "W": floats(6, 5)}, {"padding_idx": 2}),
    Case("lookup_table", {"Ids": wholes(3, 1), "W": floats(6, 5)}, {"padding_idx": -1}),
    _interpolate("nearest_interp_v2", (1, 2, 4, 5), out_h=7, out_w=9, align_corners=False),
    _interpolate("nearest_interp_v2", (1, 2, 4, 5), out_h=7, out_w=9, align_corners=True),
    _interpolate("bilinear_interp_v2", (1, 2, 4, 5), out_h=7, out_w=3, align_corners=False, align_mode=0),
    _interpolate("bilinear_interp_v2", (1, 2, 4, 5), out_h=7, out_w=9, align_corners=False, align_mode=1),
    _interpolate("bilinear_interp_v2", (1, 2, 4, 5), out_h=7, out_w=9, align_corners=True),
    _interpolate("bicubic_interp_v2", (1, 2, 4, 5), out_h=7, out_w=9, align_corners=False),
    _interpolate("linear_interp_v2", (1, 2, 5), out_w=8, align_corners=False, align_mode=0),
    Case("norm", {"X": floats(3, 4)}, {"axis": 1, "epsilon": 1e-10}, {"Out": 1, "Norm": 1}),
    Case("squared_l2_norm", {"X": floats(3, 4)}),
    Case("assign", {"X": floats(3, 4)}),
]
