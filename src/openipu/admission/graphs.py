"""One graph of a program from a file, node by node: operators, arguments, results, memory.

In: a `Graph` that `graph.serial` has read, and the geometry of what it is called with. Out: the geometry of its results
and the memory it needs at once; or a refusal. Each node's results are inferred again from the arguments and compared
with what the file declares, so that planning and running see no shape that is a lie.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from openipu.admission.geometry import Geometry, Inferred, freeze, infer_results
from openipu.admission.limits import Limits
from openipu.admission.memory import Ledger
from openipu.admission.operators import find_objection
from openipu.admission.provenance import check_provenance
from openipu.admission.refusal import name_target, refuse
from openipu.admission.relations import check_relations
from openipu.admission.results import check_pieces
from openipu.admission.schema import bind_arguments
from openipu.errors import OpenIpuError, ProgramFileError
from openipu.graph import BranchCall, Graph, GraphCall, LoopCall

_LARGEST_EMPTY = 1 << 28  # elements, if a size of 0 were 1

Value = Geometry | tuple[Geometry | None, ...]


@dataclass(frozen=True, slots=True)
class CheckedGraph:
    """What a graph returns and needs."""

    results: tuple[Geometry, ...]
    peak_bytes: int  # of tensors that live at once, inputs included
    input_bytes: int
    node_runs: int


class GraphChecker:
    """Checks the graphs of one program; equal calls in them are inferred once."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: dict[Any, Inferred] = {}
        self._shared: dict[Geometry, Geometry] = {}
        self._read: dict[int, tuple[torch.Tensor, Geometry]] = {}  # by identity: nodes share what they declare

    def check(self, graph: Graph, given: Sequence[Geometry] | None = None) -> CheckedGraph:
        """Check a graph; the body of a loop or a branch is called with `given`."""
        walk = _Walk(self, graph, given)
        return walk.run()

    def share(self, geometry: Geometry) -> Geometry:
        """One object for all equal geometries."""
        return self._shared.setdefault(geometry, geometry)

    def read(self, tensor: torch.Tensor) -> Geometry:
        """The geometry of a tensor that a file declares."""
        known = self._read.get(id(tensor))
        if known is None:
            known = self._read[id(tensor)] = (tensor, self.share(Geometry.read(tensor)))
        return known[1]

    def check_runs(self, runs: int) -> int:
        """Refuse loops that would go on for ever."""
        if runs > self._limits.node_runs:
            raise ProgramFileError(
                f"its loops run {runs:,} nodes in one micro-batch, more than the {self._limits.node_runs:,} allowed"
            )
        return runs

    def infer(self, node: fx.Node, args: Any, kwargs: Any, declared: int) -> Inferred:
        """Results of an operator, whose arguments are checked the first time that they appear."""
        target: Any = node.target
        key = (target, declared, freeze(args), freeze(kwargs))
        found = self._known.get(key)
        if found is None:
            objection = find_objection(target)
            if objection:
                refuse(node, f"this operator {objection}")
            bound = bind_arguments(node, args, kwargs)
            check_pieces(node, bound, declared)
            check_relations(node, bound)
            try:
                inferred = infer_results(target, args, kwargs)
                results = tuple(item if item is None else self.share(item) for item in inferred.results)
                found = replace(inferred, results=results)
            except OpenIpuError:
                raise
            except Exception as error:
                reason = str(error).partition("\n")[0][:300]
                refuse(node, f"its arguments do not fit each other ({type(error).__name__}: {reason})")
            for result in found.results:
                if result is not None and not result.elements and result.spread > _LARGEST_EMPTY:
                    refuse(node, f"{result} holds nothing, and its kernel would count through it")
            self._known[key] = found
        return found


