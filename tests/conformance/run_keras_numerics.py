"""Twenty steps of each Keras model of `bench.keras_models` on an IPU against stock Keras: `make conformance-keras`.

In: the CNN, the LSTM classifier, the transformer and ResNet-50 (images of 64 x 64), dropouts off. Out: a table with the
largest relative difference of losses and the largest difference of weights after 20 steps.

  float32  `fit` on an IPU against `fit` of stock Keras
  steps    each step by itself, from the weights that stock Keras had before it: what one step of rounding is
  float64  the translated ops against TensorFlow, both in doubles: what is left is no rounding of float32

Where float32 parts and the two others do not, the model amplifies rounding, whoever computes it. The last columns say
by how much stock Keras parts from itself when its weights change by one part in 2**23 before the first step.

    python tests/conformance/run_keras_numerics.py [--only ResNet] [--steps 20]
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.keras_models import CASES, Case, draw_images, make_resnet


def list_cases() -> dict[str, Case]:
    """Those of the benchmark, with smaller images for ResNet-50, and gradients of embeddings as whole tensors."""
    cases = {name: dataclasses.replace(case, optimizer=make_whole(case.optimizer)) for name, case in CASES.items()}
    name = "ResNet-50"
    return {**cases, name: dataclasses.replace(cases[name], make=make_resnet(64), draw=draw_images(64, 100))}


def make_whole(make: Any) -> Any:
    """An optimizer that adds up the rows of sparse gradients first, as on an IPU."""

    def wrapped() -> Any:
        import tensorflow as tf

        optimizer = make()
        original = optimizer.apply

        def apply(grads: Any, trainable_variables: Any = None) -> Any:
            return original([tf.convert_to_tensor(gradient) for gradient in grads], trainable_variables)

        optimizer.apply = apply
        return optimizer

    return wrapped


def train(case: Case, steps: int, on_ipu: bool, change: float = 0.0) -> tuple[Any, list[float], list[Any]]:
    """A trained model, the loss of each step, and all variables before each step."""
    import keras
    from bench.keras_speed import find_scope

    losses: list[float] = []
    states: list[Any] = []

    class Note(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if not on_ipu and not change:
                states.append([value.numpy() for value in list_variables(self.model)])

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            losses.append(float(logs["loss"]))
            self.model.reset_metrics()

    with find_scope(on_ipu):
        model = case.compile(dropout=0.0, steps_per_execution=1)
        model.optimizer.build(model.trainable_variables)
        if change:
            generator = np.random.default_rng(0)
            model.set_weights([w * (1 + change * generator.choice([-1, 1], w.shape)) for w in model.get_weights()])
        x, y = case.draw(case.batch * steps)
        model.fit(x, y, batch_size=case.batch, shuffle=False, verbose=0, callbacks=[Note()])
    return model, losses, states


def list_variables(model: Any) -> list[Any]:
    return [*model.variables, *model.optimizer.variables]


def compare(model: Any, other: Any) -> float:
    pairs = zip(model.get_weights(), other.get_weights(), strict=True)
    return max(float(np.abs(np.float64(one) - np.float64(two)).max()) for one, two in pairs)


def find_worst(values: list[float], expected: list[float]) -> float:
    return max(abs(one - two) / abs(two) for one, two in zip(values, expected, strict=True))


def run_single_steps(case: Case, states: list[Any], expected: list[float]) -> float:
    """The largest relative difference of a loss, each step from stock Keras' own variables."""
    from bench.keras_speed import find_scope

    x, y = case.draw(case.batch * len(states))
    found = []
    with find_scope(True):
        model = case.compile(dropout=0.0, steps_per_execution=1)
        model.optimizer.build(model.trainable_variables)
        for step, values in enumerate(states):
            for variable, value in zip(list_variables(model), values, strict=True):
                variable.assign(value)
            model.reset_metrics()
            part = slice(step * case.batch, (step + 1) * case.batch)
            found.append(float(model.train_on_batch(x[part], y[part])))
    return find_worst(found, expected)


def run_double(case: Case, steps: int) -> tuple[float, float]:
    """Losses and weights of the translated ops, without an engine, against TensorFlow: both in float64."""
    import keras
    import torch

    import tensorflow as tf
    from openipu.translate.interpret import Interpreter
    from openipu.translate.tensorflow.fusing import fuse_ops
    from openipu.translate.tensorflow.inlining import write_out_calls
    from openipu.translate.tensorflow.table import TABLE
    from openipu.translate.tensorflow.variables import use_values
    from openipu_tensorflow.engine.describing import describe_step, name_variables

    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")  # what layers go by, once there is one
    try:
        model = case.compile(dropout=0.0)
        optimizer, loss_of = model.optimizer, keras.losses.SparseCategoricalCrossentropy()
        optimizer.build(model.trainable_variables)
        x, y = case.draw(case.batch * steps)
        x = x.astype("float64") if x.dtype.kind == "f" else x

        @tf.function
        def step(images: Any, labels: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = loss_of(labels, model(images, training=True))
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
            return loss

        specs = [tf.TensorSpec((case.batch, *value.shape[1:]), value.dtype) for value in (x, y)]
        function = step.get_concrete_function(*specs)
        graph = function.graph
        described = describe_step(
            graph, inputs=graph.inputs[:2], outputs=graph.outputs[:1], targets=graph.control_outputs
        )
        lowered = use_values(write_out_calls(described.graph), described.handles)
        fused = fuse_ops(lowered.graph, [*lowered.graph.outputs, *lowered.written.values()])
        variables = dict(name_variables(graph).values())
        held = {name: torch.tensor(variables[name].numpy()) for name in described.variables}
        losses, expected = [], []
        for number in range(steps):
            part = slice(number * case.batch, (number + 1) * case.batch)
            data = {graph.inputs[0].name: torch.tensor(x[part]), graph.inputs[1].name: torch.tensor(y[part])}
            wanted = dict.fromkeys([*fused.outputs, *lowered.written.values()])
            with torch.no_grad():
                found = Interpreter(TABLE).run(fused, {**described.constants, **held, **data}, wanted)
            losses.append(float(found[fused.outputs[0]]))
            held.update({name: found[value] for name, value in lowered.written.items()})
            expected.append(float(function(tf.constant(x[part]), tf.constant(y[part]))))
        apart = max(float(np.abs(value.numpy() - variables[name].numpy()).max()) for name, value in held.items())
        return find_worst(losses, expected), apart
    finally:
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy("float32")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a part of a model's name")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    columns = ("losses", "weights", "losses, single steps", "losses, float64", "weights, float64")
    columns = (*columns, "losses, Keras", "weights, Keras")
    print(f"| model | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}", flush=True)
    for name, case in list_cases().items():
        if options.only not in name:
            continue
        stock, expected, states = train(case, options.steps, False)
        model, losses, _ = train(case, options.steps, True)
        other, moved, _ = train(case, options.steps, False, 2.0**-23)
        numbers = [
            *(find_worst(losses, expected), compare(model, stock), run_single_steps(case, states, expected)),
            *(*run_double(case, options.steps), find_worst(moved, expected), compare(other, stock)),
        ]
        print(f"| {name} | {' | '.join(f'{number:.1e}' for number in numbers)} |", flush=True)


if __name__ == "__main__":
    main()
