"""Tutorial 5: logistic regression, trained by a program that streams its own batches.

Digits are drawn by a generator, so nothing is downloaded: each class is a pattern with noise.

    python examples/poplar/tut5_regression.py [epochs]
"""

import sys

import numpy as np

import poplin
import popnn
import popops
import poputil
from poplar import FLOAT, UNSIGNED_INT, Engine, Graph, IPUModel
from poplar.program import Copy, Repeat, Sequence

BATCH, CLASSES, PIXELS, SAMPLES, RATE = 50, 10, 28 * 28, 3000, 0.01


def draw_digits(seed: int = 0):
    """Images [samples, pixels] and classes."""
    generator = np.random.default_rng(seed)
    patterns = generator.random((CLASSES, PIXELS)) > 0.7
    classes = generator.integers(0, CLASSES, SAMPLES).astype(np.uint32)
    noise = generator.random((SAMPLES, PIXELS)) < 0.1
    return (patterns[classes] ^ noise).astype(np.float32), classes


def main():
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print("Using the IPU Model")
    model = IPUModel()
    model.tilesPerIPU = 4
    device = model.createDevice()
    graph = Graph(device)

    images = poplin.createMatMulInputLHS(graph, FLOAT, [BATCH, PIXELS], [PIXELS, CLASSES], "images")
    weights = poplin.createMatMulInputRHS(graph, FLOAT, [BATCH, PIXELS], [PIXELS, CLASSES], "weights")
    biases = graph.addVariable(FLOAT, [CLASSES], "biases")
    labels = graph.addVariable(UNSIGNED_INT, [BATCH], "labels")
    loss = graph.addVariable(FLOAT, [BATCH], "loss")
    deltas = graph.addVariable(FLOAT, [BATCH, CLASSES], "deltas")
    correct = graph.addVariable(UNSIGNED_INT, [1], "correct")
    total = graph.addVariable(UNSIGNED_INT, [1], "total")
    for tensor in (biases, labels, loss, deltas, correct, total):
        poputil.mapTensorLinearly(graph, tensor)

    step = Sequence()
    activations = poplin.matMul(graph, images, weights, step, "forward")
    popops.addInPlace(graph, activations, biases, step, "bias")
    probabilities = popnn.nonLinearity(graph, popnn.NonLinearityType.SOFTMAX, activations, step, "softmax")
    popnn.calcLoss(graph, probabilities, labels, loss, deltas, correct, popnn.CROSS_ENTROPY_LOSS, step)
    gradient = poplin.matMul(graph, images.transpose(), deltas, step, "backward")
    popops.scaledAddTo(graph, weights, gradient, -RATE / BATCH, step)
    bias_gradient = popops.reduce(graph, deltas, [0], popops.ReduceParams(popops.Operation.ADD), step)
    popops.scaledAddTo(graph, biases, bias_gradient, -RATE / BATCH, step)
    popops.addInPlace(graph, total, correct, step, "count")

    data, classes = draw_digits()
    image_stream = graph.addHostToDeviceFIFO("images", FLOAT, BATCH * PIXELS)
    label_stream = graph.addHostToDeviceFIFO("labels", UNSIGNED_INT, BATCH)
    total_stream = graph.addDeviceToHostFIFO("total", UNSIGNED_INT, 1)
    start = Sequence()
    popops.zero(graph, [weights, biases], start)
    epoch = Sequence()
    popops.zero(graph, total, epoch)
    batch = Sequence(Copy(image_stream, images), Copy(label_stream, labels), step)
    epoch.add(Repeat(SAMPLES // BATCH, batch))
    epoch.add(Copy(total, total_stream))

    engine = Engine(graph, [start, epoch])
    engine.load(device)
    right = np.zeros(1, np.uint32)
    engine.connectStream("images", data)
    engine.connectStream("labels", classes)
    engine.connectStream("total", right)
    engine.run(0)
    for number in range(epochs):
        engine.run(1)
        print(f"Epoch {number}: accuracy {100 * right[0] / SAMPLES:.1f}%")
    print("100% of the epochs done")


if __name__ == "__main__":
    main()