class _Walk:
    def __init__(self, checker: GraphChecker, graph: Graph, given: Sequence[Geometry] | None) -> None:
        self._checker, self._graph, self._given = checker, graph, given
        self._values: dict[fx.Node, Value] = {}
        self._nodes: list[fx.Node] = list(graph.module.graph.nodes)
        self._ledger = Ledger(self._nodes)
        self._runs = 0

    def run(self) -> CheckedGraph:
        inputs = 0
        for node in self._nodes:
            self._runs += 1
            if node.op == "placeholder":
                self._take_input(node, inputs)
                inputs += 1
            elif node.op == "get_attr":
                self._take_attribute(node)
            elif node.op == "output":
                continue
            elif node.target is operator.getitem:
                self._take_item(node)
            elif isinstance(node.target, GraphCall):
                self._take_call(node, node.target)
            else:
                self._take_operator(node)
            self._ledger.finish(node)
        check_provenance(self._nodes)
        returned: Any = self._nodes[-1].args[0]
        results = []
        for node in returned:
            value = self._values[node]
            if not isinstance(value, Geometry):
                refuse(node, "a list of tensors is returned as one result")
            results.append(value)
        ledger, runs = self._ledger, self._checker.check_runs(self._runs)
        return CheckedGraph(tuple(results), ledger.peak_bytes, ledger.input_bytes, runs)

    def _take_input(self, node: fx.Node, index: int) -> None:
        declared = self._read_declared(node)
        if not isinstance(declared, Geometry):
            refuse(node, "an input is one tensor")
        if self._given is not None:
            found = self._given[index]
            if (found.shape, found.dtype) != (declared.shape, declared.dtype):
                refuse(node, f"it is called with {found}, and {declared} is declared")
            declared = found
        self._values[node] = declared
        self._ledger.add_input(node, declared)

    def _take_attribute(self, node: fx.Node) -> None:
        value = getattr(self._graph.module, str(node.target), None)
        if not isinstance(value, torch.Tensor):
            refuse(node, "it is not a tensor of the file")
        found = self._checker.read(value)
        self._compare(node, (found,), listed=False)
        self._values[node] = found
        self._ledger.add_input(node, found)

    def _take_item(self, node: fx.Node) -> None:
        source, index = (*node.args, None, None)[:2]
        value = self._values.get(source) if isinstance(source, fx.Node) else None
        if node.kwargs or len(node.args) != 2 or not isinstance(source, fx.Node) or not isinstance(value, tuple):
            refuse(node, "an item is taken of what is not several tensors")
        if type(index) is not int or not 0 <= index < len(value):
            refuse(node, f"there are {len(value)} results, and number {index!r} is taken")
        item = value[index]
        if item is None:
            refuse(node, f"result number {index} is a gradient that was not asked for")
        self._compare(node, (item,), listed=False)
        self._values[node] = item
        self._ledger.share(node, source, index)

    def _take_operator(self, node: fx.Node) -> None:
        read: Callable[[fx.Node], Any] = self._read
        args, kwargs = fx.map_arg((node.args, node.kwargs), read)
        declared = node.meta.get("val")
        pieces = len(declared) if isinstance(declared, list | tuple) else 1
        found = self._checker.infer(node, args, kwargs, pieces)
        self._compare(node, found.results, listed=found.listed)
        first = found.results[0] if found.results else None
        self._values[node] = first if first is not None and not found.listed else found.results
        sources = list[fx.Node]()
        fx.map_arg((node.args, node.kwargs), sources.append)
        self._ledger.add_results(node, found, sources)

    def _take_call(self, node: fx.Node, call: GraphCall) -> None:
        given = [self._read(source) if isinstance(source, fx.Node) else None for source in node.args]
        tensors = [value for value in given if isinstance(value, Geometry)]
        if len(tensors) != len(given) or node.kwargs:
            refuse(node, "it is called with what is not a tensor")
        if isinstance(call, LoopCall):
            bodies = [self._check_body(node, call.body, tensors)]
            _compare_all(node, tensors[: call.carried], bodies[0].results, "its body returns")
            passes = call.count
        elif isinstance(call, BranchCall):
            if not tensors or tensors[0].elements != 1:
                refuse(node, "its condition is not one number")
            first = 1 + len(call.chosen.inputs)
            bodies = [
                self._check_body(node, call.chosen, tensors[1:first]),
                self._check_body(node, call.otherwise, tensors[first:]),
            ]
            _compare_all(node, bodies[0].results, bodies[1].results, "the other branch returns")
            passes = 1
        else:
            refuse(node, "no file can hold such a call")
        results = tuple(self._checker.share(_make_dense(result)) for result in bodies[0].results)
        self._compare(node, results, listed=True)
        self._values[node] = results
        self._runs = self._checker.check_runs(self._runs + passes * max(body.node_runs for body in bodies))
        inside = max(body.peak_bytes - body.input_bytes for body in bodies)
        self._ledger.add_results(node, Inferred(results, (None,) * len(results), listed=True), (), inside)

    def _check_body(self, node: fx.Node, body: Graph, given: Sequence[Geometry]) -> CheckedGraph:
        if len(given) != len(body.inputs):
            refuse(node, f"its body takes {len(body.inputs)} tensors and gets {len(given)}")
        return self._checker.check(body, given)

    def _read(self, node: fx.Node) -> Value:
        value = self._values[node]
        if not isinstance(value, Geometry):
            refuse(node, "several results are used as one tensor")
        return value

    def _compare(self, node: fx.Node, found: Sequence[Geometry | None], *, listed: bool) -> None:
        declared = self._read_declared(node)
        if isinstance(declared, tuple) is not listed:
            refuse(node, f"it returns {'several tensors' if listed else 'one tensor'}, and the file declares otherwise")
        items = declared if isinstance(declared, tuple) else (declared,)
        _compare_all(node, items, found, "it returns")
        for item, other in zip(items, found, strict=True):
            if item is not other and item and other and not item.lies_like(other):
                refuse(node, f"{other} lies in memory with strides {other.stride}, and {item.stride} are declared")

    def _read_declared(self, node: fx.Node) -> Value:
        value = node.meta.get("val")
        items = list(value) if isinstance(value, list | tuple) else [value]
        listed = isinstance(value, list | tuple)
        if not all(isinstance(item, torch.Tensor) or (listed and item is None) for item in items):
            refuse(node, f"the file does not say which tensors {name_target(node)} returns")
        geometries = tuple(None if item is None else self._checker.read(item) for item in items)
        return geometries if geometries[0] is None or listed else geometries[0]


def _compare_all(
    node: fx.Node, declared: Sequence[Geometry | None], found: Sequence[Geometry | None], what: str
) -> None:
    if all(item is other for item, other in zip(declared, found, strict=False)) and len(declared) == len(found):
        return
    forms = [[item and (item.dtype, item.shape) for item in items] for items in (declared, found)]
    if forms[0] != forms[1]:
        names = [", ".join(map(str, items[:8])) for items in (found, declared)]
        refuse(node, f"{what} {names[0] or 'nothing'}, and {names[1] or 'nothing'} is declared")


def _make_dense(geometry: Geometry) -> Geometry:
    return Geometry.read(torch.empty(geometry.shape, dtype=geometry.dtype, device="meta"))
