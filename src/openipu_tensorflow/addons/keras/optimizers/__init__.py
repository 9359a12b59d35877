"""`ipu_tensorflow_addons.keras.optimizers`: optimizers whose state has number formats of its own."""

from openipu_tensorflow.addons.keras.optimizers.adam_optimizer import AdamIpuOptimizer
from openipu_tensorflow.addons.keras.optimizers.ipu_optimizer_base import IpuOptimizerBase
from openipu_tensorflow.addons.keras.optimizers.lamb_optimizer import LAMBIpuOptimizer
from openipu_tensorflow.addons.keras.optimizers.sgd_optimizer import SGDIpuOptimizer

__all__ = ["AdamIpuOptimizer", "IpuOptimizerBase", "LAMBIpuOptimizer", "SGDIpuOptimizer"]
