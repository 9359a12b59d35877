"""Train a small transformer over several IPUs with PopTorch: as a pipeline, in shards, or in phases.

The task is made up on the spot: say which of two symbols a sequence has more of. Run it with
`python examples/poptorch_pipeline.py --strategy pipelined`, or plan it for a machine with
`openipu run --system pod4 examples/poptorch_pipeline.py`.
"""

import argparse

import torch
from torch import nn

import poptorch

SYMBOLS = 2
LENGTH = 16


class Layer(nn.Module):
    """Self-attention and a feed-forward part, each with a residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, num_heads=4, batch_first=True)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.first_norm = nn.LayerNorm(width)
        self.second_norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.first_norm(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        return x + self.feed_forward(self.second_norm(x))


class Classifier(nn.Module):
    """An embedding, layers, and a head that gives the loss."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.head = nn.Linear(width, 2)

    def forward(self, symbols: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.embedding(symbols)
        for layer in self.layers:
            x = layer(x)
        scores = self.head(x.mean(dim=1))
        return scores, nn.functional.cross_entropy(scores, labels)


def annotate(model: Classifier, ipus: int) -> list[str]:
    """Begin a block on each IPU: the embedding on the first, the layers spread over all. Returns the blocks' names."""
    per_ipu = -(-len(model.layers) // ipus)
    names = ["block0"]
    poptorch.BeginBlock(model.embedding, names[0], ipu_id=0)
    for ipu in range(1, ipus):
        names.append(f"block{ipu}")
        poptorch.BeginBlock(model.layers[ipu * per_ipu], names[-1], ipu_id=ipu)
    return names


def make_options(strategy: str, blocks: list[str], accumulation: int) -> poptorch.Options:
    """Options for one of the strategies."""
    options = poptorch.Options().deviceIterations(2)
    options.Training.gradientAccumulation(accumulation)
    if strategy == "pipelined":
        options.setExecutionStrategy(poptorch.PipelinedExecution(*blocks))
    elif strategy == "sharded":
        options.setExecutionStrategy(poptorch.ShardedExecution(*blocks))
    else:
        phases = poptorch.ParallelPhasedExecution(*blocks)
        for number in range(len(blocks)):
            phases.phase(number).ipus(number % 2)
        options.setExecutionStrategy(phases)
    return options


def make_batch(samples: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences of two symbols, and whether the second is the more frequent."""
    symbols = torch.randint(SYMBOLS, (samples, LENGTH), generator=generator)
    return symbols, (symbols.sum(dim=1) > LENGTH // 2).long()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", choices=("pipelined", "sharded", "phased"), default="pipelined")
    parser.add_argument("--ipus", type=int, default=4)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model = Classifier(arguments.width, arguments.layers)
    blocks = annotate(model, arguments.ipus)
    accumulation = 2 * len(blocks)  # a pipeline needs 2 * stages - 1 micro-batches to be full once
    options = make_options(arguments.strategy, blocks, accumulation)
    trainer = poptorch.trainingModel(model, options, poptorch.optim.AdamW(model.parameters(), lr=2e-3))
    samples = arguments.micro_batch * accumulation * 2
    for step in range(arguments.steps):
        symbols, labels = make_batch(samples, generator)
        _, loss = trainer(symbols, labels)
        if step % 5 == 4:
            print(f"Step {step + 1}: loss {loss.mean().item():.3f}")
    trainer.destroy()


if __name__ == "__main__":
    main()
