"""A small `paddle.fluid`, for IPU scripts of its time: names that Paddle 3 keeps elsewhere, and layers that it dropped.

In: Paddle in its legacy form. Out: the modules `paddle.fluid`, `.layers`, `.nets`, `.optimizer`, `.io`, `.core`, and
the comparisons of `paddle.base.layers`.
"""

from __future__ import annotations

import sys
import warnings
from types import ModuleType
from typing import Any

_COMPARISONS = ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal")
_LAYERS = (
    *("abs", "assign", "cast", "concat", "exp", "log", "mean", "reshape", "scale", "shape", "slice", "split", "sqrt"),
    *("square", "squeeze", "stack", "sum", "tanh", "transpose", "unsqueeze", "matmul"),
)
_FUNCTIONAL = ("dropout", "relu", "sigmoid", "softmax", "softmax_with_cross_entropy")
_STATIC = (
    *("Program", "program_guard", "default_main_program", "default_startup_program", "Executor", "global_scope"),
    *("scope_guard", "name_scope", "IpuStrategy", "IpuCompiledProgram", "CompiledProgram"),
)


def install(paddle: Any) -> None:
    """Make the modules importable."""
    for name in _COMPARISONS:
        if not hasattr(paddle.base.layers, name):
            setattr(paddle.base.layers, name, getattr(paddle, name))
    if hasattr(paddle, "fluid"):
        return
    fluid = _make("paddle.fluid", {name: getattr(paddle.static, name) for name in _STATIC})
    layers = {name: getattr(paddle, name) for name in (*_COMPARISONS, *_LAYERS)}
    layers |= {name: getattr(paddle.nn.functional, name) for name in _FUNCTIONAL}
    layers |= {"data": paddle.static.data, "batch_norm": paddle.static.nn.batch_norm, "fc": _make_fc(paddle)}
    layers |= {
        "conv2d": paddle.static.nn.conv2d,
        "cross_entropy": _make_cross_entropy(paddle),
        "pool2d": _make_pool(paddle),
    }
    layers |= {"accuracy": paddle.static.accuracy, "embedding": paddle.static.nn.embedding}
    optimizers = {name: getattr(paddle.optimizer, name) for name in ("SGD", "Momentum", "Adam", "Adamax", "Lamb")}
    parts = {
        "layers": layers,
        "nets": {"simple_img_conv_pool": _make_conv_pool(paddle)},
        "optimizer": {**optimizers, **{f"{name}Optimizer": value for name, value in optimizers.items()}},
        "io": {name: getattr(paddle.static, name) for name in ("save", "load", "save_inference_model")},
        "unique_name": vars(paddle.utils.unique_name),
    }
    for name, values in parts.items():
        setattr(fluid, name, _make(f"paddle.fluid.{name}", values))
    places = {name: getattr(paddle, name) for name in ("CPUPlace", "IPUPlace", "ParamAttr")}
    for name, value in {**places, "core": paddle.base.core, "data": paddle.static.data}.items():
        setattr(fluid, name, value)
    paddle.fluid = fluid


def _make(name: str, values: dict[str, Any]) -> ModuleType:
    module = ModuleType(name, "What openipu provides of Paddle's earlier interface.")
    for key, value in values.items():
        if not key.startswith("__"):
            setattr(module, key, value)
    sys.modules[name] = module
    return module


def _make_fc(paddle: Any) -> Any:
    def fc(input: Any, size: int, num_flatten_dims: int = 1, param_attr: Any = None, bias_attr: Any = None,
           act: Any = None, name: Any = None) -> Any:  # fmt: skip
        """A fully connected layer."""
        return paddle.static.nn.fc(input, size, num_flatten_dims, param_attr, bias_attr, act, name)

    return fc


def _make_cross_entropy(paddle: Any) -> Any:
    def cross_entropy(input: Any, label: Any, soft_label: bool = False, ignore_index: int = -100) -> Any:
        """Of probabilities, one for each sample."""
        return paddle.nn.functional.cross_entropy(
            input, label, soft_label=soft_label, ignore_index=ignore_index, reduction="none", use_softmax=False
        )

    return cross_entropy


def _make_pool(paddle: Any) -> Any:
    def pool2d(
        input: Any, pool_size: Any = -1, pool_type: str = "max", pool_stride: Any = 1, pool_padding: Any = 0
    ) -> Any:
        """The largest or mean element of each window."""
        functional = paddle.nn.functional
        pool = functional.max_pool2d if pool_type == "max" else functional.avg_pool2d
        return pool(input, pool_size, pool_stride, pool_padding)

    return pool2d


def _make_conv_pool(paddle: Any) -> Any:
    def simple_img_conv_pool(
        input: Any, num_filters: int, filter_size: Any, pool_size: Any, pool_stride: Any, act: Any = None, **rest: Any
    ) -> Any:
        """A convolution and a pool."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is of an earlier Paddle is why it is here
            hidden = paddle.static.nn.conv2d(input, num_filters, filter_size, act=act)
        return paddle.nn.functional.max_pool2d(hidden, pool_size, pool_stride)

    return simple_img_conv_pool
