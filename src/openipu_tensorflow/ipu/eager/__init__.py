"""`ipu.eager`: tapes."""

from openipu_tensorflow.ipu.eager import backprop

__all__ = ["backprop"]
