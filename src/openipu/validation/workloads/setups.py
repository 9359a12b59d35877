"""How a row's model is laid out: what the row says, and what a user would choose for the rest.

In: a row, its model and its system. Out: a `Setup`. A user takes the fewest IPUs a replica that hold the model,
the largest micro-batch that fits, and makes activations again where that is what lets it fit; the plan itself says what
fits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from openipu.errors import FiguresError
from openipu.graph import Recompute
from openipu.machine import System
from openipu.models.layers import Format
from openipu.models.spec import ModelSpec
from openipu.validation.figures import FigureRow
from openipu.validation.workloads.applications import (
    DEFAULT_BATCHES,
    DEFAULT_PROPORTION,
    Application,
    find_application,
    find_global_batch,
)
from openipu.validation.workloads.programs import Measured, Setup, count_parameters, measure_setup
from openipu.validation.workloads.served import find_served

RESIDENT_SHARE = 0.6  # of an IPU's memory that weights and accumulators may take
TRAINING_PROPORTION = 0.2  # vendor's examples: 0.14 to 0.3
INFERENCE_PROPORTIONS = (0.4, 0.25, 0.15, 0.08)  # vendor's tuned settings on C600: 0.2 to 0.6
IO_TILES = 32
NEARLY = 1.1  # a tuned program may take this much more than the plan has room for: its author knows more levers
_MICRO_BATCHES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 64, 96, 128, 256, 512)
_STAGES = (1, 2, 4, 8, 16)
_SEQUENCES_PER_PACK = {128: 1.17, 384: 1.5, 512: 2.0}  # Krell et al. 2021: packing of Wikipedia, by sequence length
_CONVOLUTIONAL = ("resnet", "resnext", "efficientnet", "unet", "small network")


def count_per_pack(row: FigureRow, spec: ModelSpec) -> float:
    """Sequences that share one row of tokens."""
    known = find_served(row)
    if known is not None:
        return known.packed
    given = row.params.get("avg_seq_per_pack")
    if given is not None:
        return float(given)
    return _find_packing(spec) if "packed" in row.workload.lower() else 1.0


def follow_served(row: FigureRow, spec: ModelSpec) -> ModelSpec:
    """A model as the public benchmark of a row converts it."""
    known = find_served(row)
    if known is None:
        return spec
    chosen = {
        "fused_attention": known.fused_attention,
        "padded_attention": known.padded_attention,
        "float_parts": known.float_parts,
    }
    details: dict[str, int | str] = dict(spec.details) | {name: 1 for name, wanted in chosen.items() if wanted}
    if known.head:
        details["head"] = known.head
    return dataclasses.replace(spec, gelu=known.gelu or spec.gelu, details=tuple(sorted(details.items())))


def _find_packing(spec: ModelSpec) -> float:
    """Requests of inference are shorter than the text that pre-training fills its rows with."""
    return _SEQUENCES_PER_PACK.get(spec.length, 1.5) if spec.training else 1.5


def choose_inference(row: FigureRow, spec: ModelSpec, system: System, batch: int) -> tuple[Setup, Measured]:
    """One IPU a replica; as published, else the most memory for products with which everything fits."""
    known = find_served(row)
    if known is not None:
        told = Setup(
            batch,
            proportions=(known.proportion,),
            wide_loads=known.wide_loads,
            io_tiles=known.io_tiles,
        )
        return told, measure_setup(spec, told, system.name)
    synthetic = "synthetic" in str(row.params.get("data", ""))
    setup = Setup(max(1, batch // row.ipus), replicas=row.ipus, io_tiles=0 if synthetic else IO_TILES)
    found: tuple[Setup, Measured] | None = None
    plain = "data" in row.params  # a converter's own table, made with its defaults
    for proportion in (DEFAULT_PROPORTION,) if plain else INFERENCE_PROPORTIONS:
        tried = dataclasses.replace(setup, proportions=(proportion,))
        measured = measure_setup(spec, tried, system.name)
        if measured.fits or (not plain and _nearly_fits(measured, system)):
            return tried, measured
        if found is None or measured.peak_bytes < found[1].peak_bytes:
            found = tried, measured
    assert found is not None
    return found


def choose_training(row: FigureRow, spec: ModelSpec, system: System) -> tuple[Setup, Measured]:
    """Stages, micro-batch and accumulation: as given or published, else as a user would choose them."""
    known = find_application(row, spec)
    if known is not None:
        setup = _follow(known, row, spec)
        return setup, measure_setup(spec, setup, system.name)
    given = row.params.get("ipus_per_replica")
    smallest: tuple[Setup, Measured] | None = None
    nearly: tuple[Setup, Measured] | None = None  # on the fewest IPUs
    for stages in (int(given),) if given else _list_stage_counts(row, spec, system):
        if not _divides(row, spec, stages):
            continue
        for chosen in _list_complete(row, spec, system, _start_setup(row, spec, stages)):
            measured = measure_setup(spec, chosen, system.name)
            if measured.fits:
                return chosen, measured
            if smallest is None or measured.peak_bytes < smallest[1].peak_bytes:
                smallest = chosen, measured
        if nearly is None and smallest is not None and "grad_accum" in row.params:
            nearly = smallest if _nearly_fits(smallest[1], system) else None
    if smallest is None:
        raise FiguresError(f"Row {row.id}: no layout of {row.workload!r} over {row.ipus} IPUs comes near to fitting.")
    return nearly or smallest


def _follow(known: Application, row: FigureRow, spec: ModelSpec) -> Setup:
    """The layout of a public configuration, over as many IPUs as a row has."""
    replicas = row.ipus // known.stages
    global_batch = find_global_batch(row, spec)
    is_half = spec.form is not Format.FLOAT32 and str(row.params.get("precision", "16.16")).endswith("16")
    turns = row.params.get("grad_accum", global_batch / (replicas * known.micro_batch))
    return Setup(
        micro_batch=known.micro_batch,
        accumulation=max(1, round(float(turns))),
        replicas=replicas,
        stages=known.stages,
        layers_per_stage=known.layers_per_stage,
        parts_per_stage=known.parts_per_stage,
        proportions=known.proportions,
        half_partials=is_half,
        recompute=known.recompute,
        off_chip_state=known.off_chip_state,
        shared_state=known.shared_state,
        momentum=known.momentum,
        attention_dropout=known.attention_dropout,
    )


def _nearly_fits(measured: Measured, system: System) -> bool:
    return measured.peak_bytes <= NEARLY * system.target.usable_tile_bytes


def _divides(row: FigureRow, spec: ModelSpec, stages: int) -> bool:
    """Whether the global batch is a whole number of micro-batches of as many replicas as there would be."""
    if "grad_accum" not in row.params or "global_batch" not in row.params or "micro_batch" in row.params:
        return True
    size = _count_rows(row, spec) / row.read_number("grad_accum") / max(1, row.ipus // stages)
    return size >= 1 and abs(size - round(size)) < 0.05 * size


def _count_rows(row: FigureRow, spec: ModelSpec) -> float:
    """The global batch in rows of tokens: MLPerf counts sequences, others count packs."""
    packs = count_per_pack(row, spec) if "MLPerf" in row.workload else 1.0
    return float(row.params["global_batch"]) / packs


def _list_stage_counts(row: FigureRow, spec: ModelSpec, system: System) -> Iterator[int]:
    resident = 4 * count_parameters(spec)  # a half weight and a half accumulator
    for stages in _STAGES:
        enough = resident <= stages * RESIDENT_SHARE * system.target.memory_bytes
        if row.ipus % stages == 0 and (enough or stages == _STAGES[-1]):
            yield stages


def _start_setup(row: FigureRow, spec: ModelSpec, stages: int) -> Setup:
    """Everything but the micro-batch and the accumulation."""
    replicas = int(row.params.get("replicas", max(1, row.ipus // stages)))
    proportion = row.params.get("availableMemoryProportion", TRAINING_PROPORTION)
    layers = tuple(row.params.get("layers_per_ipu", ()))
    return Setup(
        micro_batch=1,
        replicas=replicas,
        stages=stages,
        layers_per_stage=layers,
        proportions=tuple(proportion) if isinstance(proportion, list) else (float(proportion),),
        half_partials=str(row.params.get("precision", "16.16")).endswith("16"),
        off_chip_state=stages > 1,
        momentum=spec.kind in _CONVOLUTIONAL,
    )


def _list_complete(row: FigureRow, spec: ModelSpec, system: System, setup: Setup) -> Iterator[Setup]:
    """Setups with micro-batch and accumulation, fastest kind first."""
    counted = _count_rows(row, spec) if "global_batch" in row.params else DEFAULT_BATCHES.get(spec.kind)
    accumulation = row.params.get("grad_accum")
    modes: tuple[Recompute | None, ...] = (None,) if setup.stages > 1 else (Recompute.NONE, Recompute.ALL)
    micro_batch = row.params.get("micro_batch")
    if micro_batch is None and counted is not None and accumulation is not None:
        micro_batch = max(1, round(counted / accumulation / setup.replicas))
    for mode in modes:
        kind = dataclasses.replace(setup, recompute=mode)
        if micro_batch is not None:
            size = int(micro_batch)
        else:
            most = int(counted // setup.replicas) if counted else 16
            found = _find_micro_batch(spec, kind, system, max(1, most))
            if found is None or (mode is Recompute.NONE and found < _fewest(spec, most)):
                continue
            size = found
        turns = accumulation or (max(1, round(counted / (size * setup.replicas))) if counted else 1)
        yield dataclasses.replace(kind, micro_batch=size, accumulation=int(turns))


def _fewest(spec: ModelSpec, most: int) -> int:
    """Batch norms need enough samples; below this, activations are made again instead."""
    return min(most, 16 if spec.kind in ("resnet", "resnext") else 4)


def _find_micro_batch(spec: ModelSpec, setup: Setup, system: System, most: int) -> int | None:
    """The largest micro-batch that should fit: memory grows in proportion to it, so two plans tell."""
    limit = system.target.usable_tile_bytes
    few, more = 1, min(4, most)
    accumulated = 2 if most > 1 else 1
    base = dataclasses.replace(setup, accumulation=accumulated, micro_batch=few)
    least = measure_setup(spec, base, system.name).peak_bytes
    if least > limit:
        return None
    if more == few:
        return few
    larger = measure_setup(spec, dataclasses.replace(base, micro_batch=more), system.name).peak_bytes
    slope = max(1.0, (larger - least) / (more - few))
    bound = min(most, few + int((limit - least) / slope))
    return max(size for size in _MICRO_BATCHES if size <= max(1, bound))
