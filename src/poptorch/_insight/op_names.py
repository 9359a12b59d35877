"""What users of PopTorch call an op: `aten.mm` is a MatMul, part of a split is a Slice.

In: a node of a captured graph. Out: a name for logs, and the type and shape of its result.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

from openipu.graph import note_of

NAMES = {
    "_log_softmax": "LogSoftmax",
    "_softmax": "Softmax",
    "_to_copy": "Cast",
    "_unsafe_view": "Reshape",
    "addmm": "Gemm",
    "bmm": "MatMul",
    "cat": "Concat",
    "clone": "Identity",
    "convolution": "Conv",
    "detach": "Identity",
    "gru_layer": "GRU",
    "lstm_layer": "LSTM",
    "mm": "MatMul",
    "mv": "MatMul",
    "native_batch_norm": "BatchNormalization",
    "native_group_norm": "GroupNormalization",
    "native_layer_norm": "LayerNormalization",
    "permute": "Transpose",
    "rnn_layer": "RNN",
    "rsub": "Sub",
    "select": "Slice",
    "split": "Split",
    "split_with_sizes": "Split",
    "sum": "ReduceSum",
    "mean": "ReduceMean",
    "t": "Transpose",
    "transpose": "Transpose",
    "unbind": "Split",
    "view": "Reshape",
}
PARTS = {"split": "Slice", "split_with_sizes": "Slice", "unbind": "Slice", "chunk": "Slice"}
LOSSES = {
    "binary_cross_entropy": "BinaryCrossEntropy",
    "l1_loss": "L1",
    "mse_loss": "MeanSquaredError",
    "nll_loss": "Nll",
}


def name_op(node: fx.Node) -> str:
    """The kind of op."""
    loss = note_of(node).attributes.get("loss")
    if loss is not None:
        return LOSSES.get(loss) or _join_words(loss)
    if node.target is operator.getitem:
        source = node.args[0]
        assert isinstance(source, fx.Node)
        return PARTS.get(_base_name(source)) or name_op(source)
    base = _base_name(node)
    return NAMES.get(base) or _join_words(base)


def describe_value(node: fx.Node) -> str:
    """`float32(10, 1)`."""
    value = node.meta["val"]
    assert isinstance(value, torch.Tensor)
    return f"{str(value.dtype).removeprefix('torch.')}({', '.join(map(str, value.shape))})"


def _base_name(node: fx.Node) -> str:
    target = node.target
    packet = getattr(target, "overloadpacket", None)
    return str(packet).rpartition(".")[2] if packet is not None else getattr(target, "__name__", str(target))


def _join_words(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
