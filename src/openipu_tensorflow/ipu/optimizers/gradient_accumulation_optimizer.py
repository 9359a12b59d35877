"""Gradients of several micro-batches become one update."""

from __future__ import annotations

from typing import Any

from openipu.graph import Reduction
from openipu_tensorflow.ipu.clusters.updates import UpdateOptions, add_update
from openipu_tensorflow.ipu.gradient_accumulation import GradientAccumulationReductionMethod
from openipu_tensorflow.ipu.optimizers.cross_replica_optimizer import CrossReplicaOptimizer
from openipu_tensorflow.ipu.optimizers.ipu_optimizer import IpuOptimizer


class GradientAccumulationOptimizerV2(IpuOptimizer):
    """The wrapped optimizer is applied once every `num_mini_batches` rounds of the loop that it stands in."""

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: Any = None,
        reduction_method: Any = GradientAccumulationReductionMethod.SUM,
        name: str = "GradientAccumulationOptimizerV2",
    ) -> None:
        crosses = isinstance(opt, CrossReplicaOptimizer)
        super().__init__(opt._opt if crosses else opt, name)
        if isinstance(num_mini_batches, bool) or not isinstance(num_mini_batches, int) or num_mini_batches < 1:
            raise ValueError(f"num_mini_batches must be a positive number, and is {num_mini_batches!r}.")
        self._dtype = dtype
        method = GradientAccumulationReductionMethod.SUM if reduction_method is None else reduction_method
        self._num_mini_batches = num_mini_batches
        self._options = UpdateOptions(
            accumulation=num_mini_batches,
            reduction=GradientAccumulationReductionMethod.parse(method).reduction,
            replica_reduction=Reduction.MEAN if crosses else None,
            offload_state=bool(offload_weight_update_variables),
            shard_state=bool(replicated_optimizer_state_sharding),
        )

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        def apply(pairs: list[tuple[Any, Any]]) -> Any:
            return self._opt.apply_gradients(pairs, global_step, name)

        return add_update(cast_gradients(grads_and_vars, self._dtype), apply, self._options, type(self).__name__)


class CrossReplicaGradientAccumulationOptimizerV2(GradientAccumulationOptimizerV2):
    """As `GradientAccumulationOptimizerV2`; gradients are averaged over the replicas as well."""

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: Any = None,
        reduction_method: Any = GradientAccumulationReductionMethod.SUM,
        name: str = "CrossReplicaGradientAccumulationOptimizerV2",
    ) -> None:
        super().__init__(
            CrossReplicaOptimizer(opt),
            num_mini_batches,
            offload_weight_update_variables,
            replicated_optimizer_state_sharding,
            dtype,
            reduction_method,
            name,
        )


class GradientAccumulationOptimizer(GradientAccumulationOptimizerV2):
    """The older form. `verify_usage` asked the original's compiler to check the loop; here it is always checked."""

    def __init__(
        self, opt: Any, num_mini_batches: int, verify_usage: bool = True, name: str = "GradientAccumulationOptimizer"
    ) -> None:
        super().__init__(opt, num_mini_batches, name=name)


class CrossReplicaGradientAccumulationOptimizer(CrossReplicaGradientAccumulationOptimizerV2):
    """The older form of `CrossReplicaGradientAccumulationOptimizerV2`."""

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        verify_usage: bool = True,
        name: str = "CrossReplicaGradientAccumulationOptimizer",
    ) -> None:
        super().__init__(opt, num_mini_batches, name=name)


def cast_gradients(pairs: Any, dtype: Any) -> list[tuple[Any, Any]]:
    """Gradients in the type of their accumulators: a type, a function from variables to it, None for their own."""
    from tensorflow.python.framework import dtypes, ops
    from tensorflow.python.ops import math_ops

    made: list[tuple[Any, Any]] = []
    for gradient, variable in pairs:
        chosen = dtype(variable) if callable(dtype) and not isinstance(dtype, type) else dtype
        if gradient is None or chosen is None:
            made.append((gradient, variable))
        else:
            made.append((math_ops.cast(ops.convert_to_tensor(gradient), dtypes.as_dtype(chosen)), variable))
    return made
