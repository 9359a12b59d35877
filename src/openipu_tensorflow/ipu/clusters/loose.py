"""Ops that a script puts on an IPU device outside of any compilation, as programs of their own.

In: what a session is asked for, and is fed. Out: clusters of such ops, in order: each takes values from the host
and from clusters before it, and becomes one program. TensorFlow computes what is none of an IPU's business or cannot be
compiled: initial values of variables, plain reads and writes of them, texts, unknown shapes, random numbers of a given
seed, loops of the old form, what only copies, and what is on a device that is not configured.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from openipu_tensorflow.graphs.device_ops import OP
from openipu_tensorflow.ipu.clusters.cluster import place_gradients, run_prepared
from openipu_tensorflow.ipu.clusters.preparing import Prepared, Stage
from openipu_tensorflow.ipu.clusters.providers import Runner, find_providers
from openipu_tensorflow.ipu.clusters.tracing import Level, list_initializers
from openipu_tensorflow.ipu.clusters.variables import SessionVariables
from openipu_tensorflow.ipu.configuration.devices import list_devices, read_ordinal

_SOURCES = ("Placeholder", "PlaceholderWithDefault", "PlaceholderV2", "VarHandleOp")
_TRIVIAL = (
    "Const", "Identity", "IdentityN", "NoOp", "ReadVariableOp", "VarIsInitializedOp", "AssignVariableOp", "Shape",
    "StopGradient",
)  # fmt: skip
_OLD_FORM = (
    "Enter", "Exit", "NextIteration", "Merge", "Switch", "LoopCond", "VariableV2", "Variable", "TemporaryVariable",
)  # fmt: skip


@dataclass(eq=False)
class LooseCluster:
    """Ops of one device that run together."""

    place: str
    prepared: Prepared
    variables: SessionVariables

    @property
    def inputs(self) -> list[Any]:
        return self.prepared.captures

    @property
    def outputs(self) -> list[Any]:
        return self.prepared.level.outputs


@dataclass(eq=False)
class _GraphState:
    places: dict[str, tuple[int, str]] = field(default_factory=dict)  # op -> its number, its device
    clusters: dict[tuple[Any, ...], list[LooseCluster] | None] = field(default_factory=dict)


_states: weakref.WeakKeyDictionary[Any, _GraphState] = weakref.WeakKeyDictionary()


def note_loose_op(graph: Any, op: Any, number: int, device: str) -> None:
    """Remember an op that is on an IPU device; those of compilations are not loose."""
    providers = find_providers(graph)
    traced = () if providers is None else providers.traced
    if op.type not in _SOURCES and not any(start <= number < end for start, end in traced):
        _states.setdefault(graph, _GraphState()).places[op.name] = (number, device)


def has_loose_ops(graph: Any) -> bool:
    """Has a graph any?"""
    return graph in _states


def find_clusters(graph: Any, fetched: Sequence[Any], fed: Sequence[Any]) -> list[LooseCluster] | None:
    """The clusters that fetches need; None where TensorFlow computes everything."""
    state = _states.get(graph)
    if state is None or graph.finalized:
        return None
    given = frozenset(tensor.name for tensor in fed)
    key = (given, tuple(element.name for element in fetched))
    if key not in state.clusters:
        state.clusters[key] = _Search(graph, state, fetched, given).find()
    found = state.clusters[key]
    there = max(1, len(list_devices()))
    return None if found is None or any(read_ordinal(cluster.place) >= there for cluster in found) else found


def run_clusters(clusters: Sequence[LooseCluster], session: Any, run: Runner, fetched: Sequence[Any]) -> list[Any]:
    """Values of what was fetched; None for ops."""
    known: dict[str, Any] = {}
    feeds: dict[Any, Any] = {}
    for cluster in clusters:
        wanted = [tensor for tensor in cluster.inputs if tensor.name not in known]
        values = dict(zip((tensor.name for tensor in wanted), run(wanted, feeds) if wanted else (), strict=True))
        own = {tensor.name: numpy.asarray({**known, **values}[tensor.name]) for tensor in cluster.inputs}
        found = run_prepared(cluster.prepared, own, session, run, cluster.place, cluster.variables, "ops")
        for tensor, value in zip(cluster.outputs, found, strict=True):
            known[tensor.name] = feeds[tensor] = value
    ran = {op.name for cluster in clusters for stage in cluster.prepared.stages for op in stage.ops}
    rest = [one for one in fetched if one.name not in known and not _is_done(one, ran)]
    left = dict(zip((one.name for one in rest), run(rest, feeds) if rest else (), strict=True))
    return [known.get(one.name, left.get(one.name)) for one in fetched]


def _is_done(element: Any, ran: set[str]) -> bool:
    """Is it an op that a cluster has run, or a group of such?"""
    if hasattr(element, "dtype"):
        return False
    if element.type == "NoOp" and not element.inputs and element.name not in ran:
        return all(_is_done(entry, ran) for entry in element.control_inputs)
    return element.name in ran


class _Search:
    """Cuts what fetches need into clusters."""

    def __init__(self, graph: Any, state: _GraphState, fetched: Sequence[Any], given: frozenset[str]) -> None:
        self._graph, self._places, self._fetched, self._given = graph, state.places, fetched, given
        self._numbers = {op.name: number for number, op in enumerate(graph.get_operations())}

    def find(self) -> list[LooseCluster] | None:
        initial = list_initializers(self._graph)
        ops = sorted(self._reach(initial), key=lambda op: self._numbers[op.name])
        loose = {op.name for op in ops if op.name in self._places and op.name not in initial and _can_run(op)}
        working = [op for op in ops if op.name in loose and op.type not in _TRIVIAL]
        if not working or any(op.type in _OLD_FORM for op in ops) or not self._are_apart(ops, loose):
            return None
        if any(not tensor.shape.is_fully_defined() for op in working for tensor in op.outputs):
            return None
        levels = self._number(ops, loose)
        kinds = sorted({levels[op.name] for op in working})
        groups = [[op for op in ops if op.name in loose and levels[op.name] == kind] for kind in kinds]
        made = [self._make(kind[1], group, ops) for kind, group in zip(kinds, groups, strict=True)]
        return None if any(not _is_given(cluster) for cluster in made) else made

    def _reach(self, initial: set[str]) -> list[Any]:
        found: dict[str, Any] = {}
        waiting = [getattr(entry, "op", entry) for entry in self._fetched if entry.name not in self._given]
        while waiting:
            op = waiting.pop()
            if op.name in found:
                continue
            found[op.name] = op
            if op.name not in initial:
                waiting += [tensor.op for tensor in op.inputs if tensor.name not in self._given]
                waiting += op.control_inputs
        return list(found.values())

    def _are_apart(self, ops: Iterable[Any], loose: set[str]) -> bool:
        """Does no op wait for one on the other side, but for its values?"""
        waits: dict[
            str, set[bool]
        ] = {}  # what a group of ops holds: True, one that acts on an IPU; False, one of the host
        for op in ops:
            sides = {side for entry in op.control_inputs for side in waits.get(entry.name, set())}
            if op.type == "NoOp":
                waits[op.name] = sides
                continue
            if (op.name in loose and False in sides) or (op.name not in loose and True in sides):
                return False
            acts = op.op_def.is_stateful and op.type not in ("VarHandleOp", "ReadVariableOp")
            waits[op.name] = {op.name in loose} if acts else set()
        return True

    def _number(self, ops: Iterable[Any], loose: set[str]) -> dict[str, tuple[int, str]]:
        """When an op runs, and on which device; "" is the host, whose turn is before the IPUs' of the same number."""
        found: dict[str, tuple[int, str]] = {}
        for op in ops:
            place = self._places[op.name][1] if op.name in loose else ""
            sources = [tensor.op.name for tensor in op.inputs if tensor.name not in self._given]
            before = [found[name] for name in [*sources, *(entry.name for entry in op.control_inputs)] if name in found]
            turns = [number + (bool(other) and other != place) for number, other in before]
            found[op.name] = (max(turns, default=0), place)
        return found

    def _make(self, place: str, group: list[Any], ops: Iterable[Any]) -> LooseCluster:
        names = {op.name for op in group}
        outside = {
            tensor.name: tensor
            for op in group
            for tensor in op.inputs
            if (tensor.op.name not in names or tensor.name in self._given) and tensor.op.type != "Const"
        }
        inputs = [tensor for tensor in outside.values() if tensor.dtype.name != "resource"]
        wanted = {entry.name for entry in self._fetched}
        wanted |= {tensor.name for op in ops if op.name not in names for tensor in op.inputs}
        made = [tensor for op in group if op.type != "Const" for tensor in op.outputs if tensor.name not in self._given]
        outputs = [tensor for tensor in made if tensor.name in wanted]
        targets = [op for op in group if not op.outputs and op.type != "NoOp"]
        stage = Stage(ops=group, inputs=inputs, outputs=outputs, targets=targets)
        level = Level(0, outputs=outputs, targets=targets)
        place_gradients(group)
        handles = {tensor.op.name: tensor.op for op in group for tensor in op.inputs if tensor.op.type == "VarHandleOp"}
        prepared = Prepared(self._graph, level, [stage], [], {}, inputs)
        return LooseCluster(place, prepared, SessionVariables(self._graph, handles.values()))


def _can_run(op: Any) -> bool:
    """Has an IPU a use for the op?"""
    from openipu_tensorflow.graphs.formats import find_format

    if op.type == "PyFunc":
        return OP in op.node_def.attr
    if op.type.startswith(("StatelessRandom", "StatelessTruncated", "StatelessParameterized")):
        return False  # numbers are those of the seed that it is given: programs draw by a seed of their own
    for tensor in [*op.inputs, *op.outputs]:
        handle = tensor.dtype.name == "resource" and tensor.op.type == "VarHandleOp"
        if not handle and tensor.dtype.name != "variant" and find_format(tensor.dtype) is None:
            return False
    return True


def _is_given(cluster: LooseCluster) -> bool:
    """Can everything that goes in and out of a cluster be handed over?"""
    between = [*cluster.inputs, *cluster.outputs]
    return all(tensor.dtype.name != "variant" and tensor.shape.is_fully_defined() for tensor in between)
