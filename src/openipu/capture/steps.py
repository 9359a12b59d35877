"""A training step whose gradients and update were written out by others, as one `Program`.

In: two captures: of a micro-batch, whose last results are gradients, and of the update, whose inputs are gradients and
whose held tensors are weights and optimizer state. Out: a program like one that capture has differentiated itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from torch.utils import _pytree as pytree

from openipu.graph import (
    Graph,
    GraphInput,
    GraphOutput,
    InputKind,
    OutputKind,
    OutputTree,
    Program,
    StateSlot,
)

_OWN = "update_"  # in front of the names of the update's constants
_HELD = (InputKind.PARAMETER, InputKind.BUFFER)
_HELD_RESULTS = (OutputKind.PARAMETER, OutputKind.BUFFER)


def join_step(micro: Program, update: Program, gradients: Sequence[str], slots: Mapping[str, StateSlot]) -> Program:
    """`gradients`: the parameters whose gradients are the last results of `micro` and the inputs of `update`, in order.
    `slots`: what else the update holds, by its name there."""
    graph, leaves = _take_gradients(micro, gradients)
    tree = OutputTree(
        pytree.tree_flatten(tuple(range(leaves)))[1],
        {leaf: value for leaf, value in micro.output_tree.host_leaves.items() if leaf < leaves},
    )
    own = {entry.name for entry in update.micro.inputs_of(InputKind.CONSTANT)}
    constants = {**micro.constants, **{_OWN + name: update.constants[name] for name in sorted(own)}}
    return dataclasses.replace(
        micro,
        micro=graph,
        update=_make_update(update.micro, gradients, slots),
        constants=constants,
        output_tree=tree,
        state_slots=tuple(slots.values()),
        warnings=tuple(dict.fromkeys([*micro.warnings, *update.warnings])),
    )


def _take_gradients(micro: Program, gradients: Sequence[str]) -> tuple[Graph, int]:
    leaves = micro.output_tree.leaves - len(gradients)
    outputs = [
        GraphOutput(OutputKind.GRADIENT, gradients[entry.index - leaves], entry.shape, entry.dtype)
        if entry.kind is OutputKind.OUTPUT and entry.index >= leaves
        else entry
        for entry in micro.micro.outputs
    ]
    return Graph(micro.micro.module, micro.micro.inputs, tuple(outputs)), leaves


def _make_update(graph: Graph, gradients: Sequence[str], slots: Mapping[str, StateSlot]) -> Graph:
    def rename(entry: GraphInput) -> GraphInput:
        if entry.kind is InputKind.CONSTANT:
            return dataclasses.replace(entry, name=_OWN + entry.name)
        if entry.kind is InputKind.INPUT:
            return dataclasses.replace(entry, kind=InputKind.GRADIENT, name=gradients[entry.index], index=-1)
        if entry.kind in _HELD and entry.name in slots:
            return dataclasses.replace(entry, kind=InputKind.STATE, name=slots[entry.name].key)
        return dataclasses.replace(entry, kind=InputKind.PARAMETER)

    def place(entry: GraphOutput) -> GraphOutput:
        if entry.kind in _HELD_RESULTS and entry.name in slots:
            return dataclasses.replace(entry, kind=OutputKind.STATE, name=slots[entry.name].key)
        return dataclasses.replace(entry, kind=OutputKind.PARAMETER)

    return Graph(graph.module, tuple(map(rename, graph.inputs)), tuple(map(place, graph.outputs)))
