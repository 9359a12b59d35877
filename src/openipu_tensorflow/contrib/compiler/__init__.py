"""`tensorflow.contrib.compiler`"""

from openipu_tensorflow.contrib.compiler import xla

__all__ = ["xla"]
