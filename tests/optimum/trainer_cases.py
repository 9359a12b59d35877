"""A tiny classifier, its data and its trainers, for the tests of `IPUTrainer`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from optimum.graphcore import IPUConfig, IPUTrainer, IPUTrainingArguments

WORDS, LENGTH, CLASSES = 40, 12, 3
QUIET: dict[str, Any] = {"disable_tqdm": True, "report_to": "none", "logging_steps": 1, "save_strategy": "no"}


def make_model(dropout: float = 0.0, layers: int = 1) -> BertForSequenceClassification:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        num_labels=CLASSES,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        problem_type="single_label_classification",
    )
    return BertForSequenceClassification(config)


def make_data(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Sentences of numbered words. Words 1 to 3 are spread among the others, and the label is that which is there."""
    random = np.random.default_rng(seed)
    examples = []
    for _ in range(count):
        label = int(random.integers(CLASSES))
        words = random.integers(CLASSES + 1, WORDS, LENGTH)
        words[random.integers(LENGTH, size=3)] = label + 1
        examples.append({"input_ids": words, "attention_mask": np.ones(LENGTH, dtype=np.int64), "labels": label})
    return examples


def make_plain_trainer(model: Any, directory: Path, train: Any, evaluate: Any = None, **settings: Any) -> Trainer:
    args = TrainingArguments(output_dir=str(directory), use_cpu=True, **{**QUIET, **settings})
    return Trainer(model, args, train_dataset=train, eval_dataset=evaluate, compute_metrics=compute_accuracy)


def make_ipu_trainer(
    model: Any, directory: Path, train: Any, evaluate: Any = None, config: IPUConfig | None = None, **settings: Any
) -> IPUTrainer:
    args = IPUTrainingArguments(output_dir=str(directory), **{**QUIET, "fp32": True, **settings})
    return IPUTrainer(model, config, args, train_dataset=train, eval_dataset=evaluate, compute_metrics=compute_accuracy)


def compute_accuracy(prediction: Any) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def list_losses(trainer: Trainer) -> list[float]:
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def copy_weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
