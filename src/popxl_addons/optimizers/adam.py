"""Adam's update of one variable."""

import math
from functools import partial
from typing import TypeAlias

import numpy as np

import popxl
from popxl import ReplicaGrouping, ops
from popxl_addons.module import Module

__all__ = ["AdamOptimizerStep"]

Number: TypeAlias = float | popxl.Tensor


class AdamOptimizerStep(Module):
    """Adam with decoupled weight decay. State: ``first_order``, ``second_order`` and, for bias correction, ``step``."""

    @popxl.in_sequence()
    def build(
        self,
        var: popxl.TensorByRef,
        grad: popxl.Tensor,
        replica_grouping: ReplicaGrouping | None = None,
        *,
        lr: Number,
        beta1: Number = 0.9,
        beta2: Number = 0.999,
        eps: Number = 1e-5,
        weight_decay: Number = 1e-2,
        first_order_dtype: popxl.dtype = popxl.float16,
        bias_correction: bool = True,
        loss_scaling: Number = 1,
        global_norm: popxl.Tensor | None = None,
        global_norm_max: Number | None = None,
    ) -> None:
        """Update ``var``, which may be a shard, by its gradient.

        The gradient is divided by ``loss_scaling``, and shortened so that ``global_norm`` becomes at most
        ``global_norm_max`` if these are given.
        """
        grad = _scale(grad, loss_scaling, global_norm, global_norm_max)
        first = self._add_moment("first_order", var, first_order_dtype, replica_grouping)
        second = self._add_moment("second_order", var, popxl.float32, replica_grouping)
        ops.var_updates.accumulate_moving_average_(first, grad, f=beta1)
        ops.var_updates.accumulate_moving_average_square_(second, grad, f=beta2)
        count = self._add_count() if bias_correction else None
        change = ops.var_updates.adam_updater(first, second, var, count, weight_decay, beta1, beta2, eps)
        ops.scaled_add_(var, change, b=-lr)

    def _add_count(self) -> popxl.Tensor:
        """How many updates there were, which bias correction raises and reads."""
        return self.add_variable_input("step", partial(np.zeros, ()), popxl.float32, by_ref=True)

    def _add_moment(
        self, name: str, var: popxl.Tensor, dtype: popxl.dtype, replica_grouping: ReplicaGrouping | None
    ) -> popxl.Tensor:
        if not var.meta_shape:
            zeros = partial(np.zeros, tuple(var.shape))
            return self.add_variable_input(name, zeros, dtype, by_ref=True, replica_grouping=replica_grouping)
        return self.add_replica_sharded_variable_input(
            name,
            partial(np.zeros, tuple(var.meta_shape)),
            dtype,
            by_ref=True,
            replica_grouping=replica_grouping,
            shard_over=math.prod(var.meta_shape) // math.prod(var.shape),
        )


def _scale(
    grad: popxl.Tensor, loss_scaling: Number, global_norm: popxl.Tensor | None, global_norm_max: Number | None
) -> popxl.Tensor:
    """The gradient without the scale of the loss, and clipped by the norm of all gradients."""
    scale: Number | None = None
    if isinstance(loss_scaling, popxl.Tensor) or loss_scaling != 1:
        scale = 1 / loss_scaling
    if global_norm is not None:
        if global_norm_max is None:
            raise ValueError(
                "global_norm says how long the gradients are; global_norm_max has to say how long they may be"
            )
        if not isinstance(global_norm_max, popxl.Tensor):
            global_norm_max = popxl.constant(global_norm_max, popxl.float32)
        shorter = global_norm_max / ops.maximum(global_norm, global_norm_max)
        scale = shorter if scale is None else shorter * scale
    return grad if scale is None else ops.cast(grad, popxl.float32) * scale
