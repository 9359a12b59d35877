"""`ipu.optimizers`: TF1 optimizers around others, for several micro-batches and replicas."""

from openipu_tensorflow.ipu.optimizers.cross_replica_optimizer import CrossReplicaOptimizer
from openipu_tensorflow.ipu.optimizers.gradient_accumulation_optimizer import (
    CrossReplicaGradientAccumulationOptimizer,
    CrossReplicaGradientAccumulationOptimizerV2,
    GradientAccumulationOptimizer,
    GradientAccumulationOptimizerV2,
)
from openipu_tensorflow.ipu.optimizers.ipu_optimizer import IpuOptimizer
from openipu_tensorflow.ipu.optimizers.map_gradient_optimizer import MapGradientOptimizer
from openipu_tensorflow.ipu.optimizers.sharded_optimizer import ShardedOptimizer

__all__ = [
    "CrossReplicaGradientAccumulationOptimizer",
    "CrossReplicaGradientAccumulationOptimizerV2",
    "CrossReplicaOptimizer",
    "GradientAccumulationOptimizer",
    "GradientAccumulationOptimizerV2",
    "IpuOptimizer",
    "MapGradientOptimizer",
    "ShardedOptimizer",
]
