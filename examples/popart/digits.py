"""Build a convolutional network with PopART's `Builder`, train it on handwritten digits, and measure its accuracy.

The digits are scikit-learn's own 8x8 images, so that nothing is downloaded. Run it with
`python examples/popart/digits.py`; `--help` lists the options.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import popart

CLASSES = 10
TEST_SHARE = 0.2


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images and labels, then those of the test."""
    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(labels))
    test, train = np.split(order, [int(TEST_SHARE * len(order))])
    return images[train], labels[train], images[test], labels[test]


def build_model(batch_size: int) -> tuple[bytes, str, str, str, str]:
    """The model as ONNX, and the names of images, labels, scores and loss."""
    random = np.random.default_rng(1)
    builder = popart.Builder()
    images = builder.addInputTensor(popart.TensorInfo("FLOAT", [batch_size, 1, 8, 8]), "images")
    labels = builder.addInputTensor(popart.TensorInfo("INT32", [batch_size]), "labels")

    def make_weight(*shape: int, name: str) -> str:
        scale = 1 / np.sqrt(np.prod(shape[1:]))
        return builder.addInitializedInputTensor(random.normal(0, scale, shape).astype(np.float32), name)

    with builder.nameScope("convolution"):
        kernel, bias = make_weight(16, 1, 3, 3, name="kernel"), make_weight(16, name="bias")
        x = builder.aiOnnx.conv([images, kernel, bias], dilations=[1, 1], pads=[1, 1, 1, 1], strides=[1, 1])
        x = builder.aiOnnx.relu([x])
        (x,) = builder.aiOnnx.maxpool([x], 1, kernel_shape=[2, 2], pads=[0, 0, 0, 0], strides=[2, 2])
    with builder.nameScope("classifier"):
        x = builder.reshape_const(builder.aiOnnx, [x], [batch_size, 16 * 4 * 4])
        weight, bias = make_weight(CLASSES, 16 * 4 * 4, name="weight"), make_weight(CLASSES, name="bias")
        scores = builder.aiOnnx.gemm([x, weight, bias], transB=1)
    probabilities = builder.aiOnnx.softmax([scores])
    loss = builder.aiGraphcore.nllloss([probabilities, labels], popart.ReductionType.Mean, debugContext="loss")
    builder.addOutputTensor(scores)
    return builder.getModelProto(), images, labels, scores, loss


def main() -> None:
    parser = argparse.ArgumentParser(description="Handwritten digits in PopART")
    parser.add_argument("--batch-size", type=int, default=8, help="samples in a batch (default: 8)")
    parser.add_argument("--batches-per-step", type=int, default=44, help="batches in one run (default: 44)")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the training set (default: 10)")
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate (default: 0.1)")
    arguments = parser.parse_args()

    train_images, train_labels, test_images, test_labels = load_data()
    model, images, labels, scores, loss = build_model(arguments.batch_size)
    steps, batch = arguments.batches_per_step, arguments.batch_size
    device = popart.DeviceManager().acquireAvailableDevice(1)

    training = popart.TrainingSession(
        fnModel=model,
        dataFlow=popart.DataFlow(steps, {loss: popart.AnchorReturnType("All")}),
        loss=loss,
        optimizer=popart.SGD({"defaultLearningRate": (arguments.lr, False), "defaultMomentum": (0.5, True)}),
        deviceInfo=device,
    )
    training.prepareDevice()
    training.weightsFromHost()
    anchors = training.initAnchorArrays()
    random = np.random.default_rng(2)
    for epoch in range(arguments.epochs):
        order = random.permutation(len(train_labels))
        losses = []
        for start in range(0, len(order) - steps * batch + 1, steps * batch):
            chosen = order[start : start + steps * batch]
            data = {
                images: train_images[chosen].reshape(steps, batch, 1, 8, 8),
                labels: train_labels[chosen].reshape(steps, batch),
            }
            training.run(popart.PyStepIO(data, anchors))
            losses.append(anchors[loss].mean())
        print(f"Epoch {epoch + 1}: loss {np.mean(losses):.3f}")

    # The trained weights go to a file, and from there into a session for inference.
    with tempfile.TemporaryDirectory() as folder:
        trained = str(Path(folder) / "trained.onnx")
        training.modelToHost(trained)
        count = len(test_labels) // batch
        inference = popart.InferenceSession(
            fnModel=trained,
            dataFlow=popart.DataFlow(count, {scores: popart.AnchorReturnType("All")}),
            deviceInfo=device,
        )
        inference.prepareDevice()
        inference.weightsFromHost()
        anchors = inference.initAnchorArrays()
        data = {
            images: test_images[: count * batch].reshape(count, batch, 1, 8, 8),
            labels: test_labels[: count * batch].reshape(count, batch),
        }
        inference.run(popart.PyStepIO(data, anchors))
    right = anchors[scores].reshape(-1, CLASSES).argmax(1) == test_labels[: count * batch]
    print(f"Accuracy on test set: {100 * right.mean():.2f}%")


if __name__ == "__main__":
    main()
