"""PopART's optimizers, and what they become: a structure to compile, values to set, names of tensors to save."""

from popart.optimizers.adam import Adam
from popart.optimizers.adaptive import Adaptive
from popart.optimizers.base import Optimizer
from popart.optimizers.clipping import ClipNormSettings
from popart.optimizers.device import DeviceOptimizer
from popart.optimizers.sgd import SGD, ConstSGD
from popart.optimizers.values import OptimizerValue, OptimizerValueMap

__all__ = [
    "SGD",
    "Adam",
    "Adaptive",
    "ClipNormSettings",
    "ConstSGD",
    "DeviceOptimizer",
    "Optimizer",
    "OptimizerValue",
    "OptimizerValueMap",
]
