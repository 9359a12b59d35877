"""Gradients are averaged over the replicas before they are applied."""

from __future__ import annotations

from typing import Any

from openipu.graph import Reduction
from openipu_tensorflow.ipu.clusters.updates import UpdateOptions, add_update
from openipu_tensorflow.ipu.optimizers.ipu_optimizer import IpuOptimizer


class CrossReplicaOptimizer(IpuOptimizer):
    """The mean over replicas, then the wrapped optimizer."""

    def __init__(self, opt: Any, name: str = "CrossReplicaOptimizer") -> None:
        super().__init__(opt, name)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        def apply(pairs: list[tuple[Any, Any]]) -> Any:
            return self._opt.apply_gradients(pairs, global_step, name)

        options = UpdateOptions(replica_reduction=Reduction.MEAN)
        return add_update(list(grads_and_vars), apply, options, "CrossReplicaOptimizer")
