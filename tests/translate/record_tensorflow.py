"""Records what TensorFlow computes for each case of `tensorflow_cases.py`: the main environment has no TensorFlow.

    .venv-tf/bin/python tests/translate/record_tensorflow.py

Out: `tensorflow_values.npz` beside it: of each case its graph as plain records, inputs and results;
`tensorflow_steps.npz`: of small Keras models a training step, its variables before, the losses of five steps, and the
variables after them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
sys.path.insert(0, str(Path(__file__).parent))

import keras
import numpy as np
from tensorflow_cases import CASES, TITLES, Case
from tensorflow_records import pack_graph

import tensorflow as tf
from openipu_tensorflow.engine import marking_optimizers
from openipu_tensorflow.engine.describing import describe_step, name_variables
from openipu_tensorflow.graphs.reading import read_graph


def list_arrays(case: Case) -> list[np.ndarray]:
    """The inputs of a case, one after the other."""
    return [array for value in case.inputs.values() for array in (value if isinstance(value, list) else [value])]


def trace(case: Case) -> Any:
    """The graph of a case: inputs are given, what is fixed is a constant."""

    def run(*tensors: Any) -> Any:
        rest = iter(tensors)
        named: dict[str, Any] = {}
        for name, value in case.inputs.items():
            named[name] = [next(rest) for _ in value] if isinstance(value, list) else next(rest)
        for name, value in case.fixed.items():
            named[name] = [tf.constant(item) for item in value] if isinstance(value, list) else tf.constant(value)
        kinds = {"DstT", "output_type"}
        settings = {key: getattr(tf, value) if key in kinds else value for key, value in case.attributes.items()}
        found = getattr(tf.raw_ops, case.op)(**named, **settings)
        listed = list(found) if isinstance(found, list | tuple) else [found]
        return [listed[place] for place in case.results] if case.results is not None else listed

    specs = [tf.TensorSpec(np.shape(array), np.asarray(array).dtype) for array in list_arrays(case)]
    return tf.function(run, autograph=False).get_concrete_function(*specs)


def read(function: Any, case: Case) -> Any:
    """The records of a traced case. Constants that TensorFlow has folded already are not what is tested."""
    graph = function.graph
    return read_graph(graph, inputs=graph.inputs, outputs=graph.outputs, name=case.op).graph


def build_convolutions() -> tuple[Any, np.ndarray, int]:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((7, 7, 2)),
            layers.Conv2D(3, 3, strides=2, padding="same", activation="relu"),
            layers.BatchNormalization(momentum=0.8),
            layers.MaxPooling2D(2, padding="same"),
            layers.AveragePooling2D(2, strides=1, padding="same"),
            layers.Flatten(),
            layers.Dense(4),
        ]
    )
    return model, np.random.default_rng(1).random((4, 7, 7, 2), np.float32), 4


def build_lstm() -> tuple[Any, np.ndarray, int]:
    layers = keras.layers
    model = keras.Sequential([keras.Input((4,)), layers.Embedding(6, 3), layers.LSTM(3), layers.Dense(4)])
    return model, np.random.default_rng(1).integers(0, 6, (4, 4)).astype(np.int32), 4


def build_attention() -> tuple[Any, np.ndarray, int]:
    layers = keras.layers
    inputs = keras.Input((4, 6))
    hidden = layers.LayerNormalization()(inputs + layers.MultiHeadAttention(2, 3)(inputs, inputs))
    hidden = layers.Dense(6, activation="gelu")(hidden)
    model = keras.Model(inputs, layers.Dense(4)(layers.GlobalAveragePooling1D()(hidden)))
    return model, np.random.default_rng(1).random((4, 4, 6), np.float32), 4


STEPS = {
    "convolutions": (build_convolutions, lambda: keras.optimizers.SGD(0.05, momentum=0.9)),
    "lstm": (build_lstm, lambda: keras.optimizers.Adam(0.01)),
    "attention": (build_attention, lambda: keras.optimizers.AdamW(0.01, clipnorm=1.0)),
}


def record_step(build: Any, make_optimizer: Any) -> dict[str, Any]:
    """The training step of a model as records, and what TensorFlow makes of it."""
    keras.utils.set_random_seed(3)
    model, x, classes = build()
    y = np.arange(len(x), dtype=np.int32) % classes
    optimizer = make_optimizer()
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    with marking_optimizers():
        function = step.get_concrete_function(tf.TensorSpec(x.shape, x.dtype), tf.TensorSpec(y.shape, y.dtype))
    traced = describe_step(
        function.graph,
        inputs=function.graph.inputs[:2],
        outputs=function.graph.outputs,
        targets=function.graph.control_outputs,
    )
    named = dict(name_variables(function.graph).values())
    before = {f"before/{name}": named[name].numpy() for name in traced.variables}
    losses = [float(function(tf.constant(x), tf.constant(y))) for _ in range(5)]
    after = {f"after/{name}": named[name].numpy() for name in traced.variables}
    record = {
        "graph": pack_graph(traced.graph),
        "handles": dict(traced.handles),
        "marks": dict(traced.marks),
        "variables": {name: [str(kind.dtype), list(kind.shape or ())] for name, kind in traced.variables.items()},
    }
    text = np.frombuffer(json.dumps(record).encode(), np.uint8)
    return {"step": text, "x": x, "y": y, "losses": np.array(losses), **before, **after}


def main() -> None:
    found: dict[str, Any] = {}
    for title, (build, make_optimizer) in STEPS.items():
        found |= {f"{title}/{key}": value for key, value in record_step(build, make_optimizer).items()}
    np.savez_compressed(Path(__file__).parent / "tensorflow_steps.npz", **found)
    found = {}
    for title, case in zip(TITLES, CASES, strict=True):
        function = trace(case)
        arrays = list_arrays(case)
        results = function(*(tf.constant(array) for array in arrays))
        found[f"{title}/graph"] = np.frombuffer(json.dumps(pack_graph(read(function, case))).encode(), np.uint8)
        found |= {f"{title}/in/{place}": np.asarray(array) for place, array in enumerate(arrays)}
        found |= {f"{title}/out/{place}": result.numpy() for place, result in enumerate(results)}
    np.savez_compressed(Path(__file__).parent / "tensorflow_values.npz", **found)
    print(f"{len(CASES)} cases")


if __name__ == "__main__":
    main()
