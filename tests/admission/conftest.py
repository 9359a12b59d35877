"""Programs as `dump_program` writes them, small ones of every kind."""

import pytest
import torch
from torch import nn

import poptorch
from openipu.capture import capture_program, describe_optimizer
from openipu.graph.serial import dump_program


def capture(model, *args, optimizer=None, name="model"):
    described = None
    if optimizer is not None:
        names = {id(parameter): key for key, parameter in model.named_parameters()}
        described = describe_optimizer(optimizer, names)
    return capture_program(model, args, {}, training=optimizer is not None, optimizer=described, name=name)


class Pictures(nn.Module):
    """Convolutions, norms, pools, resampling, and a constant."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, padding=1)
        self.norm, self.groups = nn.BatchNorm2d(4), nn.GroupNorm(2, 4)
        self.out = nn.Linear(16, 5)

    def forward(self, images, labels=None):
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.convolution(images))), 2)
        x = nn.functional.interpolate(self.groups(x), scale_factor=2.0, mode="nearest")
        x = nn.functional.adaptive_avg_pool2d(nn.functional.avg_pool2d(x, 2), 2)
        logits = self.out(x.flatten(1)) * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
        return logits if labels is None else (logits, nn.functional.cross_entropy(logits, labels))


class Words(nn.Module):
    """Embeddings, attention, layer norms, dropout, a shared weight."""

    def __init__(self, words=11, width=8):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(6, width)
        self.project, self.norm = nn.Linear(width, 3 * width), nn.LayerNorm(width)
        self.drop = nn.Dropout(0.1)

    def forward(self, tokens, labels=None):
        x = self.norm(self.words(tokens) + self.places(torch.arange(tokens.shape[1])))
        query, key, value = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in self.project(x).chunk(3, 2))
        mixed = nn.functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        logits = nn.functional.gelu(self.drop(mixed) + x) @ self.words.weight.t()
        return (
            logits if labels is None else (logits, nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()))
        )


class Sequences(nn.Module):
    """Recurrent layers and a bag of embeddings."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(7, 4, mode="mean")
        self.layer, self.gates = nn.LSTM(4, 5), nn.GRU(5, 5)

    def forward(self, x, places):
        found, _ = self.gates(self.layer(x + self.bag(places))[0])
        return found, poptorch.identity_loss((found**2).mean(), "none")


class Loops(nn.Module):
    """A loop in a loop, and a branch."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        def body(y):
            (inner,) = poptorch.for_loop(2, lambda z: z * 1.5, [y])
            return self.layer(inner).sin()

        (looped,) = poptorch.for_loop(3, body, [x])
        (chosen,) = poptorch.cond(looped.sum() > 0, lambda a: a + 1, [looped], lambda a: a - 1, [looped])
        return chosen


@pytest.fixture(scope="session")
def programs():
    """One program of each kind, by name."""
    torch.manual_seed(0)
    pictures, words, sequences = Pictures(), Words(), Sequences()
    images, labels = torch.randn(2, 3, 8, 8), torch.tensor([0, 4])
    tokens = torch.randint(0, 11, (2, 6))
    return {
        "loops": capture(Loops(), torch.randn(2, 4)),
        "pictures": capture(Pictures().eval(), images),
        "pictures_training": capture(
            pictures, images, labels, optimizer=torch.optim.SGD(pictures.parameters(), momentum=0.9)
        ),
        "sequences": capture(
            sequences,
            torch.randn(3, 2, 4),
            torch.tensor([[1, 2], [0, 6]]),
            optimizer=poptorch.optim.RMSprop(sequences.parameters()),
        ),
        "words": capture(words, tokens, tokens, optimizer=poptorch.optim.Adam(words.parameters(), lr=0.1)),
    }


@pytest.fixture(scope="session")
def files(programs):
    """The same as bytes."""
    return {name: dump_program(program) for name, program in programs.items()}
