"""Small models and data for the tests of Lightning, and a Trainer that says nothing."""

import lightning.pytorch as pl
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lightning_graphcore  # noqa: F401 - makes "ipu" known
from lightning_graphcore import IPUStrategy


def make_trainer(tmp_path, **settings):
    silent = {
        "default_root_dir": tmp_path,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "max_epochs": 1,
        "num_sanity_val_steps": 0,
    }
    return pl.Trainer(**{**silent, **settings})


def make_data(samples=32, features=4, classes=3):
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(samples, features, generator=generator)
    return TensorDataset(inputs, inputs[:, :classes].argmax(1))


def make_loader(batch_size, samples=32, **settings):
    return DataLoader(make_data(samples), batch_size=batch_size, **settings)


class Classifier(pl.LightningModule):
    """Two layers; keeps every loss that callbacks see."""

    def __init__(self, learning_rate=0.05, optimizer=torch.optim.SGD):
        super().__init__()
        self.learning_rate, self.optimizer_class = learning_rate, optimizer
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        self.seen_losses = []

    def forward(self, inputs):
        return self.net(inputs)

    def compute_loss(self, batch):
        inputs, labels = batch
        return F.cross_entropy(self(inputs), labels)

    def training_step(self, batch, batch_idx):
        return self.compute_loss(batch)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if outputs:
            self.seen_losses.append(float(outputs["loss"]))

    def configure_optimizers(self):
        return self.optimizer_class(self.parameters(), lr=self.learning_rate)


class Evaluated(Classifier):
    """Also has the steps without training."""

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.compute_loss(batch))

    def test_step(self, batch, batch_idx):
        self.log("test_loss", self.compute_loss(batch))

    def predict_step(self, batch, batch_idx):
        return self(batch[0])


def make_model(kind=Classifier, seed=3, **settings):
    torch.manual_seed(seed)
    return kind(**settings)


def fit(tmp_path, loader, kind=Classifier, model_settings=None, **settings):
    """Train a fresh model; returns it and its trainer."""
    model = make_model(kind, **(model_settings or {}))
    trainer = make_trainer(tmp_path, **settings)
    trainer.fit(model, loader)
    return model, trainer


def assert_same_training(first, second, tolerance=1e-5):
    assert first.seen_losses
    torch.testing.assert_close(
        torch.tensor(first.seen_losses), torch.tensor(second.seen_losses), rtol=tolerance, atol=tolerance
    )
    for name, value in first.state_dict().items():
        torch.testing.assert_close(second.state_dict()[name], value, rtol=tolerance, atol=tolerance)


__all__ = [
    "Classifier", "Evaluated", "IPUStrategy", "assert_same_training", "fit", "make_data", "make_loader", "make_model",
    "make_trainer",
]  # fmt: skip
