"""`ipu_tensorflow_addons.v1.layers`: recurrent layers for graphs of TensorFlow 1."""

from openipu_tensorflow.addons.v1.layers.rnn_ops import (
    PopnnAUGRU,
    PopnnDynamicGRU,
    PopnnDynamicLSTM,
    PopnnGRU,
    PopnnLSTM,
)

__all__ = ["PopnnAUGRU", "PopnnDynamicGRU", "PopnnDynamicLSTM", "PopnnGRU", "PopnnLSTM"]
