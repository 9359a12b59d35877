"""A TensorFlow graph as a captured `Program`: a plain computation, or a training step that is cut at its gradients.

In: a graph as its reader delivers it, with handles of variables. Out: a `StepProgram`: the program, and how each
variable is held in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from openipu.capture import capture_program, join_step
from openipu.errors import TranslationError
from openipu.graph import OWNERLESS, Phase, Program, StateSlot
from openipu.translate.foreign import ForeignGraph, ForeignNode, TensorType
from openipu.translate.rules import Table
from openipu.translate.splitting import Entangled, Part, find_dependents, list_read, split_step, take_needed
from openipu.translate.tensorflow.fusing import fuse_ops
from openipu.translate.tensorflow.inlining import write_out_calls
from openipu.translate.tensorflow.module import ValueModule
from openipu.translate.tensorflow.table import TABLE
from openipu.translate.tensorflow.variables import ValueGraph, use_values

GRADIENT_MARK = "_ipu_gradient_of"  # attribute of a node whose result is the gradient of a variable
_KEYED = "Random"  # ops that TensorFlow gives a seed as an input


@dataclass(frozen=True, eq=False, kw_only=True)
class StepGraph:
    """What a reader delivers: `graph.outputs` are the results."""

    graph: ForeignGraph
    handles: Mapping[str, str]  # tensors that are handles -> the variable
    variables: Mapping[str, TensorType]
    gradients: Mapping[str, str] = field(default_factory=dict)  # variable -> the tensor that is its gradient
    marks: Mapping[str, str] = field(default_factory=dict)  # what marked nodes call a variable -> the variable
    constants: Mapping[str, torch.Tensor] = field(default_factory=dict)  # inputs whose values are known
    carried: Mapping[str, str] = field(default_factory=dict)  # an input -> what it is in the next pass


@dataclass(frozen=True, eq=False)
class StepProgram:
    """A program, and where it holds each variable. `entangled` says why a training step was not cut."""

    program: Program
    parameters: tuple[str, ...]
    buffers: tuple[str, ...]
    states: Mapping[str, str]  # variable -> key of the optimizer state that it is
    written: tuple[str, ...]  # variables that a run changes
    entangled: str = ""


def capture_step(
    step: StepGraph, *, name: str, table: Table = TABLE, must_cut: bool = False, cuts: bool = True
) -> StepProgram:
    """Capture a step. With gradients it is cut, unless it cannot be, or is not to be: then it is one program that runs
    and updates."""
    lowered = _drop_seeds(use_values(write_out_calls(step.graph), step.handles))
    graph = lowered.graph
    gradients = {**lowered.applied, **_find_marked(graph, step.marks), **step.gradients}
    variables = dict(step.variables)
    written = dict(lowered.written)
    for entry, left in step.carried.items():
        variables[entry] = graph.inputs[entry]
        written[entry] = left
    inputs = {key: kind for key, kind in graph.inputs.items() if key not in step.constants and key not in variables}
    graph = dataclasses.replace(graph, inputs=inputs)
    reason = ""
    gradients = {key: value for key, value in gradients.items() if key in written}
    graph = fuse_ops(graph, [*graph.outputs, *written.values(), *gradients.values()])
    if gradients and cuts:
        split = split_step(graph, graph.outputs, written, gradients, variables, step.carried)
        if not isinstance(split, Entangled):
            return _capture_parts(step, graph, split.micro, split.update, gradients, variables, name, table)
        reason = split.reason
        if must_cut:
            raise TranslationError(
                f"{name}: its gradients cannot be accumulated, over micro-batches or replicas: {reason}. Compute "
                "what the update needs from gradients and variables alone."
            )
    ends = [*graph.outputs, *written.values()]
    nodes = take_needed(graph, ends, acting=True)
    read = list_read(nodes, ends, variables)
    held = {key: variables[key] for key in dict.fromkeys([*read, *written])}
    part = dataclasses.replace(graph, nodes=nodes)
    module = ValueModule(part, table, variables=held, wanted=graph.outputs, written=written, constants=step.constants)
    program = _capture(module, inputs, name)
    return StepProgram(program, tuple(module._parameters), tuple(module._buffers), {}, tuple(written), reason)


def _find_marked(graph: ForeignGraph, marks: Mapping[str, str]) -> dict[str, str]:
    """Gradients that nodes are marked as: variable -> tensor."""
    found: dict[str, str] = {}
    for node in graph.nodes:
        mark = node.attributes.get(GRADIENT_MARK)
        if mark is not None and mark in marks:
            found[marks[mark]] = node.outputs[0]
    return found


def _drop_seeds(lowered: ValueGraph) -> ValueGraph:
    """Numbers of a seed that the step itself counts on, as Keras' generators do, come from a generator with a seed of
    its own: such seeds are not read. Numbers of other seeds follow from them."""
    counted = find_dependents(lowered.graph, lowered.written)
    nodes = [_drop_seed(node, counted) for node in lowered.graph.nodes]
    return dataclasses.replace(lowered, graph=dataclasses.replace(lowered.graph, nodes=tuple(nodes)))


def _drop_seed(node: ForeignNode, counted: set[str]) -> ForeignNode:
    if _KEYED not in node.op or not node.op.startswith("Stateless"):
        return node
    if not any(name in counted for name in node.inputs):
        return node
    kept = range(len(node.inputs))[-2:] if "UniformInt" in node.op else ()
    names = tuple(name if place == 0 or place in kept else "" for place, name in enumerate(node.inputs))
    return dataclasses.replace(node, inputs=names if "Get" not in node.op else ("",) * len(node.inputs))


def _capture(module: ValueModule, inputs: Mapping[str, TensorType], name: str) -> Program:
    given = tuple(_make_example(kind, key, name) for key, kind in inputs.items())
    return capture_program(module, given, {}, training=False, optimizer=None, name=name)


def _make_example(kind: TensorType, key: str, name: str) -> torch.Tensor:
    if kind.fixed_shape is None:
        raise TranslationError(
            f"{name}: the shape of {key!r} is {kind.shape}, and on an IPU every size is known when a program is "
            "compiled. Give it a fixed shape; for a dataset, batch(…, drop_remainder=True)."
        )
    return torch.empty(kind.fixed_shape, dtype=kind.dtype, device="meta")


def _capture_parts(
    step: StepGraph,
    graph: ForeignGraph,
    micro: Part,
    update: Part,
    gradients: Mapping[str, str],
    variables: Mapping[str, TensorType],
    name: str,
    table: Table,
) -> StepProgram:
    first = ValueModule(
        dataclasses.replace(graph, nodes=micro.nodes),
        table,
        variables={key: variables[key] for key in dict.fromkeys([*micro.read, *micro.written])},
        wanted=[*graph.outputs, *gradients.values()],
        written=micro.written,
        constants=step.constants,
    )
    given = {value: variables[key] for key, value in gradients.items()}
    nodes = tuple(dataclasses.replace(node, part=Phase.UPDATE) for node in update.nodes)
    second = ValueModule(
        dataclasses.replace(graph, nodes=nodes, inputs=given, outputs=()),
        table,
        variables={key: variables[key] for key in dict.fromkeys([*update.read, *update.written])},
        wanted=[],
        written=update.written,
        constants={key: value for key, value in step.constants.items() if key not in given},
    )
    slots = _name_slots(update, gradients, variables)
    program = join_step(
        _capture(first, graph.inputs, name), _capture(second, given, f"{name} update"), list(gradients), slots
    )
    parameters = dict.fromkeys([*first._parameters, *(key for key in gradients)])
    return StepProgram(
        program,
        tuple(parameters),
        tuple(first._buffers),
        {key: slot.key for key, slot in slots.items()},
        (*micro.written, *update.written),
    )


def _name_slots(
    update: Part, gradients: Mapping[str, str], variables: Mapping[str, TensorType]
) -> dict[str, StateSlot]:
    """What the update holds besides trained variables. State that one variable alone needs belongs to it."""
    owners: dict[str, list[str]] = {}
    makers = {name: node for node in update.nodes for name in node.outputs}
    for parameter in gradients:
        needed = _find_sources(update.written[parameter], makers, set(gradients.values()))
        for key in dict.fromkeys([*update.read, *update.written]):
            if key not in gradients and (key in needed or update.written.get(key) in needed):
                owners.setdefault(key, []).append(parameter)
    counts: dict[tuple[str, str], int] = {}
    found: dict[str, StateSlot] = {}
    for key in dict.fromkeys([*update.read, *update.written]):
        if key in gradients:
            continue
        kind = variables[key]
        own = owners.get(key, [])
        owner = own[0] if len(own) == 1 and kind.shape in ((), variables[own[0]].shape) else OWNERLESS
        role = _find_role(key, owner) if owner else key
        number = counts[role, owner] = counts.get((role, owner), -1) + 1
        title = role if number == 0 else f"{role}_{number}"
        found[key] = StateSlot(title, owner, kind.fixed_shape or (), kind.dtype)
    return found


def _find_sources(name: str, makers: Mapping[str, ForeignNode], stops: set[str]) -> set[str]:
    """All tensors on the way to one, back to gradients and variables."""
    found, waiting = {name}, [name]
    while waiting:
        node = makers.get(waiting.pop())
        for source in () if node is None else node.inputs:
            if source not in found:
                found.add(source)
                if source not in stops:
                    waiting.append(source)
    return found


def _find_role(state: str, parameter: str) -> str:
    """What optimizers call state of a variable: "Momentum" of "dense/kernel/Momentum", of all variables alike."""
    if state.startswith(f"{parameter}/"):
        return state.removeprefix(f"{parameter}/").replace(":", "_")
    return state.rpartition("/")[2].rpartition("_")[2].replace(":", "_")
