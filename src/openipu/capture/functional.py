"""Makes a recorded graph functional: no op changes its arguments, and what changed in place comes out as a value.

In: a recorded graph and the nodes that it is to return. Out: a graph with the same results, and the last value of each
placeholder that was written. Most graphs are rewritten node by node (see `rewriting`); a graph that writes through
views is replayed through torch's own functionalisation, which knows them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from openipu.capture.calls import resolve_calls
from openipu.capture.failures import locate
from openipu.capture.held_values import HOLD, has_layout
from openipu.capture.layouts import settle_layouts
from openipu.capture.recorder import CPU, META, Recorder
from openipu.capture.refreshing import refresh_layouts
from openipu.capture.rewriting import rewrite_mutations
from openipu.capture.strided_views import flatten_strided_views
from openipu.capture.torch_private import make_graph_module
from openipu.errors import CaptureError
from openipu.graph import NOTE, Note, has_effects, note_of

aten = torch.ops.aten
_RANDOM_FROM = getattr(aten.random, "from")
_IDENTITIES = frozenset({aten.detach.default, aten.alias.default, aten.lift_fresh.default, aten.lift.default, HOLD})


@dataclass(frozen=True, eq=False)
class FunctionalGraph:
    """A functional graph without its output node: the caller decides what it returns."""

    graph: fx.Graph
    results: tuple[fx.Node, ...]
    written: Mapping[str, fx.Node]  # placeholder's name -> its value at the end


def make_functional(graph: fx.Graph, results: tuple[fx.Node, ...]) -> FunctionalGraph:
    """The recorded graph, functional, on the CPU, without identities. `graph` itself is used up."""
    settle_layouts(graph)
    rewritten = rewrite_mutations(graph, results)
    if rewritten is None:
        functional = _replay(graph, results)
    else:
        functional = FunctionalGraph(graph, rewritten.results, rewritten.written)
    flatten_strided_views(functional.graph)
    return _remove_identities(functional)


def finish_graph(functional: FunctionalGraph, outputs: tuple[fx.Node, ...]) -> fx.GraphModule:
    """Add the output node, drop what nobody needs, and let go of autograd's history."""
    graph = functional.graph
    graph.output(outputs)
    resolve_calls(graph)
    for node in reversed(graph.nodes):
        if not node.users and node.op not in ("placeholder", "output") and not has_effects(node):
            graph.erase_node(node)
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            node.meta["val"] = _forget_history(value)
        elif isinstance(value, list | tuple):
            node.meta["val"] = tuple(_forget_history(item) for item in value)
        if node.target is _RANDOM_FROM:
            _respell_random(node)
        if node.kwargs.get("device") is not None:
            node.kwargs = {**node.kwargs, "device": CPU}
    graph.lint()
    return make_graph_module(graph)


def _forget_history(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and (value.requires_grad or value._is_view()):
        return value.detach()
    return value


def _respell_random(node: fx.Node) -> None:
    """`aten.random.from` cannot be written in Python, where `from` is a keyword; `randint` draws the same numbers."""
    _, low, high = node.args
    value = node.meta["val"]
    if high is None:
        raise CaptureError(
            locate("random_(low, None) is not supported. Give random_() an upper bound.", note_of(node).line)
        )
    node.target = aten.randint.low
    node.args = (low, high, list(value.shape))
    node.kwargs = {"dtype": value.dtype, "device": CPU}


class _NoteInterpreter(fx.Interpreter):
    """Runs a graph and knows which node it is at."""

    note: Note = Note()

    def run_node(self, n: fx.Node) -> Any:
        self.note = note_of(n)
        return super().run_node(n)


def _replay(graph: fx.Graph, results: tuple[fx.Node, ...]) -> FunctionalGraph:
    """Run the graph again under torch's functionalisation; user code is not run again."""
    graph.output(results)
    interpreter = _NoteInterpreter(nn.Module(), graph=graph)
    recorder = Recorder(lambda: interpreter.note)
    inputs: list[torch.Tensor] = []
    placeholders: dict[str, fx.Node] = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            value = node.meta["val"]
            twin = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=META)
            placeholders[node.name] = recorder.add_placeholder(node.name, twin)
            placeholders[node.name].meta[NOTE] = note_of(node)
            inputs.append(twin)
    run_functional = torch.func.functionalize(interpreter.run, remove="mutations")
    with torch.no_grad(), recorder:
        outcome = run_functional(*inputs)
    replayed = [recorder.node_of(tensor) for tensor in outcome]
    # The replay ends with a copy_ into each placeholder that was written: those copies are our extra results.
    written: dict[str, fx.Node] = {}
    names = {node: name for name, node in placeholders.items()}
    for node in list(recorder.graph.nodes):
        if node.target is aten.copy_.default and node.args[0] in names:
            value_node = node.args[1]
            assert isinstance(value_node, fx.Node)
            written[names[node.args[0]]] = value_node
            node.replace_all_uses_with(value_node)
            replayed = [value_node if result is node else result for result in replayed]
            recorder.graph.erase_node(node)
    return FunctionalGraph(recorder.graph, tuple(replayed), written)


def _find_equal(node: fx.Node) -> fx.Node | None:
    """The argument that this node only gives another name to."""
    if node.target in _IDENTITIES:
        return node.all_input_nodes[0]
    if node.target is aten.copy.default and isinstance(node.args[1], fx.Node) and node.args[1].op != "placeholder":
        value, source = node.meta["val"], node.args[1].meta["val"]
        if (value.shape, value.dtype) == (source.shape, source.dtype) and has_layout(value, source):
            return node.args[1]
    return None


def _lay_out_placeholders(graph: fx.Graph) -> set[fx.Node]:
    """A device holds its tensors contiguous, whatever their strides on the host are: those that lay otherwise."""
    moved = {node for node in graph.find_nodes(op="placeholder") if not node.meta["val"].is_contiguous()}
    for node in moved:
        node.meta["val"] = torch.empty_like(node.meta["val"], memory_format=torch.contiguous_format)
    return moved


def _remove_identities(functional: FunctionalGraph) -> FunctionalGraph:
    """Autograd has finished: `detach` and the like are other names for their argument."""
    replaced: dict[fx.Node, fx.Node] = {}
    moved = _lay_out_placeholders(functional.graph)  # and those that now stand for what lay otherwise in memory
    for node in list(functional.graph.nodes):
        source = _find_equal(node)
        if source is not None:
            replaced[node] = source
            if not has_layout(source.meta["val"], node.meta["val"]):
                moved.add(source)
            node.replace_all_uses_with(source)
            functional.graph.erase_node(node)

    refresh_layouts(functional.graph, moved)

    def follow(node: fx.Node) -> fx.Node:
        while node in replaced:
            node = replaced[node]
        return node

    return FunctionalGraph(
        functional.graph,
        tuple(follow(node) for node in functional.results),
        {name: follow(node) for name, node in functional.written.items()},
    )
