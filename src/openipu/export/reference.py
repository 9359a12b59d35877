"""What openipu itself computes for a snapshot: the results that exported files are held against.

In: a `Snapshot` and inputs. Out: results by name: of the executable, over several steps, and of the captured graphs,
where results are wanted that a run keeps on the device (gradients, new weights), or random numbers must be the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from openipu.export.snapshot import Snapshot, make_inputs
from openipu.graph import EngineMode, Graph, GraphCall, InputKind, OutputKind, OutputMode, RunOptions
from openipu.run import Executable

STEPS = 3  # weight updates that are compared
SEED = 0

Tensors = dict[str, torch.Tensor]


def choose_steps(snapshot: Snapshot) -> list[Tensors]:
    """The inputs of each step: one micro-batch for inference, as many as an update takes for training."""
    if not snapshot.program.training:
        return [_choose(snapshot, 0)]
    count = snapshot.micro_batches
    steps = []
    for step in range(STEPS):
        parts = [_choose(snapshot, step * count + index) for index in range(count)]
        steps.append({name: _join([part[name] for part in parts]) for name in parts[0]} if parts[0] else {})
    return steps


def run_executable(snapshot: Snapshot, steps: Sequence[Tensors]) -> list[Tensors]:
    """The outputs of each step, as a run of the program gives them, micro-batches one after the other."""
    program = snapshot.program
    options = RunOptions(
        training=program.training,
        gradient_accumulation=snapshot.options.gradient_accumulation,
        replicas=snapshot.options.replicas if program.training else 1,
        reduction=snapshot.options.reduction,
        replica_reduction=snapshot.options.replica_reduction,
        output_mode=OutputMode.ALL,
        engine=EngineMode.OPERATORS,
    )
    executable = Executable(program, options)
    executable.load_weights(snapshot.parameters, snapshot.buffers)
    if program.training:
        executable.load_state(snapshot.state)
    if snapshot.hyper:
        executable.set_hyper_parameters(snapshot.hyper)
    entries = program.micro.inputs_of(InputKind.INPUT)
    found = []
    for step in steps:
        leaves: list[torch.Tensor | None] = [None] * (max((entry.index for entry in entries), default=-1) + 1)
        for entry in entries:
            leaves[entry.index] = step[entry.name].clone()
        outputs = executable.run(leaves).outputs
        names = {entry.index: entry.name for entry in program.micro.outputs_of(OutputKind.OUTPUT)}
        found.append({name: outputs[index].clone() for index, name in names.items()})
    return found


def run_graphs(snapshot: Snapshot, steps: Sequence[Tensors]) -> tuple[list[Tensors], Snapshot]:
    """The same by the captured graphs, with PyTorch's own random numbers, and what is held afterwards."""
    torch.manual_seed(SEED)
    outputs = []
    for step in steps:
        results, snapshot = _run_step(snapshot, step)
        outputs.append(results)
    return outputs, snapshot


@torch.no_grad()
def run_graph(snapshot: Snapshot, graph: Graph, given: Mapping[str, torch.Tensor]) -> dict[OutputKind, Tensors]:
    """One graph, on given inputs and gradients by name: results by kind and name."""
    arguments = [
        given[entry.name].clone() if entry.kind in (InputKind.INPUT, InputKind.GRADIENT) else snapshot.find_value(entry)
        for entry in graph.inputs
    ]
    found: dict[OutputKind, Tensors] = {kind: {} for kind in OutputKind}
    for value, entry in zip(graph.module(*arguments), graph.outputs, strict=True):
        found[entry.kind][entry.name] = value.clone()
    return found


def draws_random_numbers(snapshot: Snapshot) -> bool:
    """Does a result depend on chance?"""
    for node in snapshot.program.micro.module.graph.nodes:
        if isinstance(node.target, GraphCall):
            if node.target.random:
                return True
        elif isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags:
            return True
    return False


def _run_step(snapshot: Snapshot, step: Tensors) -> tuple[Tensors, Snapshot]:
    program, count = snapshot.program, snapshot.micro_batches if snapshot.program.training else 1
    totals: Tensors = {}
    carried: Tensors = {}
    outputs: dict[str, list[torch.Tensor]] = {}
    for index in range(count):
        part = {name: value.chunk(count)[index] if value.dim() else value for name, value in step.items()}
        found = run_graph(snapshot, program.micro, part)
        for name, value in found[OutputKind.OUTPUT].items():
            outputs.setdefault(name, []).append(value)
        for name, value in found[OutputKind.GRADIENT].items():
            totals[name] = totals[name] + value if name in totals else value
        carried = found[OutputKind.CARRIED]
        snapshot = replace(
            snapshot,
            buffers={**snapshot.buffers, **found[OutputKind.BUFFER]},
            parameters={**snapshot.parameters, **found[OutputKind.PARAMETER]},
        )
    snapshot = replace(snapshot, parameters={**snapshot.parameters, **carried})
    if program.update is not None:
        if snapshot.share > 1:
            totals = {name: value / snapshot.share for name, value in totals.items()}
        found = run_graph(snapshot, program.update, totals)
        snapshot = replace(
            snapshot,
            parameters={**snapshot.parameters, **found[OutputKind.PARAMETER]},
            state={**snapshot.state, **found[OutputKind.STATE]},
        )
    return {name: _join(values) for name, values in outputs.items()}, snapshot


def _choose(snapshot: Snapshot, number: int) -> Tensors:
    """The user's own data for the first micro-batch; made-up numbers for others."""
    if snapshot.inputs is not None and number == 0:
        return {name: value.clone() for name, value in snapshot.inputs.items()}
    made = make_inputs(snapshot.program, number)
    if snapshot.inputs is None:
        return made
    # Whole numbers, such as classes, may mean something: they stay the user's.
    return {
        name: made[name] if value.dtype.is_floating_point else value.clone() for name, value in snapshot.inputs.items()
    }


def _join(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    if len(parts) == 1:
        return parts[0]
    return torch.cat(list(parts)) if parts[0].dim() else torch.stack(list(parts))
