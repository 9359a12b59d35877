"""Small models of every kind, with data, for the reference and for verification."""

from __future__ import annotations

import torch
from torch import nn

BATCH = 4
CLASSES, WORDS = 5, 24


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(6, 8, batch_first=True)
        self.classes = nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.classes(self.layer(x)[0][:, -1])


class Transformer(nn.Module):
    """Classifies by its first word; with `language`, its embedding is its last layer, too."""

    def __init__(self, language=False):
        super().__init__()
        self.words = nn.Embedding(WORDS, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.classes = nn.Linear(16, WORDS if language else CLASSES, bias=False)
        self.language = language
        if language:
            self.classes.weight = self.words.weight

    def forward(self, x):
        states = self.layers(self.words(x))
        return self.classes(states).flatten(0, 1) if self.language else self.classes(states[:, 0])


class WithLoss(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x, labels):
        scores = self.body(x)
        return scores, nn.functional.cross_entropy(scores, labels.flatten())


def make_perceptron():
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, CLASSES))


def make_cnn():
    return nn.Sequential(
        *(nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(96, CLASSES)),
    )


def make_dropout():
    return nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.4), nn.GELU(), nn.Linear(32, CLASSES))


MODELS = {
    "perceptron": (make_perceptron, (6,)),
    "cnn": (make_cnn, (2, 8, 8)),
    "lstm": (Recurrent, (7, 6)),
    "dropout": (make_dropout, (6,)),
    "transformer": (Transformer, None),
    "language model": (lambda: Transformer(language=True), None),
}
OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=0.01),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
}


def make_model(name, half=False):
    torch.manual_seed(3)
    model = MODELS[name][0]()
    return model.half() if half else model


def make_data(name, batches=1, half=False):
    generator = torch.Generator().manual_seed(5)
    shape, count = MODELS[name][1], BATCH * batches
    if shape is None:
        words = torch.randint(0, WORDS, (count, 6), generator=generator)
        return words, words if "language" in name else words[:, 0] % CLASSES
    x = torch.randn(count, *shape, generator=generator)
    return x.half() if half else x, torch.randint(0, CLASSES, (count,), generator=generator)
