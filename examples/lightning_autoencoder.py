"""An auto-encoder with Lightning on IPUs: gradient accumulation, clipping, a schedule and options for each stage.

It squeezes 8x8 digits through a few numbers and is trained on what is lost. Run it with
`python examples/lightning_autoencoder.py`.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lightning as L  # noqa: N812
from lightning_graphcore import IPUStrategy


class AutoEncoder(L.LightningModule):
    """64 pixels to a few numbers, and back."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, width))
        self.decoder = nn.Sequential(nn.Linear(width, 48), nn.ReLU(), nn.Linear(48, 64), nn.Sigmoid())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encoder(images))

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        loss = nn.functional.mse_loss(self(batch[0]), batch[0])
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        error = (self(batch[0]) - batch[0]).abs()
        self.log_dict({"mean_error": error.mean(), "codes": self.encoder(batch[0]).std()})
        self.log("worst_error", error.max(), reduce_fx="max")

    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01, weight_decay=1e-4)
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def load_images() -> TensorDataset:
    return TensorDataset(torch.tensor(load_digits().data, dtype=torch.float32) / 16)


def main() -> None:
    parser = argparse.ArgumentParser(description="An auto-encoder with Lightning")
    parser.add_argument("--epochs", type=int, default=8, help="number of epochs to train (default: 8)")
    parser.add_argument("--devices", type=int, default=2, help="replicas (default: 2)")
    arguments = parser.parse_args()
    L.seed_everything(0)
    trainer = L.Trainer(
        accelerator="ipu",
        devices=arguments.devices,
        strategy=IPUStrategy(device_iterations=2),
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        max_epochs=arguments.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    images = load_images()
    trainer.fit(AutoEncoder(), DataLoader(images, 8, shuffle=True), DataLoader(images, 8))
    figures = {name: float(value) for name, value in trainer.callback_metrics.items()}
    print(f"Updates: {2 * trainer.global_step}, loss {figures['loss']:.4f}")
    print(f"Error: mean {figures['mean_error']:.3f}, worst {figures['worst_error']:.3f}")


if __name__ == "__main__":
    main()
