"""`tensorflow.contrib`, which left TensorFlow after 1.15: the names that programs for IPUs used of it, by what they are
in TensorFlow today."""

from openipu_tensorflow.contrib import compiler, data, framework, layers, rnn, util

__all__ = ["compiler", "data", "framework", "layers", "rnn", "util"]
