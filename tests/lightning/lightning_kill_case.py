"""A run with dropout, Adam and two replicas: whole, killed on the way, or resumed. Also a script: PLACE MODE."""

import os
import signal
import sys
from pathlib import Path

import lightning.pytorch as pl
import torch

sys.path.insert(0, str(Path(__file__).parent))

from lightning_cases import Classifier, make_loader, make_trainer


class Dropping(Classifier):
    def __init__(self):
        super().__init__(optimizer=torch.optim.Adam, learning_rate=0.01)
        self.net.insert(2, torch.nn.Dropout(0.4))


class Killer(pl.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == 10:  # between the checkpoints of steps 8 and 12
            os.kill(os.getpid(), signal.SIGKILL)


def train(place, mode):
    """Five epochs of four steps, with a checkpoint after each; returns the weights."""
    pl.seed_everything(5, verbose=False)
    saving = pl.callbacks.ModelCheckpoint(dirpath=place, filename="{step}", every_n_epochs=1, save_top_k=-1)
    callbacks = [saving, Killer()] if mode == "killed" else [saving]
    trainer = make_trainer(
        place, accelerator="ipu", devices=2, max_epochs=5, callbacks=callbacks, enable_checkpointing=True
    )
    model = Dropping()
    trainer.fit(model, make_loader(4), ckpt_path=f"{place}/step=8.ckpt" if mode == "resumed" else None)
    return model.state_dict()


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2])
