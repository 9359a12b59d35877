"""`IPUMetricsCallback` with what Transformers reports to: TensorBoard and Weights & Biases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tracked_files import read_tensorboard, read_wandb
from trainer_cases import QUIET, make_data, make_model

from openipu.activity import is_watched
from optimum.graphcore import IPUConfig, IPUMetricsCallback, IPUTrainer, IPUTrainingArguments

SAMPLES, BATCH = 16, 2
STEPS = SAMPLES // BATCH


def train(folder: Path, report_to: str, **settings: Any) -> IPUTrainer:
    chosen = {**QUIET, "fp32": True, "report_to": [report_to], "num_train_epochs": 1, "logging_steps": 4, **settings}
    args = IPUTrainingArguments(output_dir=str(folder), per_device_train_batch_size=BATCH, **chosen)
    callbacks = [IPUMetricsCallback()]
    trainer = IPUTrainer(make_model(), IPUConfig(), args, train_dataset=make_data(SAMPLES), callbacks=callbacks)
    trainer.train()
    return trainer


def test_tensorboard_has_the_plan_once_and_the_run_at_every_log(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "runs"))
    trainer = train(tmp_path, "tensorboard")
    found = read_tensorboard(tmp_path)
    assert found["train/host/calls"] == [(4, 4.0), (8, 4.0)], "four calls in each four steps"
    plan = trainer.training_model._compiled.plan
    assert found["train/ipu/call_cycles"] == [(4, pytest.approx(plan.timing.call_cycles, rel=1e-6))]
    assert found["train/ipu/fits"] == [(4, float(plan.fit.fits))]
    for (_, rate), (_, seconds) in zip(
        found["train/host/samples_per_second"], found["train/host/call_seconds"], strict=True
    ):
        assert rate == pytest.approx(plan.timing.samples_per_call / seconds, rel=1e-5)
    assert not is_watched()


def test_wandb_and_the_history_of_the_trainer_have_the_same_scalars(tmp_path: Path) -> None:
    import wandb

    trainer = train(tmp_path, "wandb")
    folder = Path(wandb.run.dir).parent
    wandb.finish()
    wandb.teardown()  # the process that writes the file has ended then
    found = read_wandb(folder)
    logged = [row["host/calls"] for row in trainer.state.log_history if "host/calls" in row]
    assert found["train/host/calls"] == logged == [4.0, 4.0]
    assert found["train/ipu/call_cycles"] == [trainer.training_model._compiled.plan.timing.call_cycles]


def test_without_the_callback_the_logs_are_as_before(tmp_path: Path) -> None:
    args = IPUTrainingArguments(output_dir=str(tmp_path), max_steps=1, **{**QUIET, "fp32": True})
    trainer = IPUTrainer(make_model(), IPUConfig(), args, train_dataset=make_data(8))
    trainer.train()
    assert not [name for row in trainer.state.log_history for name in row if name.startswith(("host/", "ipu/"))]
