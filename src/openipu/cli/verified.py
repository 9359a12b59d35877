"""`openipu doctor --verify`: small models on this machine, compared with the reference engine.

In: nothing, or a reproducer. Out: a table or JSON; exit code 1 on a difference.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.markup import escape
from torch import nn

from openipu.admission import check_program
from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters
from openipu.cli.terminal import make_table, open_console, print_json
from openipu.graph import EngineMode, RunOptions
from openipu.run import Executable
from openipu.run.verify import VerificationWarning, read_reproducer, verify_calls

_CALLS = 3
_BATCH = 8
_ENGINES = (EngineMode.OPERATORS, EngineMode.KERNELS)
_CLASSES, _WORDS = 10, 64

Make = Callable[[], nn.Module]


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(32, 64, num_layers=2, batch_first=True)
        self.classes = nn.Linear(64, _CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.classes(self.layers(x)[0][:, -1])
        return scores


class _Transformer(nn.Module):
    """A classifier of the first word; or, with its embedding as its last layer, a language model."""

    def __init__(self, language: bool) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, activation="gelu", batch_first=True)
        self.words = nn.Embedding(_WORDS, 64)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classes = nn.Linear(64, _WORDS if language else _CLASSES, bias=False)
        self.language = language
        if language:
            self.classes.weight = self.words.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states = self.layers(self.words(x))
        scores: torch.Tensor = self.classes(states if self.language else states[:, 0])
        return scores.flatten(0, 1) if self.language else scores


class _WithLoss(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.body(x)
        return scores, nn.functional.cross_entropy(scores, labels.flatten())


def _make_cnn() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.2), nn.Linear(64 * 64, _CLASSES)),
    )


_IMAGES, _SEQUENCES, _SENTENCES = (3, 32, 32), (24, 32), (24,)
_MODELS: dict[str, tuple[Make, tuple[int, ...]]] = {
    "CNN": (_make_cnn, _IMAGES),
    "LSTM": (_Recurrent, _SEQUENCES),
    "transformer with classifier": (lambda: _Transformer(language=False), _SENTENCES),
    "language model, tied embedding": (lambda: _Transformer(language=True), _SENTENCES),
}


@dataclass(frozen=True, slots=True)
class Row:
    """How one model did."""

    model: str
    numbers: str
    use: str
    engine: str
    calls: int  # compared
    finding: str  # empty: all agree
    reproducer: str


def verify_machine(*, as_json: bool = False) -> int:
    """Compare all models; the exit code."""
    variants = itertools.product(_MODELS, (False, True), (False, True), _ENGINES)
    rows = [_verify_model(*variant) for variant in variants]
    same = not any(row.finding for row in rows)
    if as_json:
        print_json({"same": same, "models": [asdict(row) for row in rows]})
    else:
        _print_rows(rows, same)
    return 0 if same else 1


def _verify_model(name: str, half: bool, training: bool, engine: EngineMode) -> Row:
    make, shape = _MODELS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = make().half() if half else make()
        x, labels = _make_data(shape, half)
        if labels.dim() > 1 and not model.language:
            labels = labels[:, 0] % _CLASSES
        options = RunOptions(training=training, engine=engine, random_seed=1, verify=_CALLS)
        finding, reproducer, calls = "", "", 0
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                executable, inputs = _compile(model, x, labels, options)
                verification = verify_calls(executable, _CALLS)
                for _ in range(_CALLS):
                    executable.run(inputs)
                calls = verification.compared
                if verification.path is not None:
                    reproducer = str(verification.path)
            except Exception as error:
                finding = f"{type(error).__name__}: {error}"
        finding += " ".join(str(item.message) for item in caught if issubclass(item.category, VerificationWarning))
    numbers, use = "half" if half else "float32", "training" if training else "inference"
    return Row(name, numbers, use, engine.value, calls, finding, reproducer)


def _make_data(shape: tuple[int, ...], half: bool) -> tuple[torch.Tensor, torch.Tensor]:
    if len(shape) == 1:
        words = torch.randint(0, _WORDS, (_BATCH, *shape))
        return words, words
    x = torch.randn(_BATCH, *shape)
    return x.half() if half else x, torch.randint(0, _CLASSES, (_BATCH,))


def _compile(
    model: nn.Module, x: torch.Tensor, labels: torch.Tensor, options: RunOptions
) -> tuple[Executable, list[Any]]:
    if not options.training:
        model.eval()
        program = capture_program(model, (x,), {}, training=False, optimizer=None, name="verified")
        executable, inputs = Executable(program, options), [x]
    else:
        model = _WithLoss(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        described = describe_optimizer(optimizer, {id(value): name for name, value in model.named_parameters()})
        program = capture_program(model, (x, labels), {}, training=True, optimizer=described, name="verified")
        executable, inputs = Executable(program, options), [x, labels]
        executable.set_hyper_parameters(read_hyper_parameters(optimizer, described))
    executable.load_weights(dict(model.named_parameters()), dict(model.named_buffers()))
    return executable, inputs


def verify_reproducer(path: Path, *, as_json: bool = False) -> int:
    """Run a saved call again, and compare it."""
    found = read_reproducer(path)
    check_program(found.trial.program)
    differences = found.trial.run(found.without)
    if as_json:
        print_json({"same": not differences, "fault": found.fault, "differences": [str(item) for item in differences]})
        return 1 if differences else 0
    console = open_console()
    if not differences:
        console.print(f"{escape(str(path))}: no difference from the reference on this machine.")
        return 0
    console.print(f"{escape(str(path))} differs from the reference. Found then: {escape(found.fault)}.")
    for difference in differences:
        console.print(f"  {escape(str(difference))}")
    return 1


def _print_rows(rows: list[Row], same: bool) -> None:
    console = open_console()
    table = make_table()
    for heading in ("model", "numbers", "use", "engine", "calls", "results"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        result = "[green]as the reference[/]" if not row.finding else f"[bold red]different[/]: {escape(row.finding)}"
        table.add_row(row.model, row.numbers, row.use, row.engine, str(row.calls), result)
    console.print(table)
    if not same:
        console.print("\n[bold red]Results differ from the reference.[/] OPENIPU_ENGINE=reference gives right ones.")
