"""`IPUTrainer` trains and evaluates as a plain `Trainer` does."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from trainer_cases import (
    compute_accuracy,
    list_losses,
    make_data,
    make_ipu_trainer,
    make_model,
    make_plain_trainer,
)
from transformers import AutoModelForSequenceClassification, EarlyStoppingCallback, TrainerCallback
from transformers.trainer_callback import TrainerState

import poptorch
from optimum.graphcore import IPUConfig, IPUTrainer, IPUTrainingArguments
from optimum.graphcore.ipu_configuration import IncompatibleIPUConfigError

RUN: dict[str, Any] = {
    "per_device_train_batch_size": 4,
    "per_device_eval_batch_size": 4,
    "num_train_epochs": 2,
    "learning_rate": 3e-3,
}


def test_losses_weights_and_metrics_are_those_of_a_plain_trainer(tmp_path: Path) -> None:
    train, evaluate = make_data(16), make_data(10, seed=1)  # 10 is not a multiple of 4: the last batch is short
    plain_model, model = make_model(), make_model()
    plain = make_plain_trainer(plain_model, tmp_path / "plain", train, evaluate, eval_strategy="epoch", **RUN)
    trainer = make_ipu_trainer(model, tmp_path / "ipu", train, evaluate, eval_strategy="epoch", **RUN)
    plain.train()
    output = trainer.train()
    assert list_losses(trainer) == pytest.approx(list_losses(plain), rel=1e-5)
    assert output.global_step == 8
    for name, weight in plain_model.state_dict().items():  # also: the model that was passed is trained
        assert torch.allclose(model.state_dict()[name], weight, atol=1e-5), name
    expected, found = plain.evaluate(), trainer.evaluate()
    assert found["eval_loss"] == pytest.approx(expected["eval_loss"], rel=1e-5)
    assert found["eval_accuracy"] == expected["eval_accuracy"]
    predicted = trainer.predict(evaluate)
    assert predicted.predictions.shape == (10, 3)
    assert predicted.predictions == pytest.approx(plain.predict(evaluate).predictions, abs=1e-5)


def test_accumulation_and_replicas_make_one_batch(tmp_path: Path) -> None:
    """2 replicas x 2 steps x 4 examples are as one batch of 16."""
    train = make_data(32)
    settings = {"num_train_epochs": 1, "learning_rate": 3e-3, "max_grad_norm": 0.5}
    plain_model, model = make_model(), make_model()
    make_plain_trainer(plain_model, tmp_path / "a", train, per_device_train_batch_size=16, **settings).train()
    trainer = make_ipu_trainer(
        model,
        tmp_path / "b",
        train,
        config=IPUConfig(replication_factor=2, output_mode="all"),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        **settings,
    )
    assert trainer.get_train_dataloader().combinedBatchSize == 16
    trainer.train()
    assert trainer.state.global_step == 2
    for name, weight in plain_model.state_dict().items():
        assert torch.allclose(model.state_dict()[name], weight, atol=1e-5), name


def test_several_ipus_change_no_result(tmp_path: Path) -> None:
    train = make_data(16)
    settings = {**RUN, "gradient_accumulation_steps": 4, "per_device_train_batch_size": 2}
    one = make_ipu_trainer(make_model(layers=2), tmp_path, train, config=IPUConfig(), **settings)
    two = make_ipu_trainer(make_model(layers=2), tmp_path, train, config=IPUConfig(layers_per_ipu=[1, 1]), **settings)
    one.train()
    two.train()
    assert list_losses(one) == pytest.approx(list_losses(two), rel=1e-5)
    assert two.state.ipu["training"]["ipus"] == 2


def test_a_run_that_was_interrupted_ends_with_the_same_weights(tmp_path: Path) -> None:
    """In half, with dropout and shuffled data: all of it must go on where it stopped."""
    train = make_data(24)
    settings = {**RUN, "fp32": False, "save_strategy": "steps", "save_steps": 4}  # 6 steps an epoch: 4 is inside one
    whole = make_ipu_trainer(make_model(dropout=0.2), tmp_path / "whole", train, **settings)
    whole.train()
    resumed = make_ipu_trainer(make_model(dropout=0.2), tmp_path / "resumed", train, **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-4"))
    assert resumed.state.global_step == whole.state.global_step == 12
    expected = whole.model.state_dict()
    for name, weight in resumed.model.state_dict().items():
        assert torch.equal(weight, expected[name]), name
    assert list_losses(resumed) == list_losses(whole)


def test_a_checkpoint_is_one_of_plain_transformers(tmp_path: Path) -> None:
    train = make_data(8)
    config = IPUConfig(embedding_serialization_factor=2)
    settings = {**RUN, "num_train_epochs": 1, "save_strategy": "epoch"}
    trainer = make_ipu_trainer(make_model(), tmp_path, train, config=config, **settings)
    trainer.train()
    checkpoint = tmp_path / "checkpoint-2"
    plain = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    assert type(plain).__name__ == "BertForSequenceClassification"
    assert json.loads((checkpoint / "config.json").read_text())["architectures"] == ["BertForSequenceClassification"]
    for name, weight in trainer.original_model.state_dict().items():
        assert torch.equal(plain.state_dict()[name], weight), name
    assert IPUConfig.from_pretrained(checkpoint).embedding_serialization_factor == 2
    state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    assert state.global_step == 2
    assert state.stateful_callbacks["IPUTrainerState"]["ipu"]["training"]["samples_per_second_modelled"] > 0
    again = make_plain_trainer(plain, tmp_path / "plain", train, **{**settings, "num_train_epochs": 1})
    again.train()  # and can be trained on


def test_half_and_float32_reach_the_accuracy_of_a_plain_trainer(tmp_path: Path) -> None:
    train, evaluate = make_data(192), make_data(100, seed=1)
    settings = {**RUN, "num_train_epochs": 4}
    settings |= {"per_device_eval_batch_size": 50, "logging_steps": 1000}
    plain = make_plain_trainer(make_model(), tmp_path, train, evaluate, **settings)
    plain.train()
    expected = plain.evaluate()["eval_accuracy"]
    assert expected >= 0.98
    for fp32 in (True, False):
        trainer = make_ipu_trainer(make_model(), tmp_path, train, evaluate, fp32=fp32, **settings)
        trainer.train()
        assert trainer.evaluate()["eval_accuracy"] >= expected - 0.01, f"fp32={fp32}"


def test_the_best_model_is_loaded_at_the_end(tmp_path: Path) -> None:
    train, evaluate = make_data(16), make_data(8, seed=1)
    settings = {**RUN, "num_train_epochs": 3, "learning_rate": 0.05, "lr_scheduler_type": "constant"}
    settings |= {"eval_strategy": "epoch", "save_strategy": "epoch", "load_best_model_at_end": True}
    trainer = make_ipu_trainer(make_model(), tmp_path, train, evaluate, save_total_limit=2, **settings)
    trainer.add_callback(EarlyStoppingCallback(early_stopping_patience=5))
    trainer.train()
    losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
    assert trainer.evaluate()["eval_loss"] == pytest.approx(min(losses), rel=1e-6)
    assert len(list(tmp_path.glob("checkpoint-*"))) <= 2


def test_logs_tell_the_modelled_throughput_and_memory(tmp_path: Path) -> None:
    trainer = make_ipu_trainer(make_model(), tmp_path, make_data(8), make_data(4), **RUN)
    summary = trainer.train().metrics
    assert summary["train_ipu_samples_per_second_modelled"] > 0
    assert 0 < summary["train_ipu_memory_share_modelled"] < 1
    assert summary["train_samples_per_second"] > 0
    assert trainer.evaluate()["eval_ipu_samples_per_second_modelled"] > 0
    assert set(trainer.state.ipu) == {"training", "evaluation"}
    trainer.create_model_card(model_name="tiny")
    card = (tmp_path / "README.md").read_text()
    assert "total_train_batch_size: 4" in card
    assert "modelled_throughput" in card


class _OwnLoss(IPUTrainer):
    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **others: Any) -> Any:
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = 2 * nn.functional.cross_entropy(outputs.logits, labels)
        return (loss, outputs) if return_outputs else loss


def test_a_loss_of_the_users_own_is_part_of_the_program(tmp_path: Path) -> None:
    train = make_data(8)
    args = IPUTrainingArguments(output_dir=str(tmp_path), fp32=True, logging_steps=1, disable_tqdm=True, **RUN)
    own = _OwnLoss(make_model(), IPUConfig(), args, train_dataset=train, eval_dataset=train)
    usual = make_ipu_trainer(make_model(), tmp_path, train, train, **RUN)
    own.train()
    usual.train()
    assert list_losses(own)[0] == pytest.approx(2 * list_losses(usual)[0], rel=1e-5)
    smoothed = make_ipu_trainer(make_model(), tmp_path, train, train, label_smoothing_factor=0.2, **RUN)
    plain = make_plain_trainer(make_model(), tmp_path, train, train, label_smoothing_factor=0.2, **RUN)
    smoothed.train()
    plain.train()
    assert list_losses(smoothed) == pytest.approx(list_losses(plain), rel=1e-5)


class _Recorder(TrainerCallback):
    def __init__(self) -> None:
        self.events: list[str] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self.events.append("train")

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self.events.append("epoch")

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self.events.append("step")
        control.should_training_stop = state.global_step >= 3


def test_callbacks_see_every_step_and_can_stop_the_run(tmp_path: Path) -> None:
    recorder = _Recorder()
    trainer = make_ipu_trainer(make_model(), tmp_path, make_data(8), **RUN)
    trainer.add_callback(recorder)
    trainer.train()
    assert recorder.events == ["train", "epoch", "step", "step", "epoch", "step"]


@pytest.mark.parametrize("filtered", [False, True])
def test_a_loss_that_is_not_a_number_is_visible(tmp_path: Path, filtered: bool) -> None:
    model = make_model()
    with torch.no_grad():
        model.classifier.weight.fill_(math.nan)
    settings = {**RUN, "num_train_epochs": 1, "logging_nan_inf_filter": filtered}
    trainer = make_ipu_trainer(model, tmp_path, make_data(4), **settings)
    trainer.train()
    assert math.isnan(list_losses(trainer)[0]) is not filtered


def test_a_users_optimizer_and_scheduler_are_used(tmp_path: Path) -> None:
    model, plain_model = make_model(), make_model()
    trainers = []
    for kind, chosen in (("plain", plain_model), ("ipu", model)):
        optimizer = torch.optim.SGD(chosen.parameters(), lr=0.05, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        make = make_plain_trainer if kind == "plain" else make_ipu_trainer
        trainer = make(chosen, tmp_path, make_data(16), max_grad_norm=0.0, **RUN)
        trainer.optimizer, trainer.lr_scheduler = optimizer, scheduler
        trainer.train()
        trainers.append(trainer)
    assert list_losses(trainers[1]) == pytest.approx(list_losses(trainers[0]), rel=1e-5)
    rates = [entry["learning_rate"] for entry in trainers[1].state.log_history if "learning_rate" in entry]
    assert rates[:3] == pytest.approx([0.05, 0.025, 0.0125])


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, poptorch.optim.AdamW),
        ({"lamb": True}, poptorch.optim.LAMB),
        ({"optim": "sgd", "optim_args": "momentum=0.9", "max_grad_norm": 0.0}, poptorch.optim.SGD),
        ({"optim": "rmsprop", "max_grad_norm": 0.0}, poptorch.optim.RMSprop),
    ],
)
def test_the_arguments_name_the_optimizer(tmp_path: Path, settings: dict[str, Any], kind: type) -> None:
    trainer = make_ipu_trainer(make_model(), tmp_path, make_data(4), loss_scaling=16.0, weight_decay=0.1, **settings)
    optimizer = trainer.create_optimizer()
    assert type(optimizer) is kind
    assert optimizer.loss_scaling == 16.0
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(trainer.model.parameters()))
    if kind is poptorch.optim.AdamW:
        assert optimizer.max_grad_norm == 1.0
    if kind is poptorch.optim.LAMB:
        assert [group.get("max_weight_norm") for group in optimizer.param_groups][1] == 0.0


def test_batches_of_growing_length_are_padded_to_one(tmp_path: Path) -> None:
    from tiny_models import make_tokenizer

    rows = [{"input_ids": [2] * (3 + index), "labels": index % 3} for index in range(8)]
    args = IPUTrainingArguments(output_dir=str(tmp_path), fp32=True, disable_tqdm=True, **RUN)
    trainer = IPUTrainer(make_model(), None, args, train_dataset=rows, tokenizer=make_tokenizer())
    assert next(iter(trainer.get_train_dataloader()))["input_ids"].shape == (4, 16)  # 10, in steps of 8
    plain = IPUTrainer(make_model(), None, args, train_dataset=rows, data_collator=_collate_longest)
    with pytest.raises(ValueError, match="Pad all examples to the same length"):
        plain.train()


def _collate_longest(examples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    rows = [torch.tensor(example["input_ids"]) for example in examples]
    return {
        "input_ids": nn.utils.rnn.pad_sequence(rows, batch_first=True),
        "labels": torch.tensor([example["labels"] for example in examples]),
    }


def test_wrong_use_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="model_init"):
        IPUTrainer(model_init=make_model)
    with pytest.raises(ValueError, match="'adamw_torch'"):
        make_ipu_trainer(make_model(), tmp_path, make_data(4), optim="adafactor").create_optimizer()
    config = IPUConfig(layers_per_ipu=[1, 1])
    with pytest.raises(IncompatibleIPUConfigError, match="gradient_accumulation_steps"):
        make_ipu_trainer(make_model(layers=2), tmp_path, make_data(4), config=config).train()
    with pytest.raises(ValueError, match="Couldn't get first sample"):
        make_ipu_trainer(make_model(), tmp_path, make_data(3), per_device_train_batch_size=4).train()
    model = make_model()
    trainer = make_ipu_trainer(model, tmp_path, make_data(4))
    trainer.optimizer = torch.optim.Adagrad(model.parameters())
    with pytest.raises(KeyError, match="counterpart for optimizer Adagrad"):
        trainer.create_optimizer()
    with pytest.raises(ValueError, match="Hyperparameter tuning is not supported"):
        trainer.hyperparameter_search()
    with pytest.raises(ValueError, match="No valid checkpoint found"):
        make_ipu_trainer(make_model(), tmp_path / "empty", make_data(4)).train(resume_from_checkpoint=True)


def test_compile_only_plans_and_ends(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        make_ipu_trainer(make_model(), tmp_path, make_data(4), make_data(4), compile_only=True)
    assert ended.value.code == 0


def test_arguments_of_a_plain_script_are_taken_as_they_are(tmp_path: Path) -> None:
    from transformers import TrainingArguments

    plain = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, disable_tqdm=True, **RUN)
    trainer = IPUTrainer(make_model(), plain, train_dataset=make_data(8), compute_metrics=compute_accuracy)
    assert trainer.args.fp32
    assert trainer.train().global_step == 4
