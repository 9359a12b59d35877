"""A training that prints a digest of its losses and weights: `python deterministic_case.py CASE OFFSET`.

OFFSET: where the inputs begin in memory, in numbers after an aligned address. It is no business of the results.
"""

import hashlib
import sys

import torch
from torch import nn

from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters
from openipu.graph import RunOptions
from openipu.run import Executable, split_micro_batch
from openipu.session import choose_determinism

CASES = {
    "float": {"gradient_accumulation": 4},
    "half": {"gradient_accumulation": 2, "stochastic_rounding": True},
}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(50, 96), nn.LayerNorm(96)
        self.first, self.second = nn.Linear(96, 300), nn.Linear(300, 50)

    def forward(self, words, scale, labels):
        hidden = self.norm(self.table(words)).mean(dim=1) * scale
        hidden = nn.functional.dropout(torch.relu(self.first(hidden)), 0.2)
        return nn.functional.cross_entropy(self.second(hidden).float(), labels)


def place(tensor, offset):
    """The same values that many numbers after an aligned address."""
    room = torch.empty(tensor.numel() + offset, dtype=tensor.dtype)
    placed = room[offset:].view(tensor.shape)
    return placed.copy_(tensor)


def main(case, offset):
    torch.manual_seed(3)
    model = Net()
    options = choose_determinism(RunOptions(training=True, random_seed=5, **CASES[case]))
    count = 16 * options.micro_batches
    words, labels = torch.randint(0, 50, (count, 12)), torch.randint(0, 50, (count,))
    scale = torch.randn(count, 96)
    if case == "half":
        model, scale = model.half(), scale.half()
    leaves = [place(leaf, offset) for leaf in (words, scale, labels)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    spec = describe_optimizer(optimizer, {id(value): name for name, value in model.named_parameters()})
    micro = tuple(split_micro_batch(leaf, options) for leaf in leaves)
    program = capture_program(model, micro, {}, training=True, optimizer=spec, name="net")
    executable = Executable(program, options)
    executable.load_weights(dict(model.named_parameters()), dict(model.named_buffers()))
    executable.set_hyper_parameters(read_hyper_parameters(optimizer, spec))
    digest = hashlib.sha256()
    for _ in range(12):  # more than the tiers need for a comparison
        digest.update(executable.run(leaves).outputs[0].numpy().tobytes())
    executable.read_weights(dict(model.named_parameters()), {})
    for value in model.state_dict().values():
        digest.update(value.detach().contiguous().numpy().tobytes())
    print(executable.engine_mode, digest.hexdigest())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
