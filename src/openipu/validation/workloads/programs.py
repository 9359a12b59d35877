"""Captured programs of whole models, and their plans.

In: a `ModelSpec`, a `Setup` and a system. Out: a `Plan`. Programs are captured once for each model and micro-batch,
plans are made once for each setup: many rows ask for the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import torch

from openipu.capture import capture_program, describe_optimizer
from openipu.graph import Program, Recompute, RunOptions, TensorLocation, TensorRole
from openipu.machine import System, resolve_system
from openipu.models.builders import build_model
from openipu.models.spec import ModelSpec
from openipu.plan import Plan, plan_program
from openipu.validation.workloads.stages import (
    find_end_of_chain,
    list_units,
    mark_checkpoints,
    place_on_stages,
    return_to_start,
    split_by_cost,
    split_by_layers,
    split_by_parts,
    weigh_memory,
    weigh_units,
)

WIDE_LOAD_BYTES = 16  # a cycle: Poplibs' option "use128BitConvUnitLoad"


@dataclass(frozen=True, slots=True)
class Setup:
    """How a model is laid out and run."""

    micro_batch: int
    accumulation: int = 1
    replicas: int = 1
    stages: int = 1
    layers_per_stage: tuple[int, ...] = ()  # empty: stages of equal cost
    parts_per_stage: tuple[tuple[int, int], ...] = ()  # attention and feed-forward parts, where layers are cut in two
    proportions: tuple[float, ...] = (0.6,)  # memory that products may take: one for all, or one a stage
    half_partials: bool = True
    recompute: Recompute | None = None
    off_chip_state: bool = False  # optimizer state is kept in streaming memory, one share per replica
    shared_state: bool = False  # the same on chip
    wide_loads: bool = False  # coefficients of the AMP units come by 128 bits
    io_tiles: int = 0  # above zero: host streams run beside the computation
    momentum: bool = False  # SGD with momentum instead of Adam
    attention_dropout: bool = True  # whether weights of attention are dropped where anything is


@dataclass(frozen=True, slots=True)
class Measured:
    """What a row can ask of a plan."""

    samples_per_second: float
    call_seconds: float
    compute_seconds: float  # of one micro-batch, without host streams
    fits: bool
    fit_probability: float
    peak_bytes: int
    host_bytes: int
    guessed_share: float
    terms: tuple[tuple[str, float], ...]  # seconds of one micro-batch by kind of step


@lru_cache(maxsize=4)
def capture_model(spec: ModelSpec, micro_batch: int, momentum: bool) -> Program:
    """The program of one micro-batch. A few are kept: rows of one model follow each other."""
    model, inputs = build_model(spec, micro_batch)
    optimizer = None
    if spec.training:
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        chosen: torch.optim.Optimizer
        chosen = torch.optim.SGD(parameters, lr=0.1, momentum=0.9) if momentum else torch.optim.AdamW(parameters)
        optimizer = describe_optimizer(chosen, {id(value): name for name, value in model.named_parameters()})
    name = f"{spec.kind} {spec.size}".strip()
    program = capture_program(model, inputs, {}, training=spec.training, optimizer=optimizer, name=name)
    mark_checkpoints(program)
    return program


@lru_cache(maxsize=256)
def count_parameters(spec: ModelSpec) -> int:
    """Weights of a model."""
    model, _ = build_model(spec, 1)
    return sum(parameter.numel() for parameter in model.parameters())


def make_options(spec: ModelSpec, setup: Setup) -> RunOptions:
    """The run options of a setup."""
    place = TensorLocation(on_chip=not setup.off_chip_state, replicated_sharding=setup.replicas > 1)
    by_stage = tuple(enumerate(setup.proportions)) if len(setup.proportions) > 1 else ()
    return RunOptions(
        training=spec.training,
        gradient_accumulation=setup.accumulation if spec.training else 1,
        replicas=setup.replicas,
        half_partials=setup.half_partials,
        available_memory_proportion=setup.proportions[0],
        memory_proportions=by_stage,
        recompute=setup.recompute,
        io_tiles=setup.io_tiles,
        overlapped_io=setup.io_tiles > 0,
        locations=((TensorRole.OPTIMIZER, place),) if setup.off_chip_state or setup.shared_state else (),
    )


def plan_setup(spec: ModelSpec, setup: Setup, system: System) -> Plan:
    """Plan a model as a setup says."""
    if setup.wide_loads:
        system = replace(system, target=replace(system.target, amp_coefficient_load_bytes_per_cycle=WIDE_LOAD_BYTES))
    if not setup.attention_dropout:
        spec = replace(spec, details=(*spec.details, ("attention_dropout", 0)))
    program = capture_model(spec, setup.micro_batch, setup.momentum)
    if setup.parts_per_stage:
        halves = list_units(program, halves=True)
        stages = split_by_parts(halves, setup.parts_per_stage)
        return plan_program(
            place_on_stages(program, halves, stages, setup.stages, halves=True), system, make_options(spec, setup)
        )
    units = list_units(program)
    stages = [0] * len(units)
    if setup.stages > 1:
        if setup.layers_per_stage:
            stages = split_by_layers(units, setup.layers_per_stage)
        elif spec.ties_ends:
            stages = _balance_ends(weigh_memory(program, units), units, setup.stages)
        else:
            place_on_stages(program, units, stages)
            alone = plan_program(program, system, make_options(spec, Setup(setup.micro_batch)))
            stages = split_by_cost(weigh_units(alone, program, units), setup.stages)
        if spec.ties_ends:
            stages = return_to_start(units, stages)
    return plan_program(place_on_stages(program, units, stages, setup.stages), system, make_options(spec, setup))


def _balance_ends(weights: list[float], units: list[str], count: int) -> list[int]:
    """Stages of equal weight where the first IPU carries both ends of the model."""
    end = find_end_of_chain(units)
    stages = split_by_cost(weights[:end], count, sum(weights[end:]))
    return stages + [max(stages)] * (len(units) - end)


@lru_cache(maxsize=4096)
def measure_setup(spec: ModelSpec, setup: Setup, system_name: str) -> Measured:
    """The figures of a plan."""
    system = resolve_system(system_name)
    plan = plan_setup(spec, setup, system)
    timing = plan.timing
    seconds: dict[str, float] = {}
    for step in plan.steps:
        if not step.per_call:
            seconds[step.kind] = seconds.get(step.kind, 0.0) + step.cycles / timing.clock_hz
    compute = timing.micro_cycles - timing.host_cycles if plan.pipeline is None else timing.micro_cycles
    return Measured(
        samples_per_second=timing.samples_per_second / plan.micro_batch * setup.micro_batch,
        call_seconds=timing.call_seconds,
        compute_seconds=compute / timing.clock_hz,
        fits=plan.fit.fits,
        fit_probability=plan.fit.probability,
        peak_bytes=plan.fit.peak_bytes,
        host_bytes=sum(step.moved_bytes for step in plan.steps if step.kind == "host" and step.op is None),
        guessed_share=timing.guessed_cycles / timing.call_cycles if timing.call_cycles else 0.0,
        terms=tuple(sorted(seconds.items())),
    )
