"""Classify handwritten digits with Lightning on IPUs: training, validation, test and prediction.

The digits are scikit-learn's own 8x8 images, so that nothing is downloaded. Values are logged inside the steps. Run it
with `python examples/lightning_mnist.py --devices 2`; without IPUs: `--accelerator cpu`.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import lightning as L  # noqa: N812
import lightning_graphcore  # noqa: F401 - makes accelerator="ipu" known


class DigitClassifier(L.LightningModule):
    """One hidden layer: 64 pixels to ten scores."""

    def __init__(self, hidden: int = 128, learning_rate: float = 0.003) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        images, labels = batch
        loss = nn.functional.cross_entropy(self(images), labels)
        self.log("train_loss", loss, prog_bar=True, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log("val_accuracy", self._compute_accuracy(batch), prog_bar=True)

    def test_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log("test_accuracy", self._compute_accuracy(batch))

    def predict_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        return self(batch[0]).argmax(dim=1)

    def _compute_accuracy(self, batch: list[torch.Tensor]) -> torch.Tensor:
        images, labels = batch
        return (self(images).argmax(dim=1) == labels).float().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams.learning_rate)


class Digits(L.LightningDataModule):
    """1,797 images, cut into training, validation and test sets."""

    def __init__(self, batch_size: int = 16) -> None:
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage: str) -> None:
        digits = load_digits()
        images = torch.tensor(digits.images, dtype=torch.float32) / 16
        data = TensorDataset(images, torch.tensor(digits.target))
        self.parts = random_split(data, [0.7, 0.15, 0.15], torch.Generator().manual_seed(0))

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.parts[0], batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.parts[1], batch_size=self.batch_size)

    def test_dataloader(self) -> DataLoader:
        return DataLoader(self.parts[2], batch_size=self.batch_size)

    predict_dataloader = test_dataloader


def main() -> None:
    parser = argparse.ArgumentParser(description="Handwritten digits with Lightning")
    parser.add_argument("--accelerator", default="ipu", help="ipu or cpu (default: ipu)")
    parser.add_argument("--devices", type=int, default=1, help="replicas (default: 1)")
    parser.add_argument("--epochs", type=int, default=5, help="number of epochs to train (default: 5)")
    arguments = parser.parse_args()
    L.seed_everything(0)
    trainer = L.Trainer(
        accelerator=arguments.accelerator,
        devices=arguments.devices,
        max_epochs=arguments.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    model, data = DigitClassifier(), Digits()
    trainer.fit(model, datamodule=data)
    print(f"Validation: {trainer.callback_metrics['val_accuracy']:.1%}")
    trainer.test(model, datamodule=data, verbose=False)
    print(f"Accuracy on test set: {trainer.callback_metrics['test_accuracy']:.1%}")
    print("First predictions:", *torch.cat(trainer.predict(model, datamodule=data))[:10].tolist())


if __name__ == "__main__":
    main()
