"""Every ATen op in a training step of seven kinds of models has a row of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from torch.nn import functional

from openipu.machine import Provenance
from openipu.ops import CostContext, Family, OpSite, cost_op, find_rule

Record = Callable[[Callable[[], Any]], list[OpSite]]
SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}


def tokens(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.long)


def train_mlp() -> Any:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 4))
    return functional.cross_entropy(model(torch.zeros(4, 8)), tokens(4))


def train_cnn() -> Any:
    first = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(0.1), nn.Conv2d(8, 8, 3))
    last = nn.Sequential(nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(200, 10), nn.LogSoftmax(1))
    return functional.nll_loss(last(first(torch.zeros(4, 1, 28, 28))), tokens(4))


def train_resnet() -> Any:
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=4)
    model = transformers.ResNetForImageClassification(config).train()
    return model(pixel_values=torch.zeros(2, 3, 32, 32), labels=tokens(2)).loss


def train_lstm() -> Any:
    outputs, _ = nn.LSTM(8, 16, 2, batch_first=True)(nn.Embedding(10, 8)(tokens(2, 3)))
    return functional.cross_entropy(nn.Linear(16, 3)(outputs[:, -1]), tokens(2))


def train_bert(attention: str) -> Any:
    config = transformers.BertConfig(**SMALL, vocab_size=100, attn_implementation=attention)
    model = transformers.BertForMaskedLM(config).train()
    mask = torch.ones(2, 1, 8, 8)  # one that keeps the model from asking for values
    return model(input_ids=tokens(2, 8), attention_mask=mask, labels=tokens(2, 8)).loss


def answer_with_bert(attention: str) -> Any:
    config = transformers.BertConfig(**SMALL, vocab_size=100, attn_implementation=attention)
    model = transformers.BertForQuestionAnswering(config).train()
    return model(input_ids=tokens(2, 8), start_positions=tokens(2), end_positions=tokens(2)).loss


def train_gpt2(attention: str) -> Any:
    sizes = {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 16, "vocab_size": 100}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, attn_implementation=attention)
    model = transformers.GPT2LMHeadModel(config).train()
    return model(input_ids=tokens(2, 8), labels=tokens(2, 8)).loss


def train_vit(attention: str) -> Any:
    config = transformers.ViTConfig(**SMALL, image_size=32, patch_size=8, attn_implementation=attention)
    model = transformers.ViTForImageClassification(config).train()
    return model(pixel_values=torch.zeros(2, 3, 32, 32), labels=tokens(2)).loss


def update(make: Callable[[list[nn.Parameter]], torch.optim.Optimizer]) -> None:
    parameters = [nn.Parameter(torch.zeros(64, 32)), nn.Parameter(torch.zeros(32))]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizer = make(parameters)
    optimizer.step()
    optimizer.step()


STEPS: dict[str, Callable[[], Any]] = {
    "MLP": train_mlp,
    "CNN": train_cnn,
    "ResNet": train_resnet,
    "LSTM": train_lstm,
    "BERT, eager": lambda: train_bert("eager"),
    "BERT, sdpa": lambda: train_bert("sdpa"),
    "BERT answers, sdpa": lambda: answer_with_bert("sdpa"),
    "GPT-2, eager": lambda: train_gpt2("eager"),
    "GPT-2, sdpa": lambda: train_gpt2("sdpa"),
    "ViT, eager": lambda: train_vit("eager"),
    "ViT, sdpa": lambda: train_vit("sdpa"),
    "SGD": lambda: update(lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1, foreach=False)),
    "momentum": lambda: update(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, foreach=False)),
    "Adam": lambda: update(lambda p: torch.optim.Adam(p, weight_decay=0.1, foreach=False, capturable=False)),
    "AdamW": lambda: update(lambda p: torch.optim.AdamW(p, foreach=False)),
    "AdamW, lists": lambda: update(lambda p: torch.optim.AdamW(p, foreach=True)),
}


@pytest.mark.parametrize("step", STEPS)
def test_every_op_of_a_training_step_has_a_row(record: Record, bow: CostContext, step: str) -> None:
    sites = [site for site in record(STEPS[step]) if site.outputs or site.operands]
    assert len(sites) > 10
    assert sorted({site.op for site in sites if find_rule(site.op) is None}) == []
    for site in sites:
        assert cost_op(site, bow).family is not Family.UNKNOWN


def test_most_of_a_transformer_does_not_rest_on_guesses(record: Record, bow: CostContext) -> None:
    costs = [cost_op(site, bow) for site in record(lambda: train_bert("sdpa"))]
    guessed = sum(cost.cycles for cost in costs if cost.provenance is Provenance.GUESSED)
    assert guessed < 0.35 * sum(cost.cycles for cost in costs)
