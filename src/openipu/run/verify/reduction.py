"""A smaller program that still differs.

In: a `Trial`, its differences, the rules to leave out. Out: a `Trial` of the part of the graph that makes one of the
results that differ; the same one where no part differs by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from torch import fx
from torch.utils import _pytree as pytree

from openipu.graph import OWNERLESS, Graph, GraphInput, GraphOutput, OutputKind, OutputTree, Program
from openipu.run.drafts.draft import copy_ancestors
from openipu.run.drafts.draft import list_results as list_nodes
from openipu.run.verify.differences import Difference
from openipu.run.verify.trial import Trial

_TRIES = 8


def reduce_trial(trial: Trial, differences: Sequence[Difference], without: Collection[str]) -> Trial:
    """Keep the part that makes one result, the smallest of those that are tried."""
    if trial.options.taps or trial.options.loss_scale_control or trial.options.output_choices:
        return trial
    names = {difference.name.split(" (replica")[0] for difference in differences}
    parts = [part for entry in _list_results(trial.program) if (part := _cut(trial.program, entry, names)) is not None]
    parts.sort(key=_count_nodes)
    for part in parts[:_TRIES]:
        smaller = Trial(part, trial.options, trial.leaves, trial.start)
        try:
            if smaller.run(without):
                return smaller
        except Exception:
            continue
    return trial


def _list_results(program: Program) -> list[GraphOutput]:
    wanted = (OutputKind.OUTPUT, OutputKind.BUFFER, OutputKind.GRADIENT)
    return [entry for entry in program.micro.outputs if entry.kind in wanted]


def _count_nodes(program: Program) -> int:
    return len(program.micro.module.graph.nodes)


def _cut(program: Program, kept: GraphOutput, names: Collection[str]) -> Program | None:
    """The program that makes one result; None if it is none of these."""
    if kept.kind is OutputKind.OUTPUT and f"output {kept.index}" in names:
        chosen = [replace(kept, index=0)]
        micro = _cut_graph(program.micro, lambda entry: entry == kept, chosen)
        update, slots = _cut_update(program, "")
    elif kept.kind is OutputKind.BUFFER and f"buffer {kept.name}" in names:
        micro = _cut_graph(program.micro, lambda entry: entry == kept, [kept])
        update, slots = _cut_update(program, "")
    elif kept.kind is OutputKind.GRADIENT and any(
        name == f"weight {kept.name}" or (name.startswith("optimizer state") and name.endswith(f":{kept.name}"))
        for name in names
    ):
        micro = _cut_graph(program.micro, lambda entry: entry == kept, [kept])
        update, slots = _cut_update(program, kept.name)
    else:
        return None
    outputs = [0] * sum(entry.kind is OutputKind.OUTPUT for entry in micro.outputs)
    tree = OutputTree(pytree.tree_structure(tuple(outputs)), {})
    kept_slots = tuple(slot for slot in program.state_slots if slot.key in slots)
    graphs: list[Graph] = [micro] if update is None else [micro, update]
    hyper = {entry.name for graph in graphs for entry in graph.inputs}
    hypers = tuple(entry for entry in program.hyper_parameters if entry.key in hyper)
    return replace(
        program, micro=micro, update=update, output_tree=tree, state_slots=kept_slots, hyper_parameters=hypers
    )


def _cut_update(program: Program, parameter: str) -> tuple[Graph | None, set[str]]:
    """The update of one parameter, and the state that it needs."""
    if program.update is None:
        return None, set()
    owners = {slot.key: slot.parameter for slot in program.state_slots}

    def is_kept(entry: GraphOutput) -> bool:
        owner = owners[entry.name] if entry.kind is OutputKind.STATE else entry.name
        return owner in (parameter, OWNERLESS) if entry.kind is OutputKind.STATE else owner == parameter

    update = _cut_graph(program.update, is_kept, None)
    names = {entry.name for entry in update.inputs} | {entry.name for entry in update.outputs}
    state = names & owners.keys()
    return update, state


def _cut_graph(graph: Graph, is_kept: Callable[[GraphOutput], bool], entries: Sequence[GraphOutput] | None) -> Graph:
    nodes = list_nodes(graph.module.graph)
    pairs = [(node, entry) for node, entry in zip(nodes, graph.outputs, strict=True) if is_kept(entry)]
    copy, copied = copy_ancestors(graph.module.graph, [node for node, _ in pairs])
    copy.output(tuple(copied[node] for node, _ in pairs))
    renamed = {node.name: made.name for node, made in copied.items() if node.op == "placeholder"}
    inputs: tuple[GraphInput, ...] = tuple(
        replace(entry, node=renamed[entry.node]) for entry in graph.inputs if entry.node in renamed
    )
    outputs = tuple(entry for _, entry in pairs) if entries is None else tuple(entries)
    return Graph(fx.GraphModule(graph.module, copy), inputs, outputs)
