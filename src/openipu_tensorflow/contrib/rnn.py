"""`tensorflow.contrib.rnn`: cells of recurrent layers."""

from tensorflow.python.keras.layers.legacy_rnn.rnn_cell_impl import (
    BasicLSTMCell,
    GRUCell,
    LSTMCell,
    LSTMStateTuple,
    MultiRNNCell,
)

__all__ = ["BasicLSTMCell", "GRUCell", "LSTMCell", "LSTMStateTuple", "MultiRNNCell"]
