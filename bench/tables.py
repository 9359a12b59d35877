"""The tables of the benchmark.

In: `Figures`. Out: `Table`s of plain text, which the terminal and the documentation show alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from bench.aims import divide_background, list_aims
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
from bench.ratios import Spread, find_geometric_mean, measure_growth, summarize
from bench.sections.flatness import SETTLED_AFTER
from bench.sections.generation import PLAIN
from bench.sections.planning import LAYERS

MISSING = "–"
MIB = 2**20


@dataclass(frozen=True)
class Table:
    """Rows of text. The first column is words, the others are figures."""

    name: str
    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)


def make_tables(figures: Figures) -> list[Table]:
    """Every table that has rows."""
    tables = [
        make_speed_table(figures, "training", "Training, float32", "training-float32-1"),
        make_speed_table(figures, "inference", "Inference, float32", "inference-float32-1"),
        make_latency_table(figures),
        make_generation_table(figures),
        make_speed_table(
            figures,
            "accumulation",
            f"Training, float32, accumulation {ACCUMULATION_STEPS} at micro-batch 1",
            f"training-float32-{ACCUMULATION_STEPS}",
        ),
        make_half_table(figures, "half-training", "Training, half", "training-half-1"),
        make_half_table(figures, "half-inference", "Inference, half", "inference-half-1"),
        make_first_step_table(figures),
        make_memory_table(figures),
        make_background_table(figures),
        make_flatness_table(figures),
        make_planning_table(figures),
        make_loading_table(figures),
        make_aims_table(figures),
    ]
    return [drop_empty_columns(table) for table in tables if table.rows]


def drop_empty_columns(table: Table) -> Table:
    """Without the columns of what was not asked for."""
    kept = [index for index in range(len(table.headings)) if any(row[index] not in ("", MISSING) for row in table.rows)]
    headings = tuple(table.headings[index] for index in kept)
    return replace(table, headings=headings, rows=[tuple(row[index] for index in kept) for row in table.rows])


def make_speed_table(figures: Figures, name: str, title: str, variant: str) -> Table:
    """Speed over eager of every way, and of openipu over the others."""
    ways = (COMPILE, ONNX_RUNTIME, OPENIPU)
    rivals = (COMPILE, ONNX_RUNTIME)
    limited = variant.endswith("float32-1")
    headings = ("model", "eager ms", *(way.name for way in ways), *(f"openipu over {way.name}" for way in rivals))
    table = Table(name, f"{title}: speed over eager", headings + (("share of the limit",) if limited else ()))
    columns: list[list[float | None]] = [[] for _ in range(len(ways) + len(rivals))]
    for model in figures.list_models(variant):
        cell = Cell.parse(f"{model}-{variant}")
        speeds = [figures.find_speed(cell, way.name, EAGER.name) for way in ways]
        speeds += [figures.find_own_speed(cell, way.name) for way in rivals]
        for column, speed in zip(columns, speeds, strict=True):
            column.append(None if speed is None else speed.median)
        texts = [show_speed(speed) for speed in speeds]
        for index, way in enumerate(ways):
            if figures.find_error(cell, way.name):
                texts[index] = "failed"
        row = (MODELS[model].title, show_milliseconds(figures.find_seconds(cell, EAGER.name)), *texts)
        share = figures.find_limit_share(cell, OPENIPU.name)
        table.rows.append(row + (((f"{share.median:.0%}" if share else MISSING),) if limited else ()))
    if len(table.rows) > 1:
        means = [find_geometric_mean(column) for column in columns]
        texts = [MISSING if mean is None else f"{mean:.2f}x" for mean in means]
        table.rows.append(("geometric mean", "", *texts, *(("",) if limited else ())))
    return table


def make_latency_table(figures: Figures) -> Table:
    """One request after another, a sample each: how long most of them take, and how long one in a hundred."""
    ways = (EAGER, COMPILE, ONNX_RUNTIME, OPENIPU)
    columns = [f"{way.name} {part} ms" for way in ways for part in ("median", "99 %")]
    table = Table("latency", "A single request of inference, float32, one sample", ("model", *columns))
    for model, entry in MODELS.items():
        found = [figures.find_latency(model, way.name) for way in ways]
        if any(pair is not None for pair in found):
            texts = [
                MISSING if pair is None else f"{1e3 * value:,.3f}" for pair in found for value in (pair or (0.0, 0.0))
            ]
            table.rows.append((entry.title, *texts))
    return table


def make_generation_table(figures: Figures) -> Table:
    """Greedy generation and beam search against plain Transformers."""
    headings = ("model", "way", "ms a call", "over Transformers")
    table = Table("generation", "Generation with GPT-2: a prompt of 16 tokens, 49 new ones, one sequence", headings)
    for size, result in figures.store.read("generation").items():
        plain = result["ways"].get(PLAIN, {}).get("seconds")
        for way, entry in result["ways"].items():
            seconds = entry.get("seconds")
            if seconds is not None:
                speed = MISSING if way == PLAIN else show_speed(compare_seconds(plain, seconds))
                table.rows.append((size, way, show_milliseconds(summarize(seconds)), speed))
    return table


def make_half_table(figures: Figures, name: str, title: str, variant: str) -> Table:
    """Half against eager half, and against our own float32."""
    headings = ("model", "eager half ms", "openipu", "openipu ms", "time over own float32")
    table = Table(name, f"{title}: speed over eager half", headings)
    for model in figures.list_models(variant):
        cell = Cell.parse(f"{model}-{variant}")
        table.rows.append(
            (
                MODELS[model].title,
                show_milliseconds(figures.find_seconds(cell, EAGER.name)),
                show_speed(figures.find_own_speed(cell, EAGER.name)),
                show_milliseconds(figures.find_seconds(cell, OPENIPU.name)),
                show_speed(figures.find_speed(cell, OPENIPU_FLOAT32.name, OPENIPU.name)),
            )
        )
    return table


def make_first_step_table(figures: Figures) -> Table:
    """Seconds to the first result, cold and warm."""
    headings = ("model", "way", "imports s", "cold s", "warm s", "warm, beyond a step s", "steady step s")
    table = Table("first-step", "First training step in a fresh process", headings)
    for model, entry in MODELS.items():
        for way in (EAGER, COMPILE, OPENIPU):
            if figures.find_first_step(model, way.name, "cold") is None:
                continue
            readings = (
                ("warm", "import_seconds"),
                ("cold", "result_seconds"),
                ("warm", "result_seconds"),
                ("warm", "own_seconds"),
                ("warm", "steady_seconds"),
            )
            found = [figures.find_first_step(model, way.name, start, name) for start, name in readings]
            texts = (MISSING if value is None else f"{value:.2f}" for value in found)
            table.rows.append((entry.title, way.name, *texts))
    return table


def make_memory_table(figures: Figures) -> Table:
    """Peak memory of training steps."""
    ways = (COMPILE, OPENIPU)
    headings = ("model", "eager MiB", *(way.name for way in ways))
    table = Table("memory", "Peak memory of a float32 training step, over eager's", headings)
    for model in figures.list_models("training-float32-1"):
        cell = Cell(model)
        eager = figures.find_memory(cell, EAGER.name)
        ratios = [figures.find_memory_ratio(cell, way.name, EAGER.name) for way in ways]
        texts = (MISSING if ratio is None else f"{ratio:.2f}x" for ratio in ratios)
        table.rows.append((MODELS[model].title, MISSING if eager is None else f"{eager / MIB:,.0f}", *texts))
    return table


def make_background_table(figures: Figures) -> Table:
    """Steps before, during and after a compilation in the background."""
    headings = ("model", "before ms", "during ms", "longest ms", "after ms", "during over before", "compiled in s")
    table = Table("background", "Training beside a compilation in the background, 2 threads on 2 cores", headings)
    for model, result in figures.store.read("background").items():
        if "error" in result:
            continue
        seconds = [result.get(f"{name}_seconds") for name in ("before", "during", "longest", "after")]
        times = [MISSING if value is None else f"{1e3 * value:,.2f}" for value in seconds]
        ratio = divide_background(result, "during")
        compiled = f"{result['compile_seconds']:,.0f}" if result["compile_seconds"] else MISSING
        table.rows.append((MODELS[model].title, *times, MISSING if ratio is None else f"{ratio:.2f}x", compiled))
    return table


def make_flatness_table(figures: Figures) -> Table:
    """Memory over thousands of steps."""
    table = Table(
        "flatness", "Memory of the CNN over 2,000 steps", ("way", "at step 500 MiB", "at step 2,000 MiB", "B a step")
    )
    for way, result in figures.store.read("flatness").items():
        if "error" in result:
            continue
        sizes = dict(zip(result["steps"], result["resident_bytes"], strict=True))
        growth = measure_growth(result["steps"], result["resident_bytes"], SETTLED_AFTER)
        ends = (sizes[SETTLED_AFTER], sizes[max(sizes)])
        table.rows.append((way, *(f"{size / MIB:,.1f}" for size in ends), f"{growth:,.0f}"))
    return table


def make_planning_table(figures: Figures) -> Table:
    """Capture and planning against the number of layers."""
    headings = ("BERT layers", "seconds", "seconds a layer")
    table = Table("planning", "Capturing and planning a training step", headings)
    for layers in LAYERS:
        seconds = figures.find_planning(layers)
        if seconds is not None:
            table.rows.append((str(layers), f"{seconds.median:.2f}", f"{seconds.median / layers:.3f}"))
    return table


def make_loading_table(figures: Figures) -> Table:
    """Samples a second from a loader."""
    headings = ("work", "way", "samples a second", "over PyTorch's loader, eager")
    table = Table("loading", "Data loading with two processes, MNIST CNN", headings)
    for work, result in figures.store.read("loading").items():
        eager = result["ways"].get(EAGER.name, {}).get("seconds")
        for way, entry in result["ways"].items():
            rates = [result["batch"] / value for value in entry.get("seconds", ()) if value is not None]
            if rates:
                median = sorted(rates)[len(rates) // 2]
                speed = show_speed(compare_seconds(eager, entry["seconds"]))
                table.rows.append((work, way, f"{median:,.0f}", speed))
    return table


def make_aims_table(figures: Figures) -> Table:
    """What openipu wants to reach."""
    words = {True: "yes", False: "no", None: "not all measured"}
    rows: list[tuple[str, ...]] = [(aim.text, aim.bar, aim.measured, words[aim.reached]) for aim in list_aims(figures)]
    measured = any(row[2] != "not measured" for row in rows)
    return Table("aims", "Aims", ("aim", "bar", "measured", "reached"), rows if measured else [])


def list_failures(figures: Figures) -> Iterator[str]:
    """One line for each way that could not be measured."""
    for section, results in figures.store.values.items():
        if not isinstance(results, dict):
            continue
        for key, result in results.items():
            if not isinstance(result, dict):
                continue
            if "error" in result:
                yield f"{section}, {key}: {result['error']}"
            for way, entry in result.get("ways", {}).items():
                if "error" in entry:
                    yield f"{section}, {key}, {way}: {entry['error']}"


def show_speed(speed: Spread | None) -> str:
    """A median with its quartiles, such as `1.43x (1.38–1.47)`."""
    if speed is None:
        return MISSING
    return f"{speed.median:.2f}x ({speed.lower:.2f}–{speed.upper:.2f})"


def show_milliseconds(seconds: Spread | None) -> str:
    """Milliseconds with about three digits."""
    if seconds is None:
        return MISSING
    milliseconds = seconds.median * 1e3
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.2f}"
