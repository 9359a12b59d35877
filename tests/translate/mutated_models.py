"""ONNX models that are wrong in what they say, though every byte of them can be read.

In: a model and a source of random numbers. Out: the model with a few of its ops, names, attributes, shapes, formats or
values changed to others that occur in files, or that no file should have.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from graphcore_models import make_body, make_call
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx_models import make_model

from openipu.translate.onnx.table import TABLE

_NUMBERS = (-(1 << 62), -7, -1, 0, 1, 2, 3, 5, 17, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1)
_TEXTS = ("", "constant", "nearest", "linear", "SAME_UPPER", "reverse", "mean", "sum", "none", "x", "ij,jk->ik", "\0")


def make_seeds() -> list[ModelProto]:
    """Models with many kinds of ops."""
    weights = {
        "kernel": np.linspace(-1, 1, 72, dtype=np.float32).reshape(4, 2, 3, 3),
        "four": np.ones(4, np.float32),
        "shape": np.array([2, -1]),
        "axes": np.array([1]),
        "k": np.array([2]),
        "pads": np.array([0, 1, 0, 1]),
        "lstm": np.ones((1, 16, 3), np.float32),
        "again": np.ones((1, 16, 4), np.float32),
        "count": np.array(3),
        "index": np.array([0, 1, 1]),
    }
    node = helper.make_node
    image = [
        node("Conv", ["x", "kernel"], ["c"], pads=[1, 1, 1, 1], strides=[1, 1], name="conv"),
        node("BatchNormalization", ["c", "four", "four", "four", "four"], ["n"], name="norm"),
        node("MaxPool", ["n"], ["p"], kernel_shape=[2, 2], strides=[2, 2], name="pool"),
        node("AveragePool", ["p"], ["a"], kernel_shape=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1, name="mean"),
        node("Reshape", ["a", "shape"], ["r"], name="reshape"),
        node("Pad", ["r", "pads"], ["q"], mode="constant", name="pad"),
        node("TopK", ["q", "k"], ["t", "i"], axis=-1, name="top"),
        node("Gather", ["t", "index"], ["g"], axis=1, name="gather"),
        node("ReduceSum", ["g", "axes"], ["s"], keepdims=1, name="sum"),
        node("Softmax", ["s"], ["y"], axis=-1, name="soft"),
    ]
    then = make_body([node("Neg", ["u"], ["v"])], [], ["v"])
    other = make_body([node("Mul", ["u", "u"], ["w"])], [], ["w"])
    step = make_body(
        [node("Add", ["now", "u"], ["next"]), node("Identity", ["going"], ["on"])], ["number", "going", "now"],
        ["on", "next"],
    )  # fmt: skip
    flow = [
        node("Slice", ["x", "axes", "k"], ["u"], name="slice"),
        node("ReduceSum", ["u"], ["total"], keepdims=0, name="total"),
        node("Cast", ["total"], ["which"], to=TensorProto.BOOL, name="cast"),
        node("If", ["which"], ["b"], then_branch=then, else_branch=other, name="branch"),
        node("Loop", ["count", "", "b"], ["y"], body=step, name="loop"),
    ]
    call = make_body([node("Sub", ["l", "m"], ["o"])], ["l", "m"], ["o"])
    graphcore = [
        make_call("GroupNormalization", ["x", "four", "four"], ["gn", "m", "v"], num_groups=2, name="group"),
        make_call("Call", ["gn", "x"], ["d"], callee=call, name="call"),
        make_call("Subsample", ["d"], ["ss"], strides=[1, 2, 1, 2], name="sample"),
        make_call("DynamicSlice", ["ss", "k"], ["ds"], axes=[0], sizes=[1], name="dynamic"),
        make_call("ScatterReduce", ["ss", "index2"], ["sr"], axis=1, axis_size=6, reduction="sum", name="scatter"),
        make_call("L1", ["sr"], ["y"], **{"lambda": 0.1, "reduction": "Mean"}, name="loss"),
    ]
    layers = [
        node("LSTM", ["x", "lstm", "again"], ["all", "last"], hidden_size=4, name="lstm"),
        node("Squeeze", ["all", "axes"], ["z"], name="squeeze"),
        node("Einsum", ["z", "z"], ["e"], equation="tbh,tbk->hk", name="einsum"),
        node("Resize", ["x", "", "scales"], ["big"], mode="linear", name="resize"),
        node("Concat", ["big", "big"], ["y"], axis=0, name="join"),
    ]
    found = [
        make_model(image, {"x": [2, 2, 6, 6]}, ["y"], weights, opset=17),
        make_model(flow, {"x": [4, 3]}, ["y"], weights, opset=17),
        make_model(graphcore, {"x": [2, 4, 4, 4]}, ["y"], {**weights, "index2": np.array([0, 5])}, opset=11),
        make_model(layers, {"x": [5, 2, 3]}, ["y"], {**weights, "scales": np.array([1, 1, 2], np.float32)}, opset=14),
    ]
    found[2].opset_import.append(helper.make_opsetid("ai.graphcore", 1))
    return found


def _list_nodes(graph: Any) -> list[Any]:
    found = list(graph.node)
    for node in graph.node:
        for entry in node.attribute:
            if entry.HasField("g"):
                found.extend(_list_nodes(entry.g))
    return found


def _change_op(model: ModelProto, source: random.Random) -> None:
    node = source.choice(_list_nodes(model.graph))
    node.domain, node.op_type = source.choice(TABLE.list_ops())


def _change_name(model: ModelProto, source: random.Random) -> None:
    nodes = _list_nodes(model.graph)
    node = source.choice(nodes)
    known = [name for other in nodes for name in (*other.input, *other.output)]
    place = source.choice((node.input, node.output))
    if len(place):
        place[source.randrange(len(place))] = source.choice([*known, "", "nowhere"])


def _change_count(model: ModelProto, source: random.Random) -> None:
    node = source.choice(_list_nodes(model.graph))
    place = source.choice((node.input, node.output))
    if source.random() < 0.5 and len(place):
        del place[source.randrange(len(place))]
    else:
        place.append(source.choice(["x", "", "more"]))


def _change_attribute(model: ModelProto, source: random.Random) -> None:
    node = source.choice(_list_nodes(model.graph))
    if not node.attribute:
        return
    entry = source.choice(node.attribute)
    if entry.type == 7 and source.random() < 0.7 and len(entry.ints):
        entry.ints[source.randrange(len(entry.ints))] = source.choice(_NUMBERS)
        return
    values: list[Callable[[], Any]] = [
        lambda: source.choice(_NUMBERS),
        lambda: source.choice((0.0, -1.5, 1e30, float("nan"))),
        lambda: [source.choice(_NUMBERS) for _ in range(source.randrange(1, 5))],
        lambda: source.choice(_TEXTS),
    ]
    entry.CopyFrom(helper.make_attribute(entry.name, source.choice(values)()))


def _change_shape(model: ModelProto, source: random.Random) -> None:
    tensor = source.choice(model.graph.input).type.tensor_type
    if source.random() < 0.3:
        tensor.elem_type = source.randrange(0, 22)
    elif len(tensor.shape.dim):
        source.choice(tensor.shape.dim).dim_value = source.choice((0, 1, 3, 7, 1 << 33, -2))


def _change_weight(model: ModelProto, source: random.Random) -> None:
    entry = source.choice(model.graph.initializer)
    way = source.randrange(4)
    if way == 0 and len(entry.dims):
        entry.dims[source.randrange(len(entry.dims))] = source.choice(_NUMBERS)
    elif way == 1:
        entry.data_type = source.randrange(0, 24)
    elif way == 2 and entry.data_type == TensorProto.INT64:
        values = numpy_helper.to_array(entry).copy().reshape(-1)
        values[source.randrange(values.size)] = source.choice(_NUMBERS)
        entry.raw_data = values.tobytes()
    else:
        entry.raw_data = entry.raw_data[: source.randrange(len(entry.raw_data) + 1)]


_CHANGES = (
    _change_op,
    _change_name,
    _change_count,
    _change_attribute,
    _change_attribute,
    _change_shape,
    _change_weight,
)


def mutate(seed: ModelProto, source: random.Random) -> bytes:
    """A copy with one to three changes."""
    model = ModelProto()
    model.CopyFrom(seed)
    for _ in range(source.choice((1, 1, 2, 3))):
        source.choice(_CHANGES)(model, source)
    return bytes(model.SerializeToString())
