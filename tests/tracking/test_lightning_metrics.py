"""`IPUMetrics` with Lightning's own loggers of TensorBoard and Weights & Biases."""

from __future__ import annotations

from pathlib import Path

import lightning.pytorch as pl
import pytest
from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from lightning_cases import Classifier, IPUStrategy, make_loader, make_trainer
from tracked_files import read_tensorboard, read_wandb

from lightning_graphcore import IPUMetrics
from openipu.activity import is_watched

SAMPLES, BATCH = 32, 4  # eight steps


def fit(tmp_path: Path, logger: object, **settings: object) -> pl.Trainer:
    trainer = make_trainer(tmp_path, logger=logger, log_every_n_steps=3, **settings)
    trainer.fit(Classifier(), make_loader(BATCH, SAMPLES))
    return trainer


def test_tensorboard_has_the_plan_once_and_the_run_at_every_logged_step(tmp_path: Path) -> None:
    fit(tmp_path, TensorBoardLogger(tmp_path), accelerator="ipu", devices=1, callbacks=[IPUMetrics()])
    found = read_tensorboard(tmp_path)
    assert [step for step, _ in found["host/calls"]] == [2, 5, 7], "every third of eight steps, and the last"
    assert [value for _, value in found["host/calls"]] == [3, 3, 2]
    assert [value for _, value in found["ipu/fits"]] == [1.0], "once, though strategy and callback both know it"
    assert all(0 < value <= 1 for _, value in found["host/run_share"])
    seconds = dict(found["host/call_seconds"])
    for step, rate in found["host/samples_per_second"]:
        assert rate == pytest.approx(BATCH / seconds[step], rel=1e-5)
    assert not is_watched()


def test_a_strategy_that_reports_nothing_leaves_the_plan_to_the_callback(tmp_path: Path) -> None:
    callbacks = [IPUMetrics(every_n_steps=4)]
    fit(
        tmp_path,
        TensorBoardLogger(tmp_path),
        accelerator="ipu",
        devices=1,
        strategy=IPUStrategy(report=False),
        callbacks=callbacks,
    )
    found = read_tensorboard(tmp_path)
    assert [value for _, value in found["ipu/count"]] == [1.0]
    assert [step for step, _ in found["host/calls"]] == [3, 7]


def test_wandb_has_the_same_scalars(tmp_path: Path) -> None:
    import wandb

    logger = WandbLogger(save_dir=tmp_path, offline=True, project="digits")
    fit(tmp_path, logger, accelerator="ipu", devices=1, callbacks=[IPUMetrics()])
    folder = Path(logger.experiment.dir).parent
    wandb.finish()
    wandb.teardown()  # the process that writes the file has ended then
    found = read_wandb(folder)
    assert found["host/calls"] == [3, 3, 2]
    assert found["ipu/fits"] == [1.0]
    assert found["ipu/call_cycles"][0] > 0


def test_a_trainer_without_ipus_is_told(tmp_path: Path) -> None:
    with pytest.raises(MisconfigurationException, match="this Trainer runs none"):
        fit(tmp_path, False, accelerator="cpu", callbacks=[IPUMetrics()])


def test_a_failed_run_stops_the_measuring(tmp_path: Path) -> None:
    class Failing(Classifier):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            raise RuntimeError("after a step")

    trainer = make_trainer(tmp_path, accelerator="ipu", devices=1, callbacks=[IPUMetrics()])
    with pytest.raises(RuntimeError, match="after a step"):
        trainer.fit(Failing(), make_loader(BATCH, SAMPLES))
    assert not is_watched()


def test_steps_between_logs_are_at_least_one() -> None:
    with pytest.raises(ValueError, match="every_n_steps is 0"):
        IPUMetrics(every_n_steps=0)
