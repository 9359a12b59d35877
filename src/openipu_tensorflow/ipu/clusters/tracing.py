"""A computation as it is traced: levels of ops in the script's own graph.

In: Python functions of a script. Out: `Level`s. A function is called once. Its ops stay in the graph that the script
works on, so variables, collections, gradients and layers are what they always are; but no kernel of TensorFlow runs
them. What goes in and out of a level is a placeholder. A loop is an item of the level that it stands in, and its body
is a level of its own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from openipu_tensorflow.graphs.device_ops import is_acting


@dataclass(eq=False)
class Enqueue:
    """Tensors that go to an outfeed whenever the level runs."""

    queue: Any
    tensors: list[Any]
    marker: Any  # an op without work, which stands for it in the graph
    accumulates: bool = False  # the sum over the micro-batches of an update is enqueued once


@dataclass(eq=False)
class Level:
    """Ops that run one round at a time."""

    start: int  # the graph's version when it began
    arguments: list[Any] = field(default_factory=list)  # carried values
    infeeds: list[tuple[Any, list[Any]]] = field(default_factory=list)  # queues, and what an element of each becomes
    items: list[Any] = field(default_factory=list)  # loops and pipelines, as they were made
    enqueues: dict[str, Enqueue] = field(default_factory=dict)  # by the marker's name
    outputs: list[Any] = field(default_factory=list)
    targets: list[Any] = field(default_factory=list)  # ops that run for what they do
    end: int = 0
    inner: list[tuple[int, int]] = field(default_factory=list)  # versions that belong to levels inside
    marks: dict[str, Any] = field(default_factory=dict)  # what optimizers note about this level
    always: list[Any] = field(default_factory=list)  # markers of items that run whether or not anything asks for them


@dataclass(eq=False)
class LoopItem:
    """A loop: its body runs `count` times, or while its condition holds."""

    body: Level
    initial: list[Any]
    results: list[Any]  # placeholders
    marker: Any
    count: Any = None  # a whole number, or a tensor
    repeats: int = 1  # pipelines: how often they go over so many micro-batches
    condition: Level | None = None
    limit: int | None = None  # maximum_iterations
    stages: int = 0  # pipelines: whose micro-batches come in groups of so many

    @property
    def levels(self) -> list[Level]:
        return [self.body] if self.condition is None else [self.body, self.condition]


@dataclass(eq=False)
class Trace:
    """One compilation under way: the levels that are open, innermost last."""

    graph: Any
    device: str
    open: list[Level] = field(default_factory=list)
    outside: int = 0  # depth of outside_compilation_scope

    @property
    def level(self) -> Level:
        return self.open[-1]


_local = threading.local()


def current_trace() -> Trace | None:
    """The compilation that this thread is tracing."""
    stack: list[Trace] = getattr(_local, "stack", [])
    return stack[-1] if stack else None


@contextlib.contextmanager
def trace_computation(graph: Any, device: str) -> Iterator[Trace]:
    """Trace what is called inside. Loops become ops with functions, variables have handles: both can be read."""
    from tensorflow.python.ops import control_flow_util, resource_variables_toggle

    trace = Trace(graph, device)
    stack: list[Trace] = getattr(_local, "stack", [])
    _local.stack = [*stack, trace]
    before = control_flow_util.ENABLE_CONTROL_FLOW_V2
    control_flow_util.ENABLE_CONTROL_FLOW_V2 = True
    had_resources = resource_variables_toggle.resource_variables_enabled()
    resource_variables_toggle.enable_resource_variables()
    try:
        yield trace
    finally:
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = before
        if not had_resources:
            resource_variables_toggle.disable_resource_variables()
        _local.stack = stack


@contextlib.contextmanager
def open_level(trace: Trace) -> Iterator[Level]:
    """A level of ops made inside; it belongs to the level around it."""
    level = Level(trace.graph.version)
    trace.open.append(level)
    try:
        yield level
    finally:
        trace.open.pop()
        level.end = trace.graph.version
        level.targets = [*level.targets, *level.always, *_list_acting(trace.graph, level)]
        if trace.open:
            trace.level.inner.append((level.start, level.end))


def _list_acting(graph: Any, level: Level) -> list[Any]:
    """Ops of a level that do something beside what they return, whether or not anybody asked for them."""
    made = graph.get_operations()[level.start : level.end]
    places = range(level.start, level.end)
    return [
        op
        for place, op in zip(places, made, strict=True)
        if is_acting(op) and not any(start <= place < end for start, end in level.inner)
    ]


def list_effects(graph: Any, level: Level) -> list[Any]:
    """What a level of a function does: that runs, whether or not anybody reads its results."""
    made = graph.get_operations()[level.start :]
    inner = [place for first, last in level.inner for place in range(first, last)]
    inside = {graph.get_operations()[place].name for place in inner}
    writes = [op for op in made if op.op_def.is_stateful and not op.outputs and op.name not in inside]
    return [*writes, *(item.marker for item in level.items), *(entry.marker for entry in level.enqueues.values())]


def list_initializers(graph: Any) -> set[str]:
    """Names of the ops that give variables their first values."""
    found = set()
    for collection in ("variables", "local_variables"):
        found |= {getattr(entry.initializer, "name", "") for entry in graph.get_collection(collection)}
    return found - {""}


def make_placeholders(tensors: Sequence[Any], name: str) -> list[Any]:
    """Stand-ins of the same shapes and types."""
    from tensorflow.python.ops import array_ops

    return [array_ops.placeholder(tensor.dtype, tensor.shape, name=f"{name}_{n}") for n, tensor in enumerate(tensors)]


def make_marker(name: str, after: Sequence[Any] = ()) -> Any:
    """An op without work that comes after others."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import control_flow_ops

    with ops.control_dependencies(list(after)):
        return control_flow_ops.no_op(name=name)
