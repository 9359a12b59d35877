"""`tensorflow.contrib.compiler.xla`: a computation as one compiled op, on an IPU where any op of it is on one."""

from openipu_tensorflow.ipu.clusters.compiling import compile_where_placed as compile

__all__ = ["compile"]
