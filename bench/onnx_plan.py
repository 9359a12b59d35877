"""How long a BERT-large ONNX file takes to plan, and how much memory, with 1.3 GB of weights that nobody reads.

In: nothing. Out: seconds and peak memory of `openipu plan` in a process of its own. The weights are a sparse file of
the right size beside the model, in a temporary directory.

    python -m bench.onnx_plan [--layers 24] [--batch 1] [--tokens 384]
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from onnx import ModelProto, TensorProto, helper

HIDDEN, HEADS, INNER, WORDS, PLACES = 1024, 16, 4096, 30522, 512
WEIGHTS_NAME = "weights.bin"


class Builder:
    """Nodes, and weights that lie one behind the other in a file."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[TensorProto] = []
        self.bytes = 0

    def weight(self, name: str, *shape: int) -> str:
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        length = 4 * math.prod(shape)
        for key, value in (("location", WEIGHTS_NAME), ("offset", self.bytes), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        self.weights.append(tensor)
        self.bytes += length
        return name

    def constant(self, name: str, numbers: list[int] | list[float], kind: int = TensorProto.INT64) -> str:
        shape = [len(numbers)] if kind == TensorProto.INT64 else []
        self.weights.append(helper.make_tensor(name, kind, shape, numbers))
        return name

    def add(self, op: str, name: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"/{name.replace('.', '/')}", **attributes))
        return name

    def dense(self, name: str, x: str, width: int, results: int) -> str:
        product = self.add("MatMul", f"{name}.product", x, self.weight(f"{name}.weight", width, results))
        return self.add("Add", f"{name}.sum", product, self.weight(f"{name}.bias", results))

    def norm(self, name: str, x: str) -> str:
        weights = self.weight(f"{name}.scale", HIDDEN), self.weight(f"{name}.shift", HIDDEN)
        return self.add("LayerNormalization", f"{name}.norm", x, *weights, axis=-1, epsilon=1e-12)

    def heads(self, name: str, x: str, order: list[int]) -> str:
        parts = self.add("Reshape", f"{name}.parts", x, "head_shape")
        return self.add("Transpose", f"{name}.heads", parts, perm=order)


def make_bert(layers: int, tokens: int) -> tuple[ModelProto, int]:
    """The encoder of BERT, and how many bytes its weights have."""
    make = Builder()
    make.constant("head_shape", [0, 0, HEADS, HIDDEN // HEADS])
    make.constant("flat_shape", [0, 0, HIDDEN])
    make.constant("root", [math.sqrt(HIDDEN / HEADS)], TensorProto.FLOAT)
    words = make.add("Gather", "embeddings.words", make.weight("word_table", WORDS, HIDDEN), "input_ids")
    places = make.add("Slice", "embeddings.cut", make.weight("place_table", PLACES, HIDDEN),
                      make.constant("begin", [0]), make.constant("end", [tokens]))  # fmt: skip
    x = make.norm("embeddings", make.add("Add", "embeddings.sum", words, places))
    for number in range(layers):
        name = f"layer{number}"
        query, key, value = (make.dense(f"{name}.{part}", x, HIDDEN, HIDDEN) for part in ("query", "key", "value"))
        query = make.heads(f"{name}.query", query, [0, 2, 1, 3])
        key = make.heads(f"{name}.key", key, [0, 2, 3, 1])
        value = make.heads(f"{name}.value", value, [0, 2, 1, 3])
        scores = make.add("Div", f"{name}.scaled", make.add("MatMul", f"{name}.scores", query, key), "root")
        found = make.add("MatMul", f"{name}.mix", make.add("Softmax", f"{name}.softmax", scores, axis=-1), value)
        joined = make.add("Transpose", f"{name}.back", found, perm=[0, 2, 1, 3])
        flat = make.add("Reshape", f"{name}.flat", joined, "flat_shape")
        x = make.norm(
            f"{name}.first", make.add("Add", f"{name}.skip", make.dense(f"{name}.out", flat, HIDDEN, HIDDEN), x)
        )
        inner = make.add("Gelu", f"{name}.gelu", make.dense(f"{name}.inner", x, HIDDEN, INNER))
        outer = make.dense(f"{name}.outer", inner, INNER, HIDDEN)
        x = make.norm(f"{name}.second", make.add("Add", f"{name}.skip2", outer, x))
    graph = helper.make_graph(
        make.nodes,
        "bert",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", tokens])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["batch", tokens, HIDDEN])],
        make.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), make.bytes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=384)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="onnx-plan-") as place:
        model, size = make_bert(options.layers, options.tokens)
        path = Path(place) / "bert.onnx"
        path.write_bytes(model.SerializeToString())
        with (path.parent / WEIGHTS_NAME).open("wb") as file:
            file.truncate(size)  # a hole: it takes no room
        words = [sys.executable, "-m", "openipu", "plan", str(path), "--dimension", f"batch={options.batch}"]
        words += ["--system", "pod16", "--advice-plans", "0"]
        started = time.perf_counter()
        child = os.spawnv(os.P_NOWAIT, sys.executable, words)
        _, status, usage = os.wait4(child, 0)
        seconds = time.perf_counter() - started
    print(f"{size / 1e9:.2f} GB of weights, {len(model.graph.node):,} nodes")
    busy = usage.ru_utime + usage.ru_stime
    print(f"planned in {seconds:.1f} s, {busy:.1f} s of a processor, peak {usage.ru_maxrss / (1 << 20):.2f} GiB")
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
