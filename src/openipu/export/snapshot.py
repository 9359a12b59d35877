"""What is exported: a captured program with everything that a run of it needs.

In: something compiled, or a planning job with its weights. Out: a `Snapshot`, with tensors of its own on the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from openipu.capture import read_hyper_parameters
from openipu.errors import ExportError
from openipu.graph import GraphInput, InputKind, OutputKind, Program, RunOptions
from openipu.jobs import PlanningJob, capture_job, describe_job_optimizer
from openipu.run import Executable
from openipu.run.engine.micro import weigh_micro_batch

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True, eq=False, kw_only=True)
class Snapshot:
    """A program, how it is run, and the values that it holds now."""

    program: Program
    options: RunOptions
    parameters: Tensors
    buffers: Tensors
    state: Tensors = field(default_factory=dict)  # of the optimizer, by `StateSlot.key`
    hyper: Mapping[str, float] = field(default_factory=dict)  # by `HyperParameter.key`
    inputs: Tensors | None = None  # one micro-batch by the inputs' names, to check with; None: made up

    @property
    def micro_batches(self) -> int:
        """Micro-batches of one weight update."""
        return self.options.gradient_accumulation * self.options.replicas

    @property
    def share(self) -> int:
        """What the sum of their gradients is divided by."""
        return round(1 / weigh_micro_batch(self.options))

    def find_value(self, entry: GraphInput) -> torch.Tensor:
        """What the program reads from memory of its own for one of its inputs."""
        if entry.kind is InputKind.PARAMETER:
            return self.parameters[entry.name]
        if entry.kind is InputKind.BUFFER:
            return self.buffers[entry.name]
        if entry.kind is InputKind.CONSTANT:
            return self.program.constants[entry.name]
        if entry.kind is InputKind.STATE:
            return self.state[entry.name]
        return torch.tensor(self.hyper[entry.name], dtype=entry.dtype)


def snapshot_executable(executable: Executable) -> Snapshot:
    """The program of an executable, with what the device holds now."""
    program, options = executable.program, executable.options
    if options.replica_groups:
        names = ", ".join(entry.parameter for entry in options.replica_groups)
        raise ExportError(
            f"{program.name} has weights of their own for groups of replicas ({names}), which one model cannot hold. "
            "Export a program without replica grouping."
        )
    parameters = _make_empty(program, InputKind.PARAMETER)
    buffers = _make_empty(program, InputKind.BUFFER)
    executable.read_weights(parameters, buffers)
    return Snapshot(
        program=program,
        options=options,
        parameters=parameters,
        buffers=buffers,
        state=executable.state,
        hyper=executable.hyper_parameters,
    )


def snapshot_job(job: PlanningJob, *, random_weights: int | None = None) -> Snapshot:
    """The program of a planning job, with the weights of its model, or with random ones if a seed is given."""
    program = capture_job(job)
    owner = job.model if isinstance(job.model, nn.Module) else getattr(job.model, "__self__", None)
    named: dict[str, torch.Tensor] = {}
    if isinstance(owner, nn.Module):
        named = dict(owner.named_parameters(remove_duplicate=False)) | dict(owner.named_buffers(remove_duplicate=False))
    generator = None if random_weights is None else torch.Generator().manual_seed(random_weights)
    values = {
        entry.name: _find_weight(program, entry, named.get(entry.name), generator)
        for graph in _list_graphs(program)
        for entry in graph
        if entry.kind in (InputKind.PARAMETER, InputKind.BUFFER)
    }
    buffers = {entry.name for entry in program.micro.inputs_of(InputKind.BUFFER)}
    leaves = pytree.tree_leaves((job.positional, dict(job.kwargs)))
    return Snapshot(
        program=program,
        options=job.options or RunOptions(training=job.training),
        parameters={name: value for name, value in values.items() if name not in buffers},
        buffers={name: value for name, value in values.items() if name in buffers},
        state={slot.key: torch.full(slot.shape, slot.initial, dtype=slot.dtype) for slot in program.state_slots},
        hyper=_read_hyper(job),
        inputs=_take_inputs(program, leaves),
    )


def make_inputs(program: Program, seed: int) -> dict[str, torch.Tensor]:
    """Made-up values of one micro-batch: normal numbers, and whole numbers that are 0 or 1, which index anything."""
    generator = torch.Generator().manual_seed(seed)
    return {entry.name: _make_up(entry, generator) for entry in program.micro.inputs_of(InputKind.INPUT)}


def check_exportable(snapshot: Snapshot) -> None:
    """Refuse options whose effect on results a plain file could not show."""
    program, options = snapshot.program, snapshot.options
    written = [entry.name for entry in program.micro.outputs_of(OutputKind.BUFFER)]
    if program.training and options.replicas > 1 and written:
        raise ExportError(
            f"{program.name}: each of {options.replicas} replicas keeps {written[0]} of its own, which forward writes "
            "to. Export a program with one replica."
        )
    if program.training and options.instances > 1:
        raise ExportError(
            f"{program.name} shares its updates with {options.instances - 1} other processes. Export a program of one."
        )
    if options.loss_scale_control is not None:
        raise ExportError(
            f"{program.name} scales its loss automatically, which no plain file does. Export it with a fixed scale."
        )


def list_differences(options: RunOptions) -> tuple[str, ...]:
    """How a plain file computes otherwise than the options say, in words."""
    found = []
    if options.stochastic_rounding:
        found.append("half results are rounded to the nearest, not stochastically")
    if options.half_partials:
        found.append("half products are summed as the machine does it, not in half")
    if options.floating_point_exceptions:
        found.append("infinities and NaNs stop nothing")
    return tuple(found)


def _read_hyper(job: PlanningJob) -> dict[str, float]:
    spec = describe_job_optimizer(job)
    return {} if spec is None or job.optimizer is None else read_hyper_parameters(job.optimizer, spec)


def _list_graphs(program: Program) -> list[Sequence[GraphInput]]:
    return [graph.inputs for graph in (program.micro, program.update) if graph is not None]


def _make_empty(program: Program, kind: InputKind) -> dict[str, torch.Tensor]:
    entries = [entry for graph in _list_graphs(program) for entry in graph if entry.kind is kind]
    return {entry.name: torch.zeros(entry.shape, dtype=entry.dtype) for entry in entries}


def _find_weight(
    program: Program, entry: GraphInput, found: torch.Tensor | None, generator: torch.Generator | None
) -> torch.Tensor:
    if generator is not None and (found is None or found.is_meta):
        if not entry.dtype.is_floating_point:
            return torch.zeros(entry.shape, dtype=entry.dtype)
        if entry.kind is InputKind.BUFFER:  # statistics: a variance of zero or below has no root
            return torch.ones(entry.shape, dtype=entry.dtype)
        return torch.randn(entry.shape, generator=generator).mul_(0.02).to(entry.dtype)
    if found is None or found.is_meta:
        raise ExportError(
            f"{program.name} has no value for {entry.name}: its model is on the meta device. Build it without "
            "torch.device('meta'), or export it with random weights (--random-weights SEED)."
        )
    return found.detach().to(entry.dtype).clone()


def _take_inputs(program: Program, leaves: Sequence[Any]) -> Tensors | None:
    found = {}
    for entry in program.micro.inputs_of(InputKind.INPUT):
        leaf = leaves[entry.index] if 0 <= entry.index < len(leaves) else None
        if not isinstance(leaf, torch.Tensor) or leaf.is_meta or tuple(leaf.shape) != entry.shape:
            return None
        found[entry.name] = leaf.detach().to(entry.dtype).clone()
    return found


def _make_up(entry: GraphInput, generator: torch.Generator) -> torch.Tensor:
    if entry.dtype.is_floating_point:
        return torch.randn(entry.shape, generator=generator).to(entry.dtype)
    return torch.randint(0, 2, entry.shape, generator=generator).to(entry.dtype)
