"""Models in PyTorch, and their export by torch.onnx: for tests and for the runner of larger ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from openipu.graph import EngineMode, OptimizerGroup, OptimizerKind, OptimizerSpec, RunOptions
from openipu.session import compile_model
from openipu.translate.module import ForeignModule, Goal
from openipu.translate.onnx.reading import read_model
from openipu.translate.onnx.table import TABLE


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(8, 8, 3, padding=1, groups=4),
            nn.Hardswish(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 5),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 7, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(14, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embed(tokens))[0])


class FirstOutput(nn.Module):
    """A transformer with one tensor in and one out."""

    def __init__(self, model: nn.Module, *, masked: bool = False) -> None:
        super().__init__()
        self.model = model
        self.masked = masked  # without a mask, some look for packed sequences by an op that has no export

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        extra = {"attention_mask": torch.ones_like(x)} if self.masked else {}
        return self.model(x, return_dict=False, **extra)[0]


def make_bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16, attn_implementation="eager",
    )  # fmt: skip
    return FirstOutput(BertModel(config))


def make_gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=16, use_cache=False, attn_implementation="eager"
    )
    return FirstOutput(GPT2LMHeadModel(config), masked=True)


def make_vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=8,
        num_labels=4, attn_implementation="eager",
    )  # fmt: skip
    return FirstOutput(ViTForImageClassification(config))


MODELS: dict[str, tuple[Callable[[], nn.Module], Sequence[int], int]] = {  # module, shape, number of tokens or 0
    "cnn": (Convolutional, (2, 3, 16, 16), 0),
    "lstm": (Recurrent, (2, 5), 20),
    "bert": (make_bert, (2, 8), 50),
    "gpt2": (make_gpt2, (2, 8), 50),
    "vit": (make_vit, (2, 3, 16, 16), 0),
}


def export(module: nn.Module, x: torch.Tensor | tuple[torch.Tensor, ...], path: Path, **settings: Any) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = {"input_names": ["x"], "output_names": ["y"], **settings}
            torch.onnx.export(module, x if isinstance(x, tuple) else (x,), path, dynamo=False, **names)
    except Exception as error:  # whatever the exporter of this version of PyTorch raises
        pytest.skip(f"torch.onnx.export fails itself: {type(error).__name__}: {str(error)[:200]}")


class WithLoss(nn.Module):
    """A model and its loss, so that both are one graph."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        scores = self.model(x)
        return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), labels.reshape(-1))


def silence_dropout(module: nn.Module) -> None:
    """Random numbers differ between frameworks: nothing is dropped."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0


def train_in_pytorch(module: nn.Module, data: Sequence[tuple[torch.Tensor, torch.Tensor]], rate: float) -> list[float]:
    """Losses by SGD with momentum."""
    optimizer = torch.optim.SGD(module.parameters(), lr=rate, momentum=0.9)
    losses = []
    for x, labels in data:
        optimizer.zero_grad()
        loss = module(x, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_from_file(path: Path, data: Sequence[tuple[torch.Tensor, torch.Tensor]], rate: float) -> list[float]:
    """Losses of the same training, from the exported file, through the pipeline."""
    module = ForeignModule(read_model(path).graph, TABLE, wanted=["loss"], goal=Goal(loss="loss")).train()
    names = tuple(name for name, _ in module.named_parameters())
    compiled = compile_model(
        module,
        list(data[0]),
        options=RunOptions(training=True, engine=EngineMode.OPERATORS),
        optimizer=OptimizerSpec(OptimizerKind.SGD, (OptimizerGroup(names, frozenset({"momentum"})),)),
        show_progress=False,
    )
    compiled.executable.load_weights(dict(module.named_parameters()), dict(module.named_buffers()))
    compiled.executable.set_hyper_parameters({"lr.0": rate, "momentum.0": 0.9})
    return [float(compiled.executable.run(list(batch)).outputs[0]) for batch in data]
