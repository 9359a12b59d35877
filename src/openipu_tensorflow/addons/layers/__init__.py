"""`ipu_tensorflow_addons.layers`: where `v1.layers` was in older releases."""

from openipu_tensorflow.addons.v1.layers import PopnnAUGRU, PopnnDynamicGRU, PopnnDynamicLSTM, PopnnGRU, PopnnLSTM

__all__ = ["PopnnAUGRU", "PopnnDynamicGRU", "PopnnDynamicLSTM", "PopnnGRU", "PopnnLSTM"]
