"""Whether the outside of a program from a file is one that capture writes.

In: a `Program`. Out: a refusal where names repeat, where a gradient or a state belongs to nothing, or where the kinds
of inputs and outputs are not those of a captured graph.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NoReturn

import torch

from openipu.errors import ProgramFileError
from openipu.graph import Graph, GraphInput, GraphOutput, InputKind, OutputKind, Program

_MICRO_INPUTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT, InputKind.INPUT, InputKind.HYPER)
_UPDATE_INPUTS = (InputKind.PARAMETER, InputKind.GRADIENT, InputKind.STATE, InputKind.HYPER, InputKind.CONSTANT)
_INFERENCE_OUTPUTS = (
    OutputKind.OUTPUT,
    OutputKind.BUFFER,
    OutputKind.INPUT,
    OutputKind.PARAMETER,
    OutputKind.CARRIED,
)
_TRAINING_OUTPUTS = (*_INFERENCE_OUTPUTS, OutputKind.LOSS, OutputKind.GRADIENT)
_UPDATE_OUTPUTS = (OutputKind.PARAMETER, OutputKind.STATE)
_WRITTEN = {
    OutputKind.BUFFER: InputKind.BUFFER,
    OutputKind.INPUT: InputKind.INPUT,
    OutputKind.PARAMETER: InputKind.PARAMETER,
    OutputKind.CARRIED: InputKind.PARAMETER,
    OutputKind.STATE: InputKind.STATE,
}

Entry = GraphInput | GraphOutput


def check_signature(program: Program) -> None:
    """Refuse a program whose parts do not belong together."""
    micro, update = program.micro, program.update
    _check_kinds(micro, _MICRO_INPUTS, _INFERENCE_OUTPUTS if update is None else _TRAINING_OUTPUTS)
    for graph in filter(None, (micro, update)):
        for entries in (graph.inputs, graph.outputs):
            _check_unique([(entry.kind, entry.name) for entry in entries], "two inputs or results have the name {1}")
        _check_written(graph)
        _check_hyper_parameters(graph, program)
    _check_results(program)
    _check_unique([slot.key for slot in program.state_slots], "the state {0} stands there twice")
    _check_unique([entry.key for entry in program.hyper_parameters], "the hyper-parameter {0} stands there twice")
    if update is None:
        if program.state_slots or program.hyper_parameters:
            _refuse("it has optimizer state or hyper-parameters, and no update")
        return
    _check_kinds(update, _UPDATE_INPUTS, _UPDATE_OUTPUTS)
    if len(micro.outputs_of(OutputKind.LOSS)) != 1:
        _refuse("it has an update, and not one loss")
    parameters = {entry.name: entry for entry in micro.inputs_of(InputKind.PARAMETER)}
    gradients = {entry.name: entry for entry in micro.outputs_of(OutputKind.GRADIENT)}
    for name, gradient in gradients.items():
        if name not in parameters or gradient.shape != parameters[name].shape:
            _refuse(f"the gradient {name!r} belongs to no parameter of its shape")
    for entry in update.inputs_of(InputKind.GRADIENT):
        if entry.name not in gradients or entry.shape != gradients[entry.name].shape:
            _refuse(f"the update reads a gradient {entry.name!r} that micro does not return")
    for entry in update.inputs_of(InputKind.PARAMETER):
        held = parameters.get(entry.name)
        if held is not None and _form(held) != _form(entry):
            _refuse(f"the parameter {entry.name!r} has two shapes or types")
    slots = {slot.key: (slot.shape, slot.dtype) for slot in program.state_slots}
    for entry in update.inputs_of(InputKind.STATE):
        if slots.get(entry.name) != _form(entry):
            _refuse(f"the state {entry.name!r} belongs to no slot of its shape and type")


def _check_kinds(graph: Graph, inputs: Collection[InputKind], outputs: Collection[OutputKind]) -> None:
    entries: list[tuple[Entry, Collection[str]]] = [(entry, inputs) for entry in graph.inputs]
    for entry, kinds in [*entries, *[(entry, outputs) for entry in graph.outputs]]:
        if entry.kind not in kinds:
            _refuse(f"{entry.name!r} is a {entry.kind}, which this graph cannot have")


def _check_written(graph: Graph) -> None:
    forms = {(entry.kind, entry.name): _form(entry) for entry in graph.inputs}
    for entry in graph.outputs:
        if entry.kind in _WRITTEN and forms.get((_WRITTEN[entry.kind], entry.name)) != _form(entry):
            _refuse(f"a new {entry.kind} {entry.name!r} has another shape or type than the old one, or none is there")


def _check_hyper_parameters(graph: Graph, program: Program) -> None:
    known = {entry.key for entry in program.hyper_parameters}
    for entry in graph.inputs_of(InputKind.HYPER):
        if entry.name not in known or entry.shape or entry.dtype not in (torch.float32, torch.float16):
            _refuse(f"{entry.name!r} is not one of its hyper-parameters, or not one number")


def _check_results(program: Program) -> None:
    tree = program.output_tree
    device = [entry.index for entry in program.micro.outputs_of(OutputKind.OUTPUT)]
    inputs = [entry.index for entry in program.micro.inputs_of(InputKind.INPUT)]
    _check_unique(device, "result {0} is returned twice")
    _check_unique(inputs, "input {0} is taken twice")
    if sorted([*device, *tree.host_leaves]) != list(range(tree.leaves)):
        _refuse(f"its {len(device)} results do not fill the {tree.leaves} places of what forward returned")


def _form(entry: Entry) -> tuple[tuple[int, ...], torch.dtype]:
    return entry.shape, entry.dtype


def _check_unique(names: Sequence[object], problem: str) -> None:
    seen = set[object]()
    for name in names:
        if name in seen:
            _refuse(problem.format(*(name if isinstance(name, tuple) else (name,))))
        seen.add(name)


def _refuse(problem: str) -> NoReturn:
    raise ProgramFileError(f"its signature is not that of a captured program: {problem}")
