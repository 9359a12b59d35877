"""Handwritten digits in popxl: one graph, its gradient graph, Adam on the device, a repeat over batches.

python examples/popxl/digits.py            # or: openipu run examples/popxl/digits.py
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_digits

import popxl
from popxl import ops, transforms

BATCH, HIDDEN, CLASSES, TRAINED = 32, 64, 10, 1536


class Network(popxl.Module):
    """Two layers; the inputs that it makes are its weights."""

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        self.weights = [
            popxl.graph_input((x.shape[-1], HIDDEN), popxl.float32, "W0"),
            popxl.graph_input((HIDDEN,), popxl.float32, "b0"),
            popxl.graph_input((HIDDEN, CLASSES), popxl.float32, "W1"),
            popxl.graph_input((CLASSES,), popxl.float32, "b1"),
        ]
        w0, b0, w1, b1 = self.weights
        return ops.gelu(x @ w0 + b0) @ w1 + b1


def update(
    var: popxl.TensorByRef,
    grad: popxl.Tensor,
    m: popxl.TensorByRef,
    v: popxl.TensorByRef,
    step: popxl.TensorByRef,
) -> None:
    """Adam, for one weight."""
    ops.var_updates.accumulate_moving_average_(m, grad, 0.9)
    ops.var_updates.accumulate_moving_average_square_(v, grad, 0.99)
    ops.scaled_add_(var, ops.var_updates.adam_updater(m, v, time_step=step, beta1=0.9, beta2=0.99), b=-0.01)


def make_variables(ir: popxl.Ir, network: Network) -> list[popxl.Tensor]:
    source = np.random.default_rng(0)
    return [popxl.variable(source.normal(0, 0.1, t.shape), t.dtype, name=t.name) for t in network.weights]


def build_training(batches: int):
    """One run trains on all batches: the host gives them at once, and the device repeats."""
    ir = popxl.Ir()
    ir.num_host_transfers = batches
    with ir.main_graph, popxl.in_sequence():
        images = popxl.h2d_stream((BATCH, 64), popxl.float32, name="images")
        labels = popxl.h2d_stream((BATCH,), popxl.int32, name="labels")
        losses = popxl.d2h_stream((), popxl.float32, name="losses")
        network = Network()
        graph = ir.create_graph(network, popxl.TensorSpec((BATCH, 64), popxl.float32))
        gradients = transforms.autodiff(graph, grads_required=network.weights)
        weights = make_variables(ir, network)
        zeros = [popxl.variable(np.zeros(w.shape), popxl.float32) for w in weights for _ in range(2)]
        steps = [popxl.variable(0, popxl.float32) for _ in weights]
        updates = [ir.create_graph(update, w, w, w, w, steps[0]) for w in weights]

        def train(*held: popxl.TensorByRef) -> None:
            own, moments, counts = held[:4], held[4:12], held[12:]
            forward = ops.call_with_info(
                graph, ops.host_load(images), inputs_dict=dict(zip(network.weights, own, strict=True))
            )
            shares = ops.softmax(forward.outputs[0], axis=-1)
            loss, seed = ops.nll_loss_with_softmax_grad(shares, ops.host_load(labels))
            found = ops.call(gradients.graph, seed, inputs_dict=gradients.inputs_dict(forward))
            for place, (weight, gradient) in enumerate(zip(own, found, strict=True)):
                ops.call(updates[place], weight, gradient, *moments[2 * place : 2 * place + 2], counts[place])
            ops.host_store(losses, loss)

        ops.repeat(ir.create_graph(train, *weights, *zeros, *steps), batches, *weights, *zeros, *steps)
    return ir, images, labels, losses, weights


def build_test(count: int):
    ir = popxl.Ir()
    with ir.main_graph:
        images = popxl.h2d_stream((count, 64), popxl.float32, name="images")
        scores = popxl.d2h_stream((count, CLASSES), popxl.float32, name="scores")
        network = Network()
        graph = ir.create_graph(network, popxl.TensorSpec((count, 64), popxl.float32))
        weights = make_variables(ir, network)
        (out,) = ops.call(graph, ops.host_load(images), *weights)
        ops.host_store(scores, out)
    return ir, images, scores, weights


def main() -> float:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    data = load_digits()
    pixels, digits = (data.data / 16).astype(np.float32), data.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(pixels))
    train, test = order[:TRAINED], order[TRAINED:]
    batches = TRAINED // BATCH
    ir, images, labels, losses, trained = build_training(batches)
    with popxl.Session(ir, "ipu_model") as session:
        for epoch in range(options.epochs):
            rows = np.random.default_rng(epoch).permutation(train).reshape(batches, BATCH)
            found = session.run({images: pixels[rows], labels: digits[rows]})[losses]
            print(f"epoch {epoch}: loss {found.mean():.4f}")
        values = session.get_tensors_data(trained)
    ir, images, scores, weights = build_test(len(test))
    session = popxl.Session(ir, "ipu_model")
    session.write_variables_data({new: values[old] for new, old in zip(weights, trained, strict=True)})
    with session:
        found = session.run({images: pixels[test]})[scores]
    accuracy = float((found.argmax(-1) == digits[test]).mean() * 100)
    print(f"Accuracy on test set: {accuracy:.2f}%")
    return accuracy


if __name__ == "__main__":
    main()
