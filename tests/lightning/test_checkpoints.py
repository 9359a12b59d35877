"""Checkpoints: what is saved on IPUs resumes there, and anywhere else."""

import signal
import subprocess
import sys

import lightning_kill_case
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning_cases import Classifier, Evaluated, assert_same_training, fit, make_loader, make_model, make_trainer
from torch import nn

OPTIMIZERS = {
    "sgd": lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=0.9),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": lambda parameters, lr: torch.optim.RMSprop(parameters, lr=lr / 10, momentum=0.5),
}


def resume(tmp_path, path, accelerator, optimizer, epochs):
    model = make_model(Classifier, seed=99, optimizer=optimizer)
    trainer = make_trainer(tmp_path, accelerator=accelerator, devices=1, max_epochs=epochs)
    trainer.fit(model, make_loader(8), ckpt_path=path)
    return model


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(("first", "second"), [("ipu", "ipu"), ("ipu", "cpu"), ("cpu", "ipu")])
def test_training_goes_on_where_a_checkpoint_stopped(tmp_path, name, first, second):
    optimizer = OPTIMIZERS[name]
    whole, _ = fit(tmp_path, make_loader(8), model_settings={"optimizer": optimizer}, accelerator="cpu", max_epochs=3)
    _, trainer = fit(
        tmp_path, make_loader(8), model_settings={"optimizer": optimizer}, accelerator=first, devices=1, max_epochs=2
    )
    path = tmp_path / "after.ckpt"
    trainer.save_checkpoint(path)
    resumed = resume(tmp_path, path, second, optimizer, 3)
    assert resumed.seen_losses == pytest.approx(whole.seen_losses[8:], rel=1e-4)
    for key, value in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[key], value, rtol=1e-4, atol=1e-5)


def test_a_checkpoint_in_the_middle_of_fit_has_the_devices_weights(tmp_path):
    callback = ModelCheckpoint(dirpath=tmp_path, filename="{step}", every_n_train_steps=1, save_top_k=-1)
    model, _ = fit(
        tmp_path, make_loader(8), accelerator="ipu", devices=1, callbacks=[callback], enable_checkpointing=True
    )
    expected, _ = fit(tmp_path, make_loader(8), accelerator="cpu", max_steps=2)
    saved = torch.load(tmp_path / "step=2.ckpt", weights_only=False)["state_dict"]
    for key, value in expected.state_dict().items():
        torch.testing.assert_close(saved[key], value)
        assert type(saved[key]) is torch.Tensor
    assert type(model) is Classifier
    assert type(model.net[0].weight) is nn.Parameter


def test_the_best_checkpoint_is_tested(tmp_path):
    callback = ModelCheckpoint(dirpath=tmp_path, monitor="val_loss")
    trainer = make_trainer(
        tmp_path, accelerator="ipu", devices=1, max_epochs=2, callbacks=[callback], enable_checkpointing=True
    )
    trainer.fit(make_model(Evaluated), make_loader(8), make_loader(8))
    found = trainer.test(dataloaders=make_loader(8), ckpt_path="best", verbose=False)[0]["test_loss"]
    assert found == pytest.approx(float(callback.best_model_score), rel=1e-5)


def test_a_killed_run_resumes_to_the_weights_of_an_uninterrupted_one(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    expected = lightning_kill_case.train(str(whole), "whole")
    killed = subprocess.run([sys.executable, lightning_kill_case.__file__, str(parts), "killed"], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert sorted(path.name for path in parts.glob("*.ckpt")) == ["step=4.ckpt", "step=8.ckpt"]
    found = lightning_kill_case.train(str(parts), "resumed")
    for key, value in expected.items():
        assert torch.equal(found[key], value), key


def test_losses_of_a_checkpointed_run_are_those_of_a_plain_one(tmp_path):
    callback = ModelCheckpoint(dirpath=tmp_path, every_n_train_steps=1)
    plain, _ = fit(tmp_path, make_loader(8), accelerator="ipu", devices=1, max_epochs=2)
    saved, _ = fit(
        tmp_path, make_loader(8), accelerator="ipu", devices=1, max_epochs=2, callbacks=[callback],
        enable_checkpointing=True,
    )  # fmt: skip
    assert_same_training(plain, saved, tolerance=0)
