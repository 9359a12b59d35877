"""Updates of several micro-batches: each label counts the same, as in Transformers."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import matrix_decoders as tiny
import pytest
import torch
import transformers
from torch.nn import functional
from trainer_cases import copy_weights, list_losses

from optimum.graphcore import IPUConfig, IPUTrainer, IPUTrainingArguments

ROWS, LENGTH = 16, 8
SETTINGS: dict[str, Any] = {
    "per_device_train_batch_size": 1,
    "num_train_epochs": 2,
    "optim": "sgd",  # Adam makes much of gradients that are zero but for rounding
    "learning_rate": 0.1,
    "max_grad_norm": 0.0,
    "lr_scheduler_type": "constant",
    "disable_tqdm": True,
    "report_to": "none",
    "logging_steps": 1,
    "save_strategy": "no",
}


def make_model() -> Any:
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(tiny.make_gpt2_config())


def make_rows() -> list[dict[str, torch.Tensor]]:
    """Texts of which more and more words have no label; the last ones have none at all."""
    rows = []
    for index, tokens in enumerate(tiny.make_words(ROWS, LENGTH)):
        labels = tokens.clone()
        labels[: min(index % 8 + 2, LENGTH)] = -100
        rows.append({"input_ids": tokens, "labels": labels})
    return rows


def sum_losses(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    scores = outputs["logits"][:, :-1].flatten(0, 1)
    return functional.cross_entropy(scores, labels[:, 1:].flatten(), reduction="sum") / num_items_in_batch


def train_plain(directory: Path, **arguments: Any) -> transformers.Trainer:
    args = transformers.TrainingArguments(
        output_dir=str(directory), use_cpu=True, **{"gradient_accumulation_steps": 4, **SETTINGS}
    )
    trainer = transformers.Trainer(make_model(), args, train_dataset=make_rows(), **arguments)
    trainer.train()
    return trainer


def train_ipu(directory: Path, kind: type[IPUTrainer] = IPUTrainer, **arguments: Any) -> IPUTrainer:
    config = IPUConfig(output_mode="all", **arguments.pop("config", {"gradient_accumulation_steps": 4}))
    args = IPUTrainingArguments(output_dir=str(directory), fp32=True, **SETTINGS)
    trainer = kind(make_model(), config, args, train_dataset=make_rows(), **arguments)
    trainer.train()
    return trainer


def assert_same_weights(trainer: IPUTrainer, plain: transformers.Trainer) -> None:
    expected = copy_weights(plain.model)
    for name, value in copy_weights(trainer.original_model).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.parametrize(
    "config",
    [
        {"gradient_accumulation_steps": 4},
        {"gradient_accumulation_steps": 2, "replication_factor": 2},
        {"gradient_accumulation_steps": 4, "device_iterations": 2},
    ],
    ids=["accumulation", "replicas", "device iterations"],
)
def test_an_update_is_that_of_transformers_however_the_labels_are_spread(config, tmp_path):
    plain, trainer = train_plain(tmp_path), train_ipu(tmp_path, config=config)
    if "device_iterations" not in config:  # there, one call makes two updates
        assert list_losses(trainer) == pytest.approx(list_losses(plain), rel=1e-4)
    assert_same_weights(trainer, plain)


def test_a_loss_function_of_the_user_is_given_the_count(tmp_path):
    plain = train_plain(tmp_path, compute_loss_func=sum_losses)
    trainer = train_ipu(tmp_path, compute_loss_func=sum_losses)
    assert list_losses(trainer) == pytest.approx(list_losses(plain), rel=1e-4)
    assert_same_weights(trainer, plain)


def test_a_compute_loss_without_the_argument_gives_the_mean_of_means(tmp_path):
    class Old(IPUTrainer):
        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False) -> Any:
            outputs = model(**inputs)
            return (outputs.loss, outputs) if return_outputs else outputs.loss

    rows = [row for row in make_rows() if (row["labels"] != -100).any()][:4]
    model = make_model()
    expected = sum(model(**{name: value[None] for name, value in row.items()}).loss.item() for row in rows) / 4
    config = IPUConfig(output_mode="all", gradient_accumulation_steps=4)
    settings = copy.copy(SETTINGS) | {"num_train_epochs": 1}
    args = IPUTrainingArguments(output_dir=str(tmp_path), fp32=True, **settings)
    trainer = Old(model, config, args, train_dataset=rows)
    trainer.train()
    assert list_losses(trainer) == [pytest.approx(expected, rel=1e-4)]
