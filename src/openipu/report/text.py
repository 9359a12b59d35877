"""The summary as text for a terminal or a log.

In: a `Summary`. Out: aligned lines in human units, without colours, at most about 110 columns wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from openipu.report.profile import LineRecord
from openipu.report.summary import Summary
from openipu.report.units import (
    format_bytes,
    format_bytes_of,
    format_cycles,
    format_probability,
    format_rate,
    format_seconds,
    format_share,
    format_tile_bytes,
)

_NAME_WIDTH = 44


def render_text(summary: Summary) -> str:
    """The whole summary, ending with a newline."""
    blocks = [
        _render_head(summary),
        _render_fit(summary),
        _render_ipus(summary),
        _render_memory(summary),
        _render_timing(summary),
        _render_pipeline(summary),
        _render_slowest(summary),
        _render_guesses(summary),
        [f"Warning: {warning}" for warning in summary.warnings],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _render_head(summary: Summary) -> list[str]:
    system, target = summary.system, summary.system.target
    kind = "training" if summary.training else "inference"
    ipus = _count(summary.ipus_per_replica, "IPU")
    replicas = f", {_count(summary.replicas, 'replica')}" if summary.replicas > 1 else ""
    return [
        f"{summary.name}: {kind} on {system.name} ({target.name}, {ipus}{' each' if replicas else ''}{replicas})",
        f"All figures are modelled by openipu {summary.openipu_version} (unofficial); none was measured on an IPU.",
    ]


def _render_fit(summary: Summary) -> list[str]:
    fit = summary.fit
    peak = format_bytes_of(fit.peak_bytes, fit.limit_bytes)
    share = format_share(fit.peak_bytes / fit.limit_bytes) if fit.limit_bytes else "no limit"
    where = f"tile {fit.peak_tile} of IPU {fit.peak_ipu}, step {fit.peak_step}"
    told = f"  Probability that it fits a real IPU: {format_probability(fit.probability)}."
    if fit.fits:
        return [f"Fits: the fullest tile needs {peak} ({share}); {where}.", told]
    lines = [
        f"DOES NOT FIT: {format_bytes(fit.bytes_over)} too much on {_count(fit.tiles_over, 'tile')}.",
        f"  The fullest tile needs {peak} ({share}), {format_tile_bytes(fit.bytes_over_worst_tile)} over; {where}.",
        told,
    ]
    if summary.culprits:
        lines.append("  What fills it:")
        rows = [
            (
                format_tile_bytes(culprit.bytes_on_tile),
                _shorten(culprit.name),
                culprit.kind,
                _shorten(culprit.module or "-"),
                _shorten_line(culprit.line),
            )
            for culprit in summary.culprits
        ]
        lines += _align(("on tile", "tensor", "kind", "module", "line"), rows, ">", indent=4)
    return lines


def _render_ipus(summary: Summary) -> list[str]:
    """The verdict on each IPU, where there are several."""
    if len(summary.ipus) < 2:
        return []
    limit = summary.fit.limit_bytes
    stages = {load.ipu: load.stages for load in summary.pipeline.ipus} if summary.pipeline else {}
    rows = [
        (
            str(entry.ipu),
            ", ".join(map(str, stages.get(entry.ipu, ()))) or "-",
            format_tile_bytes(entry.peak_bytes),
            format_share(entry.peak_bytes / limit) if limit else "no limit",
            str(entry.peak_tile),
            format_bytes(entry.needed_bytes),
            "fits" if entry.fits else f"{format_bytes(entry.bytes_over)} over on {_count(entry.tiles_over, 'tile')}",
        )
        for entry in summary.ipus
    ]
    header = ("IPU", "stages", "fullest tile", "of limit", "tile", "all tiles*", "verdict")
    return ["Memory of each IPU", *_align(header, rows, "><>>>><")]


def _render_pipeline(summary: Summary) -> list[str]:
    pipeline = summary.pipeline
    if pipeline is None:
        return []
    clock_hz = summary.timing.clock_hz
    ticks = f"{_count(pipeline.ticks, 'tick')} ({pipeline.fill_ticks} fill, {pipeline.steady_ticks} steady, "
    rows = [
        (
            str(entry.number),
            str(entry.record.ipu),
            entry.passes,
            f"{format_cycles(entry.record.cycles)} cycles",
            format_seconds(entry.record.cycles / clock_hz),
            format_share(entry.share),
        )
        for entry in pipeline.stages
    ]
    idle = ", ".join(f"IPU {load.ipu} {format_share(load.bubble_share)}" for load in pipeline.ipus)
    return [
        f"Pipeline: {_count(pipeline.stage_count, 'stage')} on {_count(len(pipeline.ipus), 'IPU')}, "
        f"{_count(pipeline.micro_batches, 'micro-batch', 'micro-batches')} in {ticks}{pipeline.drain_ticks} drain)",
        f"  bubbles: {format_share(pipeline.bubble_share)} of the IPUs' time ({idle})",
        f"  {pipeline.finding}",
        *_align(("stage", "IPU", "pass", "one micro-batch", "", "of all"), rows, ">><>>>"),
    ]


def _render_memory(summary: Summary) -> list[str]:
    rows = [
        (part.name, format_tile_bytes(part.fullest_tile_bytes), format_bytes(part.all_tiles_bytes))
        for part in summary.memory
        if part.all_tiles_bytes
    ]
    total = sum(part.fullest_tile_bytes for part in summary.memory)
    rows.append(("total at the peak", format_tile_bytes(total), format_bytes(summary.fit.needed_bytes) + "*"))
    return [
        "Memory",
        *_align(("", "fullest tile", "all tiles"), rows, "<>>"),
        "  * each tile at its own worst step",
    ]


def _render_timing(summary: Summary) -> list[str]:
    timing = summary.timing
    entries = [("micro-batch" if summary.pipeline is None else "micro-batch (steady tick)", timing.micro_cycles)]
    if summary.training:
        entries.append(("weight update", timing.update_cycles))
    entries.append(("call", timing.call_cycles))
    rows = [
        (name, f"{format_cycles(cycles)} cycles", format_seconds(cycles / timing.clock_hz)) for name, cycles in entries
    ]
    shares = ", ".join(f"{entry.name} {format_share(entry.share)}" for entry in summary.kinds)
    rate = format_rate(timing.samples_per_second)
    replicas = f" on {summary.replicas} replicas" if summary.replicas > 1 else ""
    whole = "a call is" if summary.ipus_per_replica == 1 else "the IPUs are busy with"
    return [
        f"Time at {timing.clock_hz / 1e9:.3g} GHz",
        *_align(("", "", ""), rows, "<>>")[1:],
        f"  throughput: {rate} samples/s{replicas} ({_count(timing.samples_per_call, 'sample')} a call)",
        f"  {whole} {shares}" if shares else "  a call does nothing",
    ]


def _render_slowest(summary: Summary) -> list[str]:
    if not summary.slowest:
        return []
    clock_hz = summary.timing.clock_hz
    rows = [
        (
            format_share(entry.share),
            format_seconds(entry.call_cycles / clock_hz),
            "-" if entry.peak_share is None else format_share(entry.peak_share),
            entry.op.op.removeprefix("aten.").removesuffix(".default"),
            entry.op.phase,
            _shorten(entry.op.module or "-"),
            _shorten_line(entry.op.line),
        )
        for entry in summary.slowest
    ]
    header = ("of call", "time", "of peak", "op", "phase", "module", "line")
    return ["Slowest ops", *_align(header, rows, ">>><<<<")]


def _render_guesses(summary: Summary) -> list[str]:
    share = format_share(summary.guessed_share)
    cycles = "the cycles of a call" if summary.ipus_per_replica == 1 else "the IPUs' busy cycles"
    lines = [f"{share} of {cycles} rest on guesses."]
    if summary.guesses:
        named = ", ".join(f"{guess.op} (x{guess.count})" for guess in summary.guesses)
        lines.append(f"  Ops whose cost is a guess: {named}")
    if summary.guessed_figures:
        lines.append(f"  Guessed figures of the machine: {', '.join(summary.guessed_figures)}")
    return lines


def _align(header: Sequence[str], rows: Iterable[Sequence[str]], sides: str, indent: int = 2) -> list[str]:
    """Columns under their headings; `sides` says for each column which side is flush ("<" where it says nothing)."""
    table = [header, *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(header))]
    sides = sides.ljust(len(header), "<")
    lines = []
    for row in table:
        cells = [f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)]
        lines.append((" " * indent + "  ".join(cells)).rstrip())
    return lines


def _count(number: int, noun: str, nouns: str = "") -> str:
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def _shorten(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else "…" + name[1 - _NAME_WIDTH :]


def _shorten_line(line: LineRecord | None) -> str:
    return "-" if line is None else f"{PurePath(line.file).name}:{line.line}"
