"""Train a small convolutional network on handwritten digits with PopTorch, then measure its accuracy.

The digits are scikit-learn's own 8x8 images, enlarged to 28x28, so that nothing is downloaded. Run it with
`python examples/poptorch_mnist.py`; `--help` lists the options.
"""

import argparse

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import poptorch

TEST_SHARE = 0.2


class Block(nn.Module):
    """A 3x3 convolution, pooling and a rectifier."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(in_channels, out_channels, kernel_size=3)
        self.pool = nn.MaxPool2d(kernel_size=2)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(self.pool(self.convolution(x)))


class Network(nn.Module):
    """Two blocks and two linear layers: 28x28 pixels to ten scores."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Block(1, 10)
        self.second = Block(10, 20)
        self.hidden = nn.Linear(20 * 5 * 5, 128)
        self.relu = nn.ReLU()
        self.scores = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(self.first(x))
        return self.scores(self.relu(self.hidden(torch.flatten(x, start_dim=1))))


class TrainingModelWithLoss(nn.Module):
    """The loss is part of the model, so that it is computed on the IPU."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.loss = nn.CrossEntropyLoss()

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.model(images)
        return scores, self.loss(scores, labels)


def load_data() -> tuple[torch.utils.data.TensorDataset, torch.utils.data.TensorDataset]:
    """Training and test sets of normalised 28x28 images."""
    digits = load_digits()
    small = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    images = nn.functional.interpolate(small, size=(28, 28), mode="bilinear", align_corners=False)
    images = (images - images.mean()) / images.std()
    labels = torch.tensor(digits.target, dtype=torch.long)
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(labels)))
    test, train = order.split([int(TEST_SHARE * len(labels)), len(labels) - int(TEST_SHARE * len(labels))])
    make = torch.utils.data.TensorDataset
    return make(images[train], labels[train]), make(images[test], labels[test])


def compute_accuracy(scores: torch.Tensor, labels: torch.Tensor) -> float:
    """Share of right answers. Fewer scores than labels: they are those of the last samples."""
    labels = labels[-scores.shape[0] :]
    return (scores.argmax(dim=1) == labels).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description="Handwritten digits in PopTorch")
    parser.add_argument("--batch-size", type=int, default=8, help="batch size for training (default: 8)")
    parser.add_argument("--test-batch-size", type=int, default=8, help="batch size for testing (default: 8)")
    parser.add_argument("--epochs", type=int, default=10, help="number of epochs to train (default: 10)")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate (default: 0.05)")
    parser.add_argument("--device-iterations", type=int, default=50, help="device iterations (default: 50)")
    arguments = parser.parse_args()
    torch.manual_seed(0)

    options = poptorch.Options().deviceIterations(arguments.device_iterations)
    train_set, test_set = load_data()
    training_data = poptorch.DataLoader(options, train_set, batch_size=arguments.batch_size, shuffle=True)
    # One batch a call for the test: every sample counts, the last short batch apart.
    test_options = poptorch.Options()
    test_data = poptorch.DataLoader(test_options, test_set, batch_size=arguments.test_batch_size)

    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr)
    training_model = poptorch.trainingModel(TrainingModelWithLoss(model), options, optimizer=optimizer)
    inference_model = poptorch.inferenceModel(model, test_options)

    for epoch in range(arguments.epochs):
        for images, labels in training_data:
            scores, loss = training_model(images, labels)
        print(f"Epoch {epoch + 1}: loss {loss.item():.3f}, accuracy {100 * compute_accuracy(scores, labels):.0f}%")

    # The training model leaves the IPU, so that the inference model can have it.
    training_model.detachFromDevice()

    total = sum(compute_accuracy(inference_model(images), labels) for images, labels in test_data)
    print(f"Accuracy on test set: {100 * total / len(test_data):.2f}%")


if __name__ == "__main__":
    main()
