"""`keras.optimizer_v2.optimizer_v2`."""

from keras.optimizers import Optimizer

OptimizerV2 = Optimizer

__all__ = ["OptimizerV2"]
