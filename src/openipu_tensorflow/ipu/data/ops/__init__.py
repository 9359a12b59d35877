"""`ipu.data.ops`."""

from openipu_tensorflow.ipu.data.ops import dataset_ops

__all__ = ["dataset_ops"]
