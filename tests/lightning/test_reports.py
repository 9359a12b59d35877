"""What a run tells: statistics of the plan, throughput, profiles, progress."""

import logging

import lightning.pytorch as pl
import pytest
from lightning.pytorch.callbacks import DeviceStatsMonitor, EarlyStopping, TQDMProgressBar
from lightning.pytorch.loggers import CSVLogger
from lightning_cases import Evaluated, IPUStrategy, fit, make_loader, make_model, make_trainer


class Memory(pl.loggers.Logger):
    """Keeps what is logged."""

    name, version = "memory", 0

    def __init__(self):
        super().__init__()
        self.rows = []

    def log_metrics(self, metrics, step=None):
        self.rows.append(dict(metrics))

    def log_hyperparams(self, *args, **kwargs):
        pass


def find(rows, part):
    return [value for row in rows for name, value in row.items() if part in name]


def test_the_device_statistics_are_those_of_the_plan(tmp_path):
    logger = Memory()
    plans = []

    class Watching(Evaluated):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            plans.append(self.trainer.strategy.poptorch_models["train"]._compiled.plan)

    fit(
        tmp_path, make_loader(8), Watching, accelerator="ipu", devices=2, logger=logger, log_every_n_steps=1,
        callbacks=[DeviceStatsMonitor()],
    )  # fmt: skip
    assert find(logger.rows, "on_train_batch_end/ipu.count")[0] == 2
    assert find(logger.rows, "on_train_batch_end/ipu.memory_fullest_tile_bytes")[0] == plans[0].fit.peak_bytes
    assert find(logger.rows, "on_train_batch_end/ipu.samples_per_second_modelled")[0] == pytest.approx(
        plans[0].timing.samples_per_second
    )


def test_modelled_throughput_and_memory_are_logged_once_a_program(tmp_path):
    logger = Memory()
    fit(tmp_path, make_loader(8), accelerator="ipu", devices=1, logger=logger, max_epochs=2)
    assert len(find(logger.rows, "samples_per_second_modelled")) == 1
    assert find(logger.rows, "memory_needed_bytes")[0] > 0


def test_the_log_names_the_devices_and_the_rate(tmp_path, caplog):
    logging.getLogger("lightning.pytorch").propagate = True
    with caplog.at_level(logging.INFO, logger="lightning.pytorch.utilities.rank_zero"):
        fit(tmp_path, make_loader(8), accelerator="ipu", devices=2)
    assert "IPU training: 2 IPUs of bow-2000, micro-batches of 8, " in caplog.text
    assert " of 589 KiB." in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="lightning.pytorch.utilities.rank_zero"):
        fit(tmp_path, make_loader(8), accelerator="ipu", devices=2, strategy=IPUStrategy(report=False))
    assert "samples/s" not in caplog.text


def test_a_last_smaller_batch_is_not_announced_again(tmp_path, caplog):
    logging.getLogger("lightning.pytorch").propagate = True
    with caplog.at_level(logging.INFO, logger="lightning.pytorch.utilities.rank_zero"):
        fit(tmp_path, make_loader(8, samples=20), accelerator="ipu", devices=1)
    assert caplog.text.count("IPU training: ") == 1
    assert "IPU training: 1 IPU of bow-2000, micro-batches of 8, " in caplog.text


def test_autoreport_writes_a_profile_of_each_program(tmp_path):
    strategy = IPUStrategy(autoreport_dir=str(tmp_path / "report"))
    trainer = make_trainer(tmp_path, accelerator="ipu", devices=1, strategy=strategy)
    trainer.fit(make_model(Evaluated), make_loader(8), make_loader(8))
    assert (tmp_path / "report" / "training" / "profile.pop").is_file()
    assert (tmp_path / "report" / "inference" / "profile.pop").is_file()


def test_csv_logs_and_progress_bars_have_the_steps_values(tmp_path):
    class Logging(Evaluated):
        def training_step(self, batch, batch_idx):
            loss = self.compute_loss(batch)
            self.log("loss", loss, prog_bar=True)
            return loss

    shown = {}

    class Bar(TQDMProgressBar):
        def on_train_batch_end(self, trainer, module, *others):
            super().on_train_batch_end(trainer, module, *others)
            shown.update(self.get_metrics(trainer, module))

    model, _ = fit(
        tmp_path, make_loader(8), Logging, accelerator="ipu", devices=1, log_every_n_steps=1, callbacks=[Bar()],
        logger=CSVLogger(tmp_path, name="csv"), enable_progress_bar=True,
    )  # fmt: skip
    text = (tmp_path / "csv" / "version_0" / "metrics.csv").read_text()
    assert "loss" in text.splitlines()[0]
    assert str(model.seen_losses[0])[:6] in text
    assert shown["loss"] == pytest.approx(model.seen_losses[-1], abs=1e-3)


def test_early_stopping_sees_logged_values(tmp_path):
    callback = EarlyStopping("val_loss", patience=1, min_delta=100.0)
    trainer = make_trainer(tmp_path, accelerator="ipu", devices=1, max_epochs=20, callbacks=[callback])
    trainer.fit(make_model(Evaluated), make_loader(8), make_loader(8))
    assert trainer.current_epoch == 2


def test_options_of_the_user_are_used_for_each_stage(tmp_path):
    import poptorch

    training, inference = poptorch.Options().deviceIterations(2), poptorch.Options().deviceIterations(4)
    strategy = IPUStrategy(training_opts=training, inference_opts=inference)
    seen = {}

    class Watching(Evaluated):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            seen["training"] = len(batch[0])

        def on_validation_batch_end(self, outputs, batch, batch_idx):
            seen["validation"] = len(batch[0])

    trainer = make_trainer(tmp_path, accelerator="ipu", devices=1, strategy=strategy)
    trainer.fit(make_model(Watching), make_loader(4), make_loader(4))
    assert seen == {"training": 8, "validation": 16}
    assert (strategy.training_opts, strategy.inference_opts) == (training, inference)


def test_a_fit_leaves_module_and_trainer_as_they_were(tmp_path):
    model, trainer = fit(tmp_path, make_loader(8), Evaluated, accelerator="ipu", devices=1)
    assert type(model) is Evaluated
    assert "optimizer_zero_grad" not in vars(model)
    assert trainer.strategy.poptorch_models == {}
    assert trainer.strategy.model is model


def test_lines_of_the_plan_are_the_users(tmp_path):
    files = set()

    class Watching(Evaluated):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            plan = self.trainer.strategy.poptorch_models["train"]._compiled.plan
            files.update(op.line.file.rpartition("/")[2] for op in plan.ops if op.line)

    fit(tmp_path, make_loader(8), Watching, accelerator="ipu", devices=1)
    assert files == {"lightning_cases.py"}
