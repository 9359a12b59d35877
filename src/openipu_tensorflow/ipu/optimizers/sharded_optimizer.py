"""Ops of the gradients and of the update are on the IPUs of the ops that they belong to."""

from __future__ import annotations

from typing import Any

from openipu_tensorflow.ipu import sharding
from openipu_tensorflow.ipu.optimizers.ipu_optimizer import IpuOptimizer


class ShardedOptimizer(IpuOptimizer):
    """After the gradients, and after the update, ops without a shard get that of their neighbours."""

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer, "ShardedOptimizer")

    def compute_gradients(self, loss: Any, var_list: Any = None, **kwargs: Any) -> Any:
        kwargs["colocate_gradients_with_ops"] = True
        pairs = super().compute_gradients(loss, var_list, **kwargs)
        sharding.propagate_sharding(loss.graph)
        return pairs

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        done = super().apply_gradients(grads_and_vars, global_step, name)
        sharding.propagate_sharding(done.graph)
        return done
