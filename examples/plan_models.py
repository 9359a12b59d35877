"""Models to plan: each function returns a planning job, with weights on the meta device, so nothing is downloaded.

openipu plan examples/plan_models.py:resnet50_training examples/plan_models.py:bert_base_training
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor, nn

from openipu.jobs import PlanningJob
from openipu.models.images.networks import Make, ResidualNetwork
from openipu.models.layers import Format

HALF_ON_META: dict[str, Any] = {"device": "meta", "dtype": torch.float16}
BERT_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}


def resnet50() -> PlanningJob:
    """Inference, 16 images of 224 x 224 in half precision."""
    with torch.device("meta"):
        model = ResidualNetwork(Make(Format.HALF, training=True), blocks=(3, 4, 6, 3)).eval()  # norms of their own
    return PlanningJob(model=model, args=(torch.empty(16, 3, 224, 224, **HALF_ON_META),))


def cnn() -> PlanningJob:
    """Training with SGD, 32 images of 32 x 32: small enough for a first look."""
    with torch.device("meta"):
        model = WithClassLoss(
            nn.Sequential(
                nn.Conv2d(3, 32, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(32, 64, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Linear(64 * 8 * 8, 128),
                nn.ReLU(),
                nn.Linear(128, 10),
            )
        )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.empty(32, 3, 32, 32, device="meta")
    labels = _tokens(32)
    return PlanningJob(model=model, args=(images, labels), training=True, optimizer=optimizer)


def lstm() -> PlanningJob:
    """Training with Adam: a classifier over 64 steps of 128 features."""
    with torch.device("meta"):
        model = WithClassLoss(SequenceClassifier(features=128, hidden=256, classes=16))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    sequences = torch.empty(16, 64, 128, device="meta")
    labels = _tokens(16)
    return PlanningJob(model=model, args=(sequences, labels), training=True, optimizer=optimizer)


def bert_base() -> PlanningJob:
    """Inference, 8 sequences of 128 tokens in half precision."""
    return _plan_bert(transformers.BertConfig(), batch=8)


def bert_large() -> PlanningJob:
    """Inference, 4 sequences of 128 tokens in half precision."""
    return _plan_bert(transformers.BertConfig(**BERT_LARGE), batch=4)


def resnet50_training() -> PlanningJob:
    """Training with SGD and momentum, 2 images of 224 x 224 in float32."""
    with torch.device("meta"):
        model = WithClassLoss(ResidualNetwork(Make(Format.FLOAT32, training=True), blocks=(3, 4, 6, 3)))
    images, labels = torch.empty(2, 3, 224, 224, device="meta"), _tokens(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return PlanningJob(model=model, args=(images, labels), training=True, optimizer=optimizer)


def bert_base_training() -> PlanningJob:
    """Training with AdamW, 2 sequences of 128 tokens: too much for one IPU."""
    return _train_tokens(transformers.BertForMaskedLM, transformers.BertConfig(), batch=2)


def bert_large_training() -> PlanningJob:
    """Training with AdamW, 2 sequences of 128 tokens: far too much for one IPU."""
    return _train_tokens(transformers.BertForMaskedLM, transformers.BertConfig(**BERT_LARGE), batch=2)


def gpt2_small_training() -> PlanningJob:
    """Training with AdamW, 1 sequence of 128 tokens."""
    return _train_tokens(transformers.GPT2LMHeadModel, transformers.GPT2Config(use_cache=False), batch=1)


def vit_base_training() -> PlanningJob:
    """Training with AdamW, 2 images of 224 x 224."""
    with torch.device("meta"):
        model = WithClassLoss(FirstOutput(transformers.ViTForImageClassification(transformers.ViTConfig())))
    images, labels = torch.empty(2, 3, 224, 224, device="meta"), _tokens(2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return PlanningJob(model=model, args=(images, labels), training=True, optimizer=optimizer)


def gpt2_small() -> PlanningJob:
    """Inference, the logits of one sequence of 512 tokens in half precision."""
    config = _plain_attention(transformers.GPT2Config(use_cache=False))
    with torch.device("meta"):
        model = transformers.GPT2LMHeadModel(config).half().eval()
    # With a mask of its own the model does not look for packed sequences, which would read values.
    return PlanningJob(model=FirstOutput(model), args=(_tokens(1, 512), _tokens(1, 512)))


def vit_base() -> PlanningJob:
    """Inference, 4 images of 224 x 224 in half precision."""
    config = _plain_attention(transformers.ViTConfig(num_labels=1000))
    with torch.device("meta"):
        model = transformers.ViTForImageClassification(config).half().eval()
    return PlanningJob(model=FirstOutput(model), args=(torch.empty(4, 3, 224, 224, **HALF_ON_META),))


class WithClassLoss(nn.Module):
    """A classifier with its loss, as a training program needs it."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.body(inputs)
        return logits, nn.functional.cross_entropy(logits, labels)


class WithTokenLoss(nn.Module):
    """A language model with the loss of each token; only the loss comes back."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        logits = self.body(tokens).logits
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


class FirstOutput(nn.Module):
    """The first tensor of a transformers model: its logits or hidden states."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, inputs: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        named = {} if attention_mask is None else {"attention_mask": attention_mask}
        return self.body(inputs, return_dict=False, **named)[0]


class SequenceClassifier(nn.Module):
    """An LSTM and a linear layer on its last step."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(features, hidden, batch_first=True)
        self.classify = nn.Linear(hidden, classes)

    def forward(self, sequences: Tensor) -> Tensor:
        outputs, _ = self.recurrent(sequences)
        return self.classify(outputs[:, -1])


def _plan_bert(config: transformers.BertConfig, batch: int) -> PlanningJob:
    with torch.device("meta"):
        model = transformers.BertModel(_plain_attention(config)).half().eval()
    return PlanningJob(model=FirstOutput(model), args=(_tokens(batch, 128),))


def _train_tokens(kind: Any, config: Any, batch: int) -> PlanningJob:
    with torch.device("meta"):
        model = WithTokenLoss(kind(config).train())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = (_tokens(batch, 128), _tokens(batch, 128))
    return PlanningJob(model=model, args=tokens, training=True, optimizer=optimizer)


def _plain_attention(config: Any) -> Any:
    """Attention written out as matrix products and a softmax: what a static graph is made of."""
    config._attn_implementation = "eager"
    return config


def _tokens(*shape: int) -> Tensor:
    return torch.empty(*shape, dtype=torch.long, device="meta")
