"""Iterators and outfeeds inside of a function that is traced for an IPU.

In: `next(iterator)` and `queue.enqueue(...)` of the user's function. Out: placeholders for what comes in, and a note of
what goes out, each with the graph that it stands in: that of the function, or of a loop's body.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf


@dataclass(frozen=True, eq=False)
class Taken:
    """One `next(iterator)`."""

    iterator: IPUOwnedIterator
    graph: Any
    tensors: list[Any]


@dataclass(frozen=True, eq=False)
class Handed:
    """One `queue.enqueue(...)`."""

    queue: Any
    graph: Any
    structure: Any
    tensors: list[Any]


@dataclass(eq=False)
class FunctionTrace:
    """What a function does with feeds, in the order in which it does it."""

    taken: list[Taken] = field(default_factory=list)
    handed: list[Handed] = field(default_factory=list)
    restarts: bool = False  # can the function be traced in another way, should it have loops of a device?

    def enqueue(self, queue: Any, tensors: Any) -> Any:
        graph = tf.compat.v1.get_default_graph()
        if any(entry.queue is queue and entry.graph is graph for entry in self.handed):
            raise ValueError(
                "An outfeed can only be enqueued once in a graph, and this one has been. Hand out several tensors "
                "together, as a tuple or a dictionary, or use a queue for each."
            )
        structure = tf.nest.map_structure(tf.convert_to_tensor, tensors)
        self.handed.append(Handed(queue, graph, structure, tf.nest.flatten(structure)))
        return tf.no_op()


class DeviceLoop(BaseException):
    """A loop or a pipeline of a device inside of a function that is traced: it has to be traced in another way. It is
    no error: what the user calls must not catch it."""


_current: contextvars.ContextVar[FunctionTrace | None] = contextvars.ContextVar("function_trace", default=None)


def current_function() -> FunctionTrace | None:
    """The trace that is under way."""
    return _current.get()


def may_restart() -> bool:
    """Is a function traced that `DeviceLoop` has traced in another way?"""
    trace = _current.get()
    return trace is not None and trace.restarts


def is_inferring_shapes() -> bool:
    """Does Keras look only for the shapes of a layer's results?"""
    from keras.src.backend.common.stateless_scope import in_stateless_scope
    from keras.src.backend.common.symbolic_scope import in_symbolic_scope

    return bool(in_stateless_scope() or in_symbolic_scope())


@contextlib.contextmanager
def trace_feeds(restarts: bool = False) -> Iterator[FunctionTrace]:
    """Note what a function does with feeds."""
    trace = FunctionTrace(restarts=restarts)
    token = _current.set(trace)
    try:
        yield trace
    finally:
        _current.reset(token)


class IPUOwnedIterator:
    """What `iter(dataset)` is in the scope of an IPUStrategy: its elements go to programs."""

    def __init__(self, dataset: Any) -> None:
        from openipu_tensorflow.keras.data.rules import check_shapes, narrow

        check_shapes(dataset)
        dataset = narrow(dataset)
        self._dataset = dataset
        self.element_spec = dataset.element_spec
        self._stacked: dict[int, Any] = {}
        self._source: Any = None

    def __iter__(self) -> IPUOwnedIterator:
        return self

    def __next__(self) -> Any:
        return self.get_next()

    def get_next(self, name: str | None = None) -> Any:
        """The next element, as tensors of the function that is traced."""
        trace = current_function()
        if trace is None or tf.executing_eagerly():
            raise RuntimeError(
                "Accessing dataset elements is not supported outside of a function that an IPUStrategy runs: call "
                "next(iterator) in a tf.function, and give that to strategy.run(). IPUStrategy("
                "enable_dataset_iterators=False) leaves iterators as they are."
            )
        made = [tf.compat.v1.placeholder(spec.dtype, spec.shape, name="infeed") for spec in self._list_specs()]
        trace.taken.append(Taken(self, tf.compat.v1.get_default_graph(), made))
        return tf.nest.pack_sequence_as(self.element_spec, made)

    @property
    def _infeed_queue(self) -> IPUOwnedIterator:
        return self

    @property
    def deleter(self) -> None:
        """Begin again with the next program."""
        self._source = None

    def _list_specs(self) -> list[Any]:
        return list(tf.nest.flatten(self.element_spec))

    def take(self, count: int) -> list[Any]:
        """The next elements, stacked: for each tensor [count, ...]."""
        from openipu_tensorflow.keras.data.epochs import make_iterator

        if self._source is None:
            self._source = make_iterator(self._dataset)
        rows = []
        for _ in range(count):
            try:
                rows.append(tf.nest.flatten(next(self._source)))
            except StopIteration:
                raise tf.errors.OutOfRangeError(
                    None,
                    None,
                    f"End of sequence: the data set has ended after {len(rows)} of the {count} elements that the "
                    "program takes next. Add .repeat() to it, or run fewer steps.",
                ) from None
        return [tf.stack(parts) for parts in zip(*rows, strict=True)]


def install_iterators() -> None:
    """Data sets make our iterators in the scope of an IPUStrategy; a second call changes nothing."""
    from tensorflow.python.data.ops import dataset_ops

    from openipu_tensorflow.ipu.ipu_strategy import find_ipu_strategy

    original = dataset_ops.DatasetV2.__iter__
    if getattr(original, "_ipu", False):
        return

    def iterate(self: Any) -> Any:
        strategy = find_ipu_strategy()
        if strategy is None or not strategy._enable_dataset_iterators or not tf.executing_eagerly():
            return original(self)
        return IPUOwnedIterator(self)

    iterate._ipu = True  # type: ignore[attr-defined]
    dataset_ops.DatasetV2.__iter__ = iterate
