"""What openipu wants to reach, held against what was measured.

In: `Figures`. Out: one `Aim` for each bar: its text, the figure, and whether it was reached; None where a part was
not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.cells import (
    ACCUMULATION_STEPS,
    COMPILE,
    EAGER,
    ONNX_RUNTIME,
    OPENIPU,
    OPENIPU_FLOAT32,
    Cell,
)
from bench.figures import Figures, compare_seconds
from bench.models import MODELS
from bench.ratios import Spread, find_geometric_mean, measure_growth
from bench.sections.background import BAR
from bench.sections.first_step import DEFAULT_MODELS
from bench.sections.flatness import SETTLED_AFTER
from bench.sections.generation import PLAIN, SEARCHES

FLAT_BYTES_A_STEP = 1024  # 2,000 steps would add 2 MB, less than readings of memory differ by
TRAINING = "training-float32-1"


@dataclass(frozen=True)
class Aim:
    """One bar, and where the measurement stands."""

    text: str
    bar: str
    measured: str
    reached: bool | None


def list_aims(figures: Figures) -> Iterator[Aim]:
    """All aims, in the order of the tables."""
    yield from _list_training_aims(figures)
    yield from _list_inference_aims(figures)
    yield from _list_generation_aims(figures)
    yield from _list_half_aims(figures)
    speeds = [
        _find_speed_over_eager(figures, Cell(model, accumulation=ACCUMULATION_STEPS))
        for model, entry in MODELS.items()
        if entry.transformer
    ]
    yield _check_mean(f"Accumulation {ACCUMULATION_STEPS}, transformers, over eager: geometric mean", speeds, 2.0)
    yield from _list_first_step_aims(figures)
    yield from _list_resource_aims(figures)


def _list_training_aims(figures: Figures) -> Iterator[Aim]:
    def list_speeds(against: str, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, float | None]:
        cells = {MODELS[name].title: Cell(name) for name in MODELS if wanted(name)}
        return {title: _find_median(figures.find_own_speed(cell, against)) for title, cell in cells.items()}

    eager, compiled = list_speeds(EAGER.name), list_speeds(COMPILE.name)
    yield _check_mean("Training, float32, over eager: geometric mean", eager.values(), 1.5)
    yield _check_mean("Training, float32, over torch.compile: geometric mean", compiled.values(), 1.35)
    yield _check_least("Training, float32, over eager: each model", eager, 1.0)
    yield _check_least("Training, float32, over torch.compile: each model", compiled, 1.0)
    small = list_speeds(EAGER.name, lambda name: name in ("cnn", "bert_small"))
    yield _check_least("Training, float32, over eager: CNN and small BERT", small, 1.4)
    shares = {
        entry.title: _find_median(figures.find_limit_share(Cell(name), OPENIPU.name))
        for name, entry in MODELS.items()
        if entry.large
    }
    yield _check_least("Training, float32: share of the host's limit, large models", shares, 0.85)


def _list_inference_aims(figures: Figures) -> Iterator[Aim]:
    for rival, bar in ((EAGER, 1.3), (COMPILE, 1.1), (ONNX_RUNTIME, 1.0)):
        speeds = {
            entry.title: _find_median(figures.find_own_speed(Cell(name, training=False), rival.name))
            for name, entry in MODELS.items()
        }
        yield _check_mean(f"Inference, float32, over {rival.name}: geometric mean", speeds.values(), bar)
        yield _check_least(f"Inference, float32, over {rival.name}: each model", speeds, 0.97)


def _list_generation_aims(figures: Figures) -> Iterator[Aim]:
    speeds: dict[str, float | None] = {}
    for size in SEARCHES:
        ways = figures.store.read("generation").get(size, {}).get("ways", {})
        plain, own = (ways.get(way, {}).get("seconds") for way in (PLAIN, "openipu"))
        speeds[size] = _find_median(compare_seconds(plain, own))
    yield _check_least("Generation over plain Transformers: each size and search", speeds, 1.5)


def _find_speed_over_eager(figures: Figures, cell: Cell) -> float | None:
    return _find_median(figures.find_own_speed(cell, EAGER.name))


def _list_half_aims(figures: Figures) -> Iterator[Aim]:
    for training, title in ((True, "Training"), (False, "Inference")):
        cells = {entry.title: Cell(name, training, "half") for name, entry in MODELS.items()}
        over_eager = {name: _find_speed_over_eager(figures, cell) for name, cell in cells.items()}
        yield _check_mean(f"{title}, half, over eager half: geometric mean", over_eager.values(), 8.0)
        yield _check_least(f"{title}, half, over eager half: each model", over_eager, 8.0)
        times = {
            name: _find_median(figures.find_speed(cell, OPENIPU_FLOAT32.name, OPENIPU.name))
            for name, cell in cells.items()
        }
        yield _check_most(f"{title}, half: time over our own float32: each model", times, 1.2)


def _list_first_step_aims(figures: Figures) -> Iterator[Aim]:
    found = {name for name in MODELS if figures.find_first_step(name, OPENIPU.name, "cold") is not None}
    measured = [name for name in MODELS if name in found | set(DEFAULT_MODELS)]

    def divide(way: str, start: str, other_way: str, other_start: str) -> dict[str, float | None]:
        ratios: dict[str, float | None] = {}
        for name in measured:
            own, other = (
                figures.find_first_step(name, way, start),
                figures.find_first_step(name, other_way, other_start),
            )
            ratios[MODELS[name].title] = None if own is None or other is None else own / other
        return ratios

    cold = divide(OPENIPU.name, "cold", COMPILE.name, "cold")
    yield _check_most("First result, cold: time over torch.compile's", cold, 1.0)
    own = {"BERT-base": figures.find_first_step("bert_base", OPENIPU.name, "warm", "own_seconds")}
    yield _check_most("Warm start of BERT-base: seconds beyond imports, data and a step", own, 2.0, unit=" s")


def _list_resource_aims(figures: Figures) -> Iterator[Aim]:
    beside = {
        MODELS[model].title: divide_background(result, "during")
        for model, result in figures.store.read("background").items()
    }
    yield _check_most("Steps beside a compilation: time over those before", beside, BAR)
    growths: dict[str, float | None] = {}
    for way, result in figures.store.read("flatness").items():
        if "error" not in result and way != EAGER.name:
            growths[way] = measure_growth(result["steps"], result["resident_bytes"], SETTLED_AFTER)
    yield _check_most("Memory growth over 2,000 steps", growths, FLAT_BYTES_A_STEP, unit=" B a step", digits=0)
    twelve, twenty_four = figures.find_planning(12), figures.find_planning(24)
    ratio = None if twelve is None or twenty_four is None else twenty_four.median / twelve.median
    yield _check_most("Planning time: 24 layers over 12", {"BERT": ratio}, 2.2)
    memory = {
        entry.title: figures.find_memory_ratio(Cell(name), OPENIPU.name, EAGER.name) for name, entry in MODELS.items()
    }
    yield _check_most("Peak memory of a training step over eager's: each model", memory, 1.1)


def divide_background(result: dict[str, Any], phase: str) -> float | None:
    """A step of this phase of a compilation in the background, over one before it."""
    before, found = result.get("before_seconds"), result.get(f"{phase}_seconds")
    return found / before if before and found else None


def _check_mean(text: str, values: Iterable[float | None], bar: float) -> Aim:
    found = list(values)
    mean = find_geometric_mean(found)
    partly = f" ({sum(value is not None for value in found)} of {len(found)} models)" if None in found else ""
    if mean is None:
        return Aim(text, f"at least {bar:g}x", "not measured", None)
    reached = mean >= bar if not partly else None
    return Aim(text, f"at least {bar:g}x", f"{mean:.2f}x{partly}", reached)


def _check_least(text: str, values: dict[str, float | None], bar: float) -> Aim:
    found = {name: value for name, value in values.items() if value is not None}
    if not found:
        return Aim(text, f"at least {bar:g}", "not measured", None)
    worst = min(found, key=lambda name: found[name])
    return Aim(text, f"at least {bar:g}", f"{found[worst]:.2f} ({worst})", _judge(found[worst] >= bar, values))


def _check_most(text: str, values: dict[str, float | None], bar: float, unit: str = "", digits: int = 2) -> Aim:
    found = {name: value for name, value in values.items() if value is not None}
    most = f"at most {bar:.3g}{unit}" if bar < 1000 else f"at most {bar:,.0f}{unit}"
    if not found:
        return Aim(text, most, "not measured", None)
    worst = max(found, key=lambda name: found[name])
    measured = f"{found[worst]:,.{digits}f}{unit} ({worst})"
    return Aim(text, most, measured, _judge(found[worst] <= bar, values))


def _judge(worst_is_good: bool, values: dict[str, float | None]) -> bool | None:
    """One bad model is enough for a no; a yes needs all of them."""
    if not worst_is_good:
        return False
    return None if None in values.values() else True


def _find_median(spread: Spread | None) -> float | None:
    return None if spread is None else spread.median
