"""What one time step of each recurrent cell does besides its matmuls: the passes of popnn's layers.

In: nothing. Out: `LSTM`, `GRU`, `TANH_CELL` and `RELU_CELL`, from which `recurrent` prices layers. A pass has a name, a
kernel, and how many times the elements of the state it runs over. Source: Lstm.cpp, Gru.cpp and Rnn.cpp of the public
Poplibs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from openipu.ops.kernels import (
    ADD,
    BROADCAST_ADD,
    MULTIPLY,
    RELU,
    RELU_GRADIENT,
    SIGMOID,
    SIGMOID_GRADIENT,
    TANH,
    TANH_GRADIENT,
    Kernel,
    fuse,
)

Pass = tuple[str, Kernel, int]  # name, kernel, how many times the elements of the state it runs over


@dataclass(frozen=True, slots=True)
class Cell:
    """What one time step does, and where the arguments of its op stand."""

    gates: int
    forward: tuple[Pass, ...]
    backward: tuple[Pass, ...]
    saved: int  # values of the size of the state that forward keeps for backward
    gradients: int  # arguments in front of the input in the op for backward
    joined: bool  # inputs and state in one matmul
    inputs_first: bool = False  # the inputs of all steps in one matmul, before the loop


_GATE_GRADIENTS = fuse("LstmGateGradients", SIGMOID_GRADIENT, SIGMOID_GRADIENT, TANH_GRADIENT)
LSTM = Cell(
    gates=4,
    forward=(
        ("add bias", BROADCAST_ADD, 4),
        ("gates", fuse("LstmGates", SIGMOID, SIGMOID, SIGMOID, TANH), 1),  # one compute set over all four
        ("forget and input", MULTIPLY, 2),
        ("add candidate", ADD, 1),
        ("tanh of cell", TANH, 1),
        ("output gate", MULTIPLY, 1),
    ),
    backward=(
        ("add gradients", ADD, 1),
        ("to output gate and tanh", MULTIPLY, 2),
        ("output gate", fuse("LstmOutputGradient", TANH_GRADIENT, SIGMOID_GRADIENT), 1),
        ("add gradient of cell", ADD, 1),
        ("to gates and last cell", MULTIPLY, 4),
        ("gates", _GATE_GRADIENTS, 1),
    ),
    saved=5,  # four gates and the cell
    gradients=3,
    joined=True,
)
GRU = Cell(
    gates=3,
    forward=(
        ("add biases", BROADCAST_ADD, 6),
        ("add input and state", ADD, 2),
        ("gates", fuse("GruGates", SIGMOID, SIGMOID), 1),
        ("reset", MULTIPLY, 1),
        ("add candidate", ADD, 1),
        ("candidate", TANH, 1),
        ("update", fuse("GruUpdate", ADD, MULTIPLY, ADD), 1),
    ),
    backward=(
        ("add gradients", ADD, 1),
        ("to update and candidate", MULTIPLY, 3),
        ("candidate", TANH_GRADIENT, 1),
        ("to reset", MULTIPLY, 2),
        ("gates", fuse("GruGateGradients", SIGMOID_GRADIENT, SIGMOID_GRADIENT), 1),
        ("add to state", ADD, 1),
    ),
    saved=4,  # three gates and the state's part of the candidate
    gradients=2,
    joined=False,  # PyTorch's GRU resets what the state's matmul made, so that inputs and state need one each
)
TANH_CELL = Cell(
    gates=1,
    forward=(("add input", ADD, 1), ("add bias", BROADCAST_ADD, 1), ("tanh", TANH, 1)),
    backward=(("add gradients", ADD, 1), ("tanh", TANH_GRADIENT, 1)),
    saved=0,
    gradients=2,
    joined=False,
    inputs_first=True,
)
RELU_CELL = replace(
    TANH_CELL,
    forward=(("add input", ADD, 1), ("add bias", BROADCAST_ADD, 1), ("relu", RELU, 1)),
    backward=(("add gradients", ADD, 1), ("relu", RELU_GRADIENT, 1)),
)
