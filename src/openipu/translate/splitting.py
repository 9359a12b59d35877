"""Cuts a training step that has its gradients and its update written out into what runs for each micro-batch, and what
runs once for an update.

In: a graph over values, its results, the new values of its variables, and which tensors are the gradients of which
variables. Out: a `Split`; or, where the update needs more of a micro-batch than its gradients, an `Entangled` that says
what. What depends neither on the data nor on gradients, such as a count of steps, belongs to the update, unless a
micro-batch reads it, such as a metric's count of batches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from openipu.translate.foreign import ForeignGraph, ForeignNode

UNREAD = ""  # an input that is left out
ACTING = ("IpuPrintTensor", "IpuHostEmbeddingUpdate")  # ops that run whether or not anybody reads their results


@dataclass(frozen=True, eq=False)
class Part:
    """Nodes of one part in order, the variables that it reads, and its new values of variables."""

    nodes: tuple[ForeignNode, ...]
    read: tuple[str, ...]
    written: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Split:
    """`micro` makes results and gradients, `update` takes gradients."""

    micro: Part
    update: Part


@dataclass(frozen=True, slots=True)
class Entangled:
    """Why a step cannot be cut: an op that the update needs and that depends on the data of a micro-batch."""

    reason: str


def take_needed(
    graph: ForeignGraph, wanted: Iterable[str], given: Iterable[str] = (), acting: bool = False
) -> tuple[ForeignNode, ...]:
    """The nodes that make some tensors, in order, where others are given; `acting`: and those that do something."""
    needed, stops = set(wanted), set(given)
    kept: list[ForeignNode] = []
    for node in reversed(graph.nodes):
        if any(name in needed and name not in stops for name in node.outputs) or (acting and node.op in ACTING):
            kept.append(node)
            needed.update(name for name in node.inputs if name != UNREAD)
    return tuple(reversed(kept))


def list_read(nodes: Iterable[ForeignNode], wanted: Iterable[str], variables: Mapping[str, object]) -> tuple[str, ...]:
    """The variables that nodes read, or that are themselves wanted."""
    found = {name: None for node in nodes for name in node.inputs if name in variables}
    return tuple({**found, **{name: None for name in wanted if name in variables}})


def split_step(
    graph: ForeignGraph,
    results: Sequence[str],
    written: Mapping[str, str],
    gradients: Mapping[str, str],
    variables: Mapping[str, object],
    each: Collection[str] = (),
) -> Split | Entangled:
    """`written`: variable -> its new value. `gradients`: variable -> its gradient. `each`: variables that change with
    each micro-batch, whatever they depend on."""
    by_data = find_dependents(graph, graph.inputs)
    by_gradient = find_dependents(graph, gradients.values())
    late = {
        name: value
        for name, value in written.items()
        if name in gradients or value in by_gradient or (value not in by_data and name not in each)
    }
    early = {name: value for name, value in written.items() if name not in late}
    while True:
        ends = [*results, *gradients.values(), *early.values()]
        micro_nodes = take_needed(graph, ends, acting=True)
        micro_read = list_read(micro_nodes, ends, variables)
        counted = [
            name for name in micro_read if name in late and name not in gradients and late[name] not in by_gradient
        ]
        if not counted:
            break
        early.update((name, late.pop(name)) for name in counted)
    update_nodes = take_needed(graph, late.values(), gradients.values())
    update_read = list_read(update_nodes, late.values(), variables)
    for node in update_nodes:  # back to the gradients, and to nothing else of a micro-batch
        for name in node.inputs:
            if name in graph.inputs:
                return Entangled(f"the update needs {name!r} of each micro-batch, read by {node.title}")
    for name in update_read:
        if name in early:
            return Entangled(f"the update reads variable {name!r}, which each micro-batch writes")
    for name in micro_read:
        if name in late and name not in gradients:
            return Entangled(f"a micro-batch reads variable {name!r}, which the update writes")
    return Split(Part(micro_nodes, micro_read, early), Part(update_nodes, update_read, late))


def find_dependents(graph: ForeignGraph, roots: Iterable[str]) -> set[str]:
    """Tensors that depend on some others, those included."""
    found = set(roots)
    for node in graph.nodes:
        if any(name in found for name in node.inputs):
            found.update(node.outputs)
    return found
