"""Recurrent layers as single ops: one layer in one direction, and its gradient.

In: nothing. Out: the ops `openipu::lstm_layer`, `gru_layer` and `rnn_layer`, each with a `…_backward`, registered with
torch. Sequences are [time, batch, features]; states are [batch, hidden]. `reverse` runs from the last time step to the
first. What backward reads comes out of forward, and is empty where `training` is false.
"""

from openipu.graph.recurrent.schemas import RECURRENT_OPS

__all__ = ["RECURRENT_OPS"]
