"""A traced level -> what has to run, in order.

In: a `Level`. Out: a `Prepared` one: its ops cut into stages at the loops and pipelines between them, with the tensors
that go in and out of each. Stage n runs before item n. Ops that nothing asks for are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from openipu_tensorflow.ipu.clusters.tracing import Enqueue, Level


@dataclass(eq=False)
class Stage:
    """Ops that run together."""

    ops: list[Any] = field(default_factory=list)  # as they were made
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    targets: list[Any] = field(default_factory=list)
    enqueues: list[Enqueue] = field(default_factory=list)
    runner: Any = None  # what was compiled for it


@dataclass(eq=False)
class Prepared:
    """A level that can run."""

    graph: Any
    level: Level
    stages: list[Stage]  # one more than items
    items: list[Any]
    inner: dict[int, list[Prepared]]  # id of an item -> its levels
    captures: list[Any]  # tensors from outside, by name


def prepare_level(graph: Any, level: Level) -> Prepared:
    """Cut a level into stages."""
    ops = graph.get_operations()
    places = {op.name: place for place, op in enumerate(ops)}
    return _Preparation(graph, ops, places, level).prepare()


class _Preparation:
    def __init__(self, graph: Any, ops: Sequence[Any], places: dict[str, int], level: Level) -> None:
        self._graph = graph
        self._ops, self._places, self._level = ops, places, level
        self._arguments = {tensor.op.name for tensor in level.arguments}
        for _, made in level.infeeds:
            self._arguments |= {tensor.op.name for tensor in made}
        self._item_of: dict[str, int] = {}
        for number, item in enumerate(level.items):
            self._item_of[item.marker.name] = number
            self._item_of.update((tensor.op.name, number) for tensor in item.results)
        self._inner: dict[int, list[Prepared]] = {}
        self._captured: dict[str, Any] = {}

    def owns(self, op: Any) -> bool:
        """Was the op made at this level? A constant may be from anywhere."""
        place = self._places[op.name]
        if op.type == "Const":
            return True
        if op.type == "Placeholder" and op.name not in self._arguments and op.name not in self._item_of:
            return False  # given from outside: a feed of the session, or what a function captures
        own = self._level.start <= place < self._level.end
        return own and not any(start <= place < end for start, end in self._level.inner)

    def prepare(self) -> Prepared:
        level = self._level
        reached = self._reach([*level.outputs, *level.targets])
        used = sorted({self._item_of[name] for name in reached if name in self._item_of})
        number_of = {item: place for place, item in enumerate(used)}
        stage_of = self._number_stages(reached, number_of)
        stages = [Stage() for _ in range(len(used) + 1)]
        for name in sorted(reached, key=self._places.__getitem__):
            op = self._ops[self._places[name]]
            if name not in self._item_of and name not in self._arguments:
                stages[stage_of[name]].ops.append(op)
                if name in level.enqueues:
                    stages[stage_of[name]].enqueues.append(level.enqueues[name])
        items = [level.items[number] for number in used]
        self._connect(stages, items, stage_of)
        inner = {id(item): self._inner[id(item)] for item in items}
        return Prepared(self._graph, level, stages, items, inner, list(self._captured.values()))

    def _reach(self, roots: Iterable[Any]) -> set[str]:
        """Names of the ops of this level that the roots need."""
        reached: set[str] = set()
        stack = [entry for root in roots for entry in [root]]
        while stack:
            entry = stack.pop()
            op = getattr(entry, "op", entry)
            if op.name in reached:
                continue
            if not self.owns(op):
                if entry is not op and op.type != "VarHandleOp" and entry.dtype.name != "resource":
                    self._captured[entry.name] = entry
                if op.type != "VarHandleOp":
                    continue
            reached.add(op.name)
            if op.name in self._arguments or op.type == "VarHandleOp":
                continue
            number = self._item_of.get(op.name)
            if number is not None:
                stack += self._needs_of(self._level.items[number])
                continue
            if op.name in self._level.enqueues:
                stack += self._level.enqueues[op.name].tensors
            stack += list(op.inputs) + list(op.control_inputs)
        return reached

    def _needs_of(self, item: Any) -> list[Any]:
        """Tensors of this level, or from further outside, that an item needs."""
        if id(item) not in self._inner:
            self._inner[id(item)] = [
                _Preparation(self._graph, self._ops, self._places, inner).prepare() for inner in item.levels
            ]
        outside = [tensor for inner in self._inner[id(item)] for tensor in inner.captures]
        return [*item.initial, *([item.count] if hasattr(item.count, "op") else []), *outside]

    def _number_stages(self, reached: set[str], number_of: dict[int, int]) -> dict[str, int]:
        """Which stage an op runs in: after all items that it depends on."""
        found: dict[str, int] = {}
        for name in sorted(reached, key=self._places.__getitem__):
            op = self._ops[self._places[name]]
            if name in self._item_of:
                found[name] = number_of[self._item_of[name]] + 1
            elif name in self._arguments or op.type == "VarHandleOp":
                found[name] = 0
            else:
                enqueue = self._level.enqueues.get(name)
                tensors = op.inputs if enqueue is None else enqueue.tensors
                before = [tensor.op.name for tensor in tensors]
                if _has_effects(op):  # for others, what must come before does not change their values
                    before += [entry.name for entry in op.control_inputs]
                found[name] = max((found.get(entry, 0) for entry in before), default=0)
        return found

    def _connect(self, stages: list[Stage], items: list[Any], stage_of: dict[str, int]) -> None:
        wanted: dict[str, Any] = {tensor.name: tensor for tensor in self._level.outputs}
        for item in items:
            wanted.update((tensor.name, tensor) for tensor in self._needs_of(item) if hasattr(tensor, "dtype"))
        for number, stage in enumerate(stages):
            made = {tensor.name for op in stage.ops for tensor in op.outputs}
            needed = {tensor.name: tensor for op in stage.ops for tensor in op.inputs if tensor.name not in made}
            needed = {name: tensor for name, tensor in needed.items() if tensor.dtype.name != "resource"}
            stage.inputs = list(needed.values())
            earlier = {name: tensor for name, tensor in needed.items() if stage_of.get(tensor.op.name, number) < number}
            wanted.update(earlier)
            for entry in stage.enqueues:
                wanted.update((tensor.name, tensor) for tensor in entry.tensors)
        for stage in stages:
            made = {tensor.name for op in stage.ops for tensor in op.outputs}
            stage.outputs = [tensor for name, tensor in wanted.items() if name in made]
            stage.targets = [op for op in stage.ops if not op.outputs and op.type not in ("NoOp", "VarHandleOp")]


def _has_effects(op: Any) -> bool:
    """Does it read or write variables, or anything else that changes?"""
    return any(tensor.dtype.name == "resource" for tensor in op.inputs) or bool(op.op_def.is_stateful)
