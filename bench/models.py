"""The models of the benchmark.

In: the name of a model. Out: a `Model`: how to build it, with its loss in `forward`, its inputs and its optimizer. All
from configurations, with random weights and the configurations' own dropout: nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

MakeInputs = Callable[[int], tuple[Tensor, Tensor]]  # batch size -> inputs and labels

SGD = ("SGD", {"lr": 1e-3, "momentum": 0.9})
ADAM = ("Adam", {"lr": 1e-4})
ADAMW = ("AdamW", {"lr": 1e-4})


@dataclass(frozen=True)
class Model:
    """One model with its data and its optimizer, whose class exists in `torch.optim` and in `poptorch.optim`."""

    name: str
    title: str
    build: Callable[[], nn.Module]
    make_inputs: MakeInputs
    batch: int
    optimizer: tuple[str, Mapping[str, Any]]
    large: bool = False  # bound by matrix products
    transformer: bool = False


class WithLoss(nn.Module):
    """With labels: the loss alone, as a training program needs it. Without: what the body gives."""

    def __init__(self, body: nn.Module, shift: bool = False) -> None:
        super().__init__()
        self.body = body
        self.shift = shift  # a language model: each place predicts the token after it

    def forward(self, inputs: Tensor, labels: Tensor | None = None) -> Tensor:
        outputs = self.body(inputs)
        logits = outputs if isinstance(outputs, Tensor) else outputs.logits
        if labels is None:
            return logits
        if self.shift:
            logits, labels = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        return nn.functional.cross_entropy(logits, labels)


class SequenceClassifier(nn.Module):
    """LSTM layers and a linear layer on the last step."""

    def __init__(self, features: int = 128, hidden: int = 256, layers: int = 2, classes: int = 16) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(features, hidden, num_layers=layers, batch_first=True)
        self.classify = nn.Linear(hidden, classes)

    def forward(self, sequences: Tensor) -> Tensor:
        return self.classify(self.recurrent(sequences)[0][:, -1])


def build_cnn() -> nn.Module:
    """The convolutional network of the usual MNIST examples."""
    return WithLoss(
        nn.Sequential(
            *(nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(320, 256), nn.ReLU(), nn.Linear(256, 10)),
        )
    )


def build_lstm() -> nn.Module:
    return WithLoss(SequenceClassifier())


def build_lstm_small() -> nn.Module:
    return WithLoss(SequenceClassifier(features=32, hidden=64, layers=1))


def build_bert_small() -> nn.Module:
    """Two layers of width 256."""
    return build_bert(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=1024)


def build_bert(**configuration: Any) -> nn.Module:
    """BERT with a classifier on its first token; BERT-base without arguments."""
    from transformers import BertConfig, BertForSequenceClassification

    return WithLoss(BertForSequenceClassification(BertConfig(**configuration)))


def build_resnet50() -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    return WithLoss(ResNetForImageClassification(ResNetConfig(num_labels=1000)))


def build_gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return WithLoss(GPT2LMHeadModel(GPT2Config(use_cache=False)), shift=True)


def build_vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    return WithLoss(ViTForImageClassification(ViTConfig(num_labels=1000)))


def make_images(channels: int, size: int, classes: int) -> MakeInputs:
    """Batches of random images and labels."""
    return lambda batch: (torch.randn(batch, channels, size, size), torch.randint(0, classes, (batch,)))


def make_sequences(steps: int, features: int) -> MakeInputs:
    return lambda batch: (torch.randn(batch, steps, features), torch.randint(0, 16, (batch,)))


def make_sentences(batch: int) -> tuple[Tensor, Tensor]:
    return torch.randint(0, 30000, (batch, 128)), torch.randint(0, 2, (batch,))


def make_texts(batch: int) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(0, 50000, (batch, 128))
    return tokens, tokens.clone()


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model("cnn", "MNIST CNN", build_cnn, make_images(1, 28, 10), 16, SGD),
        Model("lstm", "LSTM 2x256", build_lstm, make_sequences(64, 128), 16, ADAM),
        Model("lstm_small", "LSTM 1x64", build_lstm_small, make_sequences(32, 32), 16, ADAM),
        Model("bert_small", "BERT 2x256", build_bert_small, make_sentences, 4, ADAM, transformer=True),
        Model("resnet50", "ResNet-50", build_resnet50, make_images(3, 224, 1000), 4, SGD, large=True),
        Model("bert_base", "BERT-base", build_bert, make_sentences, 4, ADAMW, large=True, transformer=True),
        Model("gpt2", "GPT-2 small", build_gpt2, make_texts, 2, ADAMW, large=True, transformer=True),
        Model("vit", "ViT-base", build_vit, make_images(3, 224, 1000), 2, ADAMW, large=True, transformer=True),
    )
}
