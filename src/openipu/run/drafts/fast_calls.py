"""The quickest way to call each ATen operator from Python.

In: an operator of a graph. Out: the callable for generated code. PyTorch's own Python functions parse their arguments
in about half the time of an operator overload, so hot operators are listed here with an exactly equivalent one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.layouts import guard_operands
from openipu.run.drafts.onednn_lstm import LSTM_ONEDNN, LSTM_ONEDNN_BACKWARD, differentiate_layer, run_layer
from openipu.run.drafts.operators import (
    batch_norm,
    batch_norm_with_statistics,
    copy_strided,
    max_pool_2d,
    read_strided,
    safe_softmax,
    write_strided,
)
from openipu.run.drafts.random_numbers import random_bits, random_rows, sample_bits, sample_rows

aten = torch.ops.aten

# Tensor methods: emitted as `first_argument.name(rest)`.
METHODS: dict[Any, str] = {
    # Where a shape function of PyTorch errs about strides, a view would fail and a copy does not.
    aten.view.default: "reshape",
    aten._unsafe_view.default: "reshape",
    aten.expand.default: "expand",
    aten.detach.default: "detach",
}

FUNCTIONS: dict[Any, Callable[..., Any]] = {
    aten.abs.default: torch.abs,
    aten.add.Tensor: torch.add,
    aten.addcdiv.default: torch.addcdiv,
    aten.addcmul.default: torch.addcmul,
    aten.addmm.default: torch.addmm,
    aten.any.default: torch.any,
    aten.baddbmm.default: torch.baddbmm,
    random_bits: sample_bits,
    random_rows: sample_rows,
    aten.bmm.default: torch.bmm,
    aten.cat.default: torch.cat,
    aten.clamp.default: torch.clamp,
    aten.clone.default: torch.clone,
    aten.convolution.default: torch.convolution,
    aten.cos.default: torch.cos,
    aten.div.Tensor: torch.div,
    aten.embedding.default: torch.embedding,
    aten.eq.Scalar: torch.eq,
    aten.eq.Tensor: torch.eq,
    aten.erf.default: torch.erf,
    aten.exp.default: torch.exp,
    aten.ge.Scalar: torch.ge,
    aten.gt.Scalar: torch.gt,
    aten.index_select.default: torch.index_select,
    aten.le.Scalar: torch.le,
    aten.lerp.Scalar: torch.lerp,
    aten.lerp.Tensor: torch.lerp,
    aten.log.default: torch.log,
    aten.lt.Scalar: torch.lt,
    aten.maximum.default: torch.maximum,
    aten.mean.dim: torch.mean,
    aten.minimum.default: torch.minimum,
    aten.mm.default: torch.mm,
    aten.mul.Tensor: torch.mul,
    aten.native_layer_norm.default: torch.native_layer_norm,
    aten.ne.Scalar: torch.ne,
    aten.neg.default: torch.neg,
    aten.permute.default: torch.permute,
    aten.pow.Scalar: torch.pow,
    aten.pow.Tensor_Scalar: torch.pow,
    aten.pow.Tensor_Tensor: torch.pow,
    aten.reciprocal.default: torch.reciprocal,
    aten.relu.default: torch.relu,
    aten.rsqrt.default: torch.rsqrt,
    aten.rsub.Scalar: torch.rsub,
    aten.select.int: torch.select,
    aten.sigmoid.default: torch.sigmoid,
    aten.sin.default: torch.sin,
    aten.sqrt.default: torch.sqrt,
    aten.squeeze.dim: torch.squeeze,
    aten.sub.Tensor: torch.sub,
    aten.sum.default: torch.sum,
    aten.sum.dim_IntList: torch.sum,
    aten.t.default: torch.t,
    aten.tanh.default: torch.tanh,
    aten.transpose.int: torch.transpose,
    aten.unsqueeze.default: torch.unsqueeze,
    aten.where.self: torch.where,
    aten._log_softmax.default: torch._log_softmax,
    aten._log_softmax_backward_data.default: torch._log_softmax_backward_data,
    aten._softmax.default: torch._softmax,
    aten._softmax_backward_data.default: torch._softmax_backward_data,
}


# Quicker kernels of our own making, with the same results.
KERNELS: dict[Any, Callable[..., Any]] = {
    aten.max_pool2d_with_indices.default: max_pool_2d,
    aten._safe_softmax.default: safe_softmax,
    aten.native_batch_norm.default: batch_norm,
    aten._native_batch_norm_legit_functional.default: batch_norm_with_statistics,
    # Captured graphs read memory by its places from flat tensors only, which a run may hold anywhere.
    aten.as_strided.default: read_strided,
    aten.as_strided_copy.default: copy_strided,
    aten.as_strided_scatter.default: write_strided,
    # What these compute is Python, which needs no way through the dispatcher.
    LSTM_ONEDNN: run_layer,
    LSTM_ONEDNN_BACKWARD: differentiate_layer,
}

# Tensor methods for a change of format: a third of the overhead of the operator.
CONVERSIONS: dict[torch.dtype, str] = {torch.float16: "half", torch.float32: "float"}


def find_conversion(node: fx.Node) -> str | None:
    """The method that converts a tensor between half precision and float32, for a node that does nothing else."""
    if (
        node.target is not aten._to_copy.default
        or set(node.kwargs) != {"dtype"}
        or not isinstance(node.args[0], fx.Node)
    ):
        return None
    wanted: Any = node.kwargs["dtype"]
    held = getattr(node.args[0].meta.get("val"), "dtype", wanted)
    # Where the format does not change, the method would return its argument and not a copy.
    return CONVERSIONS.get(wanted) if held in CONVERSIONS and held is not wanted else None


def find_call(target: Any) -> Callable[..., Any]:
    """The callable to use for a node's target. It may be given operands that lie in memory in any way."""
    return guard_operands(target, _choose_call(target))


def _choose_call(target: Any) -> Callable[..., Any]:
    fast = FUNCTIONS.get(target) or KERNELS.get(target)
    if fast is not None:
        return fast
    if target in METHODS:
        method: Callable[..., Any] = getattr(torch.Tensor, METHODS[target])
        return method
    if isinstance(target, torch._ops.OpOverload):
        # The overload's __call__ is a Python frame around this builtin.
        builtin: Callable[..., Any] = target._op
        return builtin
    call: Callable[..., Any] = target
    return call
