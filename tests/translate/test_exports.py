"""Models that torch.onnx exports give PyTorch's results, through the pipeline."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from openipu.model_files import run_file


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


def export(module: nn.Module, x: torch.Tensor, path: Path, **settings: Any) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(module, (x,), path, dynamo=False, input_names=["x"], output_names=["y"], **settings)
    except Exception as error:  # whatever the exporter of this version of PyTorch raises
        pytest.skip(f"torch.onnx.export fails itself: {type(error).__name__}: {str(error)[:200]}")


@pytest.mark.parametrize("name", MODELS)
def test_an_exported_model_gives_pytorchs_results(name: str, tmp_path: Path) -> None:
    make, shape, tokens = MODELS[name]
    torch.manual_seed(0)
    module = make().eval()
    x = torch.randint(tokens, tuple(shape)) if tokens else torch.randn(*shape)
    export(module, x, tmp_path / "m.onnx")
    with torch.no_grad():
        wanted = module(x)
    found = run_file(tmp_path / "m.onnx", {"x": x})
    torch.testing.assert_close(found["y"], wanted, rtol=1e-4, atol=1e-4)


def test_an_export_with_an_open_batch_runs_at_another_size(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Convolutional().eval()
    export(module, torch.randn(2, 3, 16, 16), tmp_path / "m.onnx", dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
    x = torch.randn(5, 3, 16, 16)
    with torch.no_grad():
        wanted = module(x)
    torch.testing.assert_close(run_file(tmp_path / "m.onnx", {"x": x})["y"], wanted, rtol=1e-4, atol=1e-4)
