"""Trains a graph neural network on made-up molecules as an IPU program. Needs the extra "pyg".

    openipu run --profile molecules-report examples/poptorch_geometric_molecules.py

A molecule is a ring or a chain of 6 to 20 atoms, and the network says which. Mini-batches have one size: as many
molecules as fit, then padding.
"""

import argparse

import torch
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GINConv, global_add_pool
from torch_geometric.nn.models import MLP

import poptorch
from poptorch_geometric import FixedSizeDataLoader, FixedSizeOptions, FixedSizeStrategy


def make_molecule(generator: torch.Generator) -> Data:
    atoms = int(torch.randint(6, 21, (1,), generator=generator))
    ring = int(torch.randint(2, (1,), generator=generator))
    bonds = torch.stack([torch.arange(atoms), (torch.arange(atoms) + 1) % atoms])[:, : atoms if ring else atoms - 1]
    order = torch.randperm(atoms, generator=generator)  # so that the place of an atom says nothing
    return Data(
        x=torch.ones(atoms, 1), edge_index=order[torch.cat([bonds, bonds.flip(0)], dim=1)], y=torch.tensor([ring])
    )


class Network(torch.nn.Module):
    """Two convolutions, a sum over each molecule, and a loss over those that are real."""

    def __init__(self, molecules: int) -> None:
        super().__init__()
        self.molecules = molecules
        self.convs = torch.nn.ModuleList([GINConv(MLP([1, 32, 32], norm=None)), GINConv(MLP([32, 32, 32], norm=None))])
        self.head = MLP([32, 32, 2], norm=None)

    def forward(self, x, edge_index, batch, graphs_mask, y=None):
        for conv in self.convs:
            x = conv(x, edge_index).relu()
        scores = self.head(global_add_pool(x, batch, size=self.molecules))
        if y is None:
            return scores
        return scores, functional.cross_entropy(scores, torch.where(graphs_mask, y, -100))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--molecules", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    molecules = [make_molecule(generator) for _ in range(options.molecules)]
    split = options.molecules * 4 // 5
    sizes = FixedSizeOptions(num_nodes=400, num_edges=800, num_graphs=40)
    packed = {"batch_size": 40, "fixed_size_options": sizes, "fixed_size_strategy": FixedSizeStrategy.StreamPack}

    model = Network(sizes.num_graphs)
    training = poptorch.trainingModel(model, optimizer=poptorch.optim.Adam(model.parameters(), lr=0.005))
    loader = FixedSizeDataLoader(molecules[:split], shuffle=True, **packed)
    for epoch in range(options.epochs):
        losses = [float(training(b.x, b.edge_index, b.batch, b.graphs_mask, b.y)[1]) for b in loader]
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f}")
    training.detachFromDevice()

    inference = poptorch.inferenceModel(model.eval())
    right = total = 0
    for batch in FixedSizeDataLoader(molecules[split:], **packed):
        found = inference(batch.x, batch.edge_index, batch.batch, batch.graphs_mask).argmax(dim=1)
        right += int(((found == batch.y) & batch.graphs_mask).sum())
        total += int(batch.graphs_mask.sum())
    print(f"right on {right / total:.1%} of {total} new molecules")


if __name__ == "__main__":
    main()
