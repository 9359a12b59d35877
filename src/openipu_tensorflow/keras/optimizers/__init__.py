"""`keras.ipu.optimizers`: optimizers around others, for half gradients and for gradients of several micro-batches."""

from openipu_tensorflow.keras.optimizers.accumulating import (
    ALSGradientAccumulationOptimizer,
    GradientAccumulationOptimizer,
)
from openipu_tensorflow.keras.optimizers.loss_scaling import ALSOptimizer
from openipu_tensorflow.keras.optimizers.specialized import ALSOptimizerAdam, ALSOptimizerRMSProp, ALSOptimizerSGD

__all__ = [
    "ALSGradientAccumulationOptimizer",
    "ALSOptimizer",
    "ALSOptimizerAdam",
    "ALSOptimizerRMSProp",
    "ALSOptimizerSGD",
    "GradientAccumulationOptimizer",
]
