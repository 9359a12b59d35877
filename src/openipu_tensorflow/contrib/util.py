"""`tensorflow.contrib.util`: tensors as messages."""

from tensorflow.python.framework import tensor_util
from tensorflow.python.framework.tensor_util import constant_value, make_tensor_proto

make_ndarray = tensor_util.MakeNdarray

__all__ = ["constant_value", "make_ndarray", "make_tensor_proto"]
