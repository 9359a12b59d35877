"""Train a digit classifier as several instances: what every file of this directory starts.

One instance:   python train.py
Four of them:   poprun --num-instances 4 --num-replicas 8 train.py
It goes on from its last checkpoint when it is started again.
"""

import os
from pathlib import Path

import torch
from sklearn.datasets import load_digits

import popdist
import popdist.poptorch
import poptorch

EPOCHS = int(os.environ.get("EPOCHS", "4"))
CHECKPOINT = Path(os.environ.get("CHECKPOINT", "checkpoint.pt"))


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))

    def forward(self, images, labels):
        logits = self.layers(images)
        return logits, torch.nn.functional.cross_entropy(logits, labels)


def main():
    # As many replicas as poprun gives this instance; without poprun, one.
    options = popdist.poptorch.Options().randomSeed(1)
    options.outputMode(poptorch.OutputMode.All)
    model = Classifier()
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=2e-3)
    training = poptorch.trainingModel(model, options, optimizer)

    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    dataset = torch.utils.data.TensorDataset(images, torch.tensor(digits.target))
    # The loader takes this instance's share of the data; all instances shuffle alike, because of randomSeed.
    loader = poptorch.DataLoader(options, dataset, batch_size=8, shuffle=True, drop_last=True)

    first_epoch = 0
    if CHECKPOINT.exists():
        stored = torch.load(CHECKPOINT)
        first_epoch = stored["epoch"]
        model.load_state_dict(stored["model"])
        training.compile(*next(iter(loader)))
        optimizer.load_state_dict(stored["optimizer"])

    for epoch in range(first_epoch, EPOCHS):
        for batch, labels in loader:
            _, loss = training(batch, labels)
        if popdist.getInstanceIndex() == 0:
            print(f"epoch {epoch + 1}: loss {float(loss.mean()):.3f} (of this instance's last batch)")
            state = {"epoch": epoch + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, CHECKPOINT.with_suffix(".new"))
            os.replace(CHECKPOINT.with_suffix(".new"), CHECKPOINT)  # whole or not at all


if __name__ == "__main__":
    main()
