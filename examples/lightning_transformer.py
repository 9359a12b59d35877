"""A small transformer with Lightning on IPUs: pipelined over blocks, in half precision, with metrics in the step.

It learns to tell the largest of a few digits. Run it with `python examples/lightning_transformer.py`, and with
`openipu run --profile out examples/lightning_transformer.py` to see the pipeline that it would be.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy

import lightning as L  # noqa: N812
import lightning_graphcore
import poptorch

DIGITS, LENGTH = 10, 8


class LargestDigit(L.LightningModule):
    """An embedding, encoder layers and a classifier. Each block has an IPU of its own."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(DIGITS, width)
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, DIGITS)
        self.accuracy = MulticlassAccuracy(DIGITS, average="micro")
        poptorch.BeginBlock(self.embedding, ipu_id=0)
        for index, layer in enumerate(self.encoder):
            poptorch.BeginBlock(layer, ipu_id=index)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens)
        for layer in self.encoder:
            hidden = layer(hidden)
        return self.head(hidden.mean(dim=1))

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        tokens, largest = batch
        loss = nn.functional.cross_entropy(self(tokens), largest)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        tokens, largest = batch
        self.accuracy(self(tokens), largest)
        self.log("accuracy", self.accuracy)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.004)


def make_data(samples: int, seed: int) -> TensorDataset:
    tokens = torch.randint(0, DIGITS, (samples, LENGTH), generator=torch.Generator().manual_seed(seed))
    return TensorDataset(tokens, tokens.max(dim=1).values)


def main() -> None:
    parser = argparse.ArgumentParser(description="A small transformer with Lightning")
    parser.add_argument("--epochs", type=int, default=8, help="number of epochs to train (default: 8)")
    parser.add_argument("--precision", default="32-true", help="32-true, 16-mixed or 16-true (default: 32-true)")
    arguments = parser.parse_args()
    L.seed_everything(0)
    # Two blocks make three pipeline stages in training: at least as many micro-batches go into an update.
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    inference_options = poptorch.Options().deviceIterations(2)
    strategy = lightning_graphcore.IPUStrategy(training_opts=options, inference_opts=inference_options)
    trainer = L.Trainer(
        accelerator="ipu",
        devices=1,
        strategy=strategy,
        precision=arguments.precision,
        max_epochs=arguments.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(LargestDigit(), DataLoader(make_data(2048, 0), 16, shuffle=True), DataLoader(make_data(512, 1), 16))
    print(f"Loss {trainer.callback_metrics['loss']:.3f}")
    print(f"Accuracy: {trainer.callback_metrics['accuracy']:.1%}")


if __name__ == "__main__":
    main()
