"""Time of one training step: eager PyTorch, torch.compile of the module, and both tiers of openipu.

All ways take turns in one process on the same data, so that a busy machine slows all of them alike: read the ratios.
CPU time is not shown: threads that still spin after one way's step would be charged to the next one.
Run with `make bench`, or `python bench/step.py --quick --json FILE`.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters
from openipu.graph import OutputMode, RunOptions, Tier
from openipu.run import Executable

Step = Callable[[], object]
MakeOptimizer = Callable[[nn.Module], torch.optim.Optimizer]


@dataclass(frozen=True)
class Case:
    """One model with its data and its optimizer."""

    name: str
    model: nn.Module
    inputs: tuple[torch.Tensor, ...]
    make_optimizer: MakeOptimizer


@dataclass(frozen=True)
class Timing:
    """Times of one way to run one case."""

    case: str
    way: str
    prepare_seconds: float  # capture or compilation, up to the end of the first step
    median_seconds: float
    fastest_seconds: float
    speed_over_eager: float


class MnistNet(nn.Module):
    """The convolutional network of the usual MNIST examples, with its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU()
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(320, 256), nn.ReLU(), nn.Linear(256, 10))

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.head(self.features(images)), labels)


class BertClassifier(nn.Module):
    """A small BERT that returns its loss."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import BertConfig, BertForSequenceClassification

        config = BertConfig(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=1024)
        self.bert = BertForSequenceClassification(config)

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.bert(input_ids=tokens).logits, labels)


def make_cases() -> list[Case]:
    """The models of the comparison: a CNN on 16 images with SGD, a BERT on 4 x 128 tokens with Adam."""
    torch.manual_seed(0)
    images = (torch.randn(16, 1, 28, 28), torch.randint(0, 10, (16,)))
    tokens = (torch.randint(0, 30000, (4, 128)), torch.randint(0, 2, (4,)))
    return [
        Case("MNIST CNN", MnistNet(), images, lambda m: torch.optim.SGD(m.parameters(), 0.01, 0.9)),
        Case("BERT 2x256", BertClassifier(), tokens, lambda m: torch.optim.Adam(m.parameters(), 1e-4)),
    ]


def make_eager_step(case: Case, compiled: bool) -> Step:
    """PyTorch's own loop, with the module compiled or not."""
    model = copy.deepcopy(case.model).train()
    optimizer = case.make_optimizer(model)
    forward = torch.compile(model) if compiled else model

    def step() -> object:
        optimizer.zero_grad()
        loss = forward(*case.inputs)
        loss.backward()
        optimizer.step()
        return loss

    return step


def make_openipu_step(case: Case, tier: Tier) -> Step:
    """The captured program in one of the tiers."""
    model = copy.deepcopy(case.model).train()
    optimizer = case.make_optimizer(model)
    spec = describe_optimizer(optimizer, {id(value): name for name, value in model.named_parameters()})
    options = RunOptions(training=True, output_mode=OutputMode.FINAL, tier=tier)
    program = capture_program(model, case.inputs, {}, training=True, optimizer=spec, name=type(model).__name__)
    executable = Executable(program, options)
    executable.load_weights(dict(model.named_parameters()), dict(model.named_buffers()))
    executable.set_hyper_parameters(read_hyper_parameters(optimizer, spec))
    return lambda: executable.run(case.inputs)


WAYS: dict[str, Callable[[Case], Step]] = {
    "eager PyTorch": lambda case: make_eager_step(case, compiled=False),
    "torch.compile": lambda case: make_eager_step(case, compiled=True),
    "openipu instant": lambda case: make_openipu_step(case, Tier.INSTANT),
    "openipu compiled": lambda case: make_openipu_step(case, Tier.COMPILED),
}
QUICK_WAYS = ("eager PyTorch", "openipu instant")


def measure_case(case: Case, ways: tuple[str, ...], rounds: int) -> list[Timing]:
    """Let all ways take turns."""
    steps: dict[str, Step] = {}
    prepare: dict[str, float] = {}
    for way in ways:
        started = time.perf_counter()
        steps[way] = WAYS[way](case)
        steps[way]()
        prepare[way] = time.perf_counter() - started
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(rounds + 2):
        for way, step in steps.items():
            started = time.perf_counter()
            step()
            if turn >= 2:  # the first turns warm the caches
                seconds[way].append(time.perf_counter() - started)
    eager = statistics.median(seconds["eager PyTorch"])
    return [
        Timing(
            case.name,
            way,
            prepare[way],
            statistics.median(seconds[way]),
            min(seconds[way]),
            eager / statistics.median(seconds[way]),
        )
        for way in ways
    ]


def show(timings: list[Timing]) -> None:
    """A table for people."""
    table = Table(title=f"One training step (PyTorch {torch.__version__}, {torch.get_num_threads()} threads)")
    for heading in ("model", "way"):
        table.add_column(heading, no_wrap=True)
    for heading in ("first step s", "median ms", "fastest ms", "speed over eager"):
        table.add_column(heading, justify="right")
    for entry in timings:
        table.add_row(
            entry.case,
            entry.way,
            f"{entry.prepare_seconds:.1f}",
            f"{entry.median_seconds * 1e3:.2f}",
            f"{entry.fastest_seconds * 1e3:.2f}",
            f"{entry.speed_over_eager:.2f}x",
        )
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="no compilation: eager and the instant tier only")
    parser.add_argument("--rounds", type=int, default=30, help="steps of each way that are timed")
    parser.add_argument("--json", type=Path, help="write the timings to this file")
    arguments = parser.parse_args()
    ways = QUICK_WAYS if arguments.quick else tuple(WAYS)
    timings = [entry for case in make_cases() for entry in measure_case(case, ways, arguments.rounds)]
    show(timings)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(entry) for entry in timings], indent=2) + "\n")


if __name__ == "__main__":
    main()
