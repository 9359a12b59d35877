"""`ipu.data`: data sets of the host."""

from openipu_tensorflow.ipu.data import ops

__all__ = ["ops"]
