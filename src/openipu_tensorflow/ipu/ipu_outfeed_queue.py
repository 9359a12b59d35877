"""`ipu.ipu_outfeed_queue`: results that a program on an IPU hands out while it runs.

In: `enqueue` in a traced program. Out: `dequeue`, with all values since the last time, or the last one.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import numpy

from openipu_tensorflow.ipu.clusters.providers import Runner, register_provider
from openipu_tensorflow.ipu.clusters.results import warn_of_older
from openipu_tensorflow.ipu.clusters.tracing import Enqueue, current_trace, make_marker
from openipu_tensorflow.ipu.configuration.flags import SyntheticDataCategory, read_flags

_numbers = itertools.count()


class IPUOutfeedMode(Enum):
    """Which values `dequeue` gives: all since the last time, or the last one."""

    ALL = "all"
    LAST = "get_last"


class IPUOutfeedQueue:
    """A stream to the host."""

    def __init__(
        self,
        outfeed_mode: IPUOutfeedMode | None = None,
        device_ordinal: int | None = None,
        buffer_depth: int = 3,
        optimise_latency: bool = False,
        **kwargs: Any,
    ) -> None:
        warn_of_older(kwargs, "IPUOutfeedQueue")
        mode = IPUOutfeedMode.ALL if outfeed_mode is None else outfeed_mode
        if not isinstance(mode, IPUOutfeedMode):
            raise ValueError(f"outfeed_mode must be an IPUOutfeedMode, not {mode!r}.")
        if device_ordinal is not None and (not isinstance(device_ordinal, int) or device_ordinal < 0):
            raise ValueError(f"Device ordinal must be >= 0, and is {device_ordinal!r}.")
        if not isinstance(buffer_depth, int) or buffer_depth < 1:
            raise ValueError(f"buffer_depth must be at least 1, and is {buffer_depth!r}.")
        self._mode = mode
        self._device_ordinal = device_ordinal or 0
        self._buffer_depth, self._optimise_latency = buffer_depth, bool(optimise_latency)  # choices of buffers
        self._id = next(_numbers)
        self._structures: weakref.WeakKeyDictionary[Any, tuple[Any, list[Any]]] = weakref.WeakKeyDictionary()
        self._held: list[list[numpy.ndarray[Any, Any]]] = []  # chunks: for each tensor [values, (replicas,) ...]
        self._eager: tuple[Any, list[Any]] | None = None  # of functions: the nest of what they enqueue
        self._replicas = 1
        self._lock = threading.Condition()
        self._running = 0

    @property
    def mode(self) -> IPUOutfeedMode:
        return self._mode

    def enqueue(self, tensors: Any) -> Any:
        """Hand out tensors, a nest of them or one, whenever the level of the program runs that this stands in."""
        from tensorflow.python.eager import context
        from tensorflow.python.framework import ops
        from tensorflow.python.util import nest

        from openipu_tensorflow.functions.feeding import current_function, is_inferring_shapes

        function, trace = current_function(), current_trace()
        if function is not None and trace is None:
            return function.enqueue(self, tensors)
        if trace is None and is_inferring_shapes():
            return None
        if trace is None and context.executing_eagerly():
            raise RuntimeError(
                "IPUOutfeedQueue.enqueue was called outside a program: call it in a function that is compiled for an "
                "IPU."
            )
        graph = ops.get_default_graph() if trace is None else trace.graph
        if graph in self._structures:
            raise ValueError(
                "An outfeed can only be enqueued once in a graph, and this one has been. Hand out several tensors "
                "together, as a tuple or a dictionary, or use a queue for each."
            )
        structure = nest.map_structure(_to_tensor, tensors)
        flat = list(nest.flatten(structure))
        if not flat:
            raise ValueError("There is nothing to enqueue: give at least one tensor.")
        self._structures[graph] = (structure, flat)
        if graph.building_function:
            self._eager = (structure, flat)
        marker = make_marker(f"outfeed_{self._id}/enqueue", flat)
        if trace is None:  # an op of the script's own graph
            register_provider(graph, _Enqueue(self, flat), marker)
        else:
            trace.level.enqueues[marker.name] = Enqueue(self, flat, marker)
        return marker

    @property
    def enqueued(self) -> bool:
        """Is there an enqueue in the graph that the script works on?"""
        from tensorflow.python.framework import ops

        return ops.get_default_graph() in self._structures

    def dequeue(self, wait_for_completion: bool = False) -> Any:
        """What was enqueued, in the same nest: with an axis for the values in front (ALL), or the last ones (LAST)."""
        from tensorflow.python.eager import context
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import array_ops
        from tensorflow.python.util import nest

        if context.executing_eagerly() and self._eager is not None:
            return self._dequeue_eagerly(wait_for_completion)
        graph = ops.get_default_graph()
        if graph not in self._structures:
            raise ValueError(
                "Trying to dequeue an outfeed which has not been enqueued: call dequeue() after the program with the "
                "enqueue has been compiled."
            )
        structure, flat = self._structures[graph]
        made = [
            array_ops.placeholder(tensor.dtype, None, name=f"outfeed_{self._id}/dequeue_{place}")
            for place, tensor in enumerate(flat)
        ]
        register_provider(graph, _Dequeue(self, made, wait_for_completion))
        return nest.pack_sequence_as(structure, [array_ops.identity(tensor) for tensor in made])

    def put_eagerly(self, structure: Any, values: Sequence[numpy.ndarray[Any, Any]], replicas: int) -> None:
        """What a function has enqueued in one run; `structure`: its tensors."""
        from tensorflow.python.util import nest

        self._eager = (structure, list(nest.flatten(structure)))
        self.put(values, replicas)

    def _dequeue_eagerly(self, wait: bool) -> Any:
        from tensorflow.python.framework import constant_op
        from tensorflow.python.util import nest

        assert self._eager is not None
        structure, flat = self._eager
        shapes = [tuple(tensor.shape.as_list()) for tensor in flat]
        found = self.take(shapes, [tensor.dtype.as_numpy_dtype for tensor in flat], wait)
        made = [constant_op.constant(value, tensor.dtype) for value, tensor in zip(found, flat, strict=True)]
        return nest.pack_sequence_as(structure, made)

    @property
    def deleter(self) -> Any:
        """The op that drops what is held."""
        marker = make_marker(f"outfeed_{self._id}/deleted")
        register_provider(marker.graph, _Delete(self), marker)
        return marker

    def begin(self) -> None:
        """A program that enqueues here starts to run."""
        with self._lock:
            self._running += 1

    def finish(self) -> None:
        """It has ended."""
        with self._lock:
            self._running -= 1
            self._lock.notify_all()

    def put(self, values: Sequence[numpy.ndarray[Any, Any]], replicas: int = 1) -> None:
        """Values of some rounds: for each tensor [rounds, (replicas,) ...]."""
        chunk = [numpy.asarray(value) for value in values]
        if any(0 in value.shape[1:] for value in chunk):
            from tensorflow.python.framework import errors

            raise errors.InvalidArgumentError(
                None,
                None,
                f"Detected an input tensor to an outfeed queue with a dimension of size 0: outfeed_{self._id} would "
                "hand out nothing.",
            )
        if not len(chunk[0]) or SyntheticDataCategory.Outfeed in read_flags().categories:
            return
        with self._lock:
            self._replicas = replicas
            if self._mode is IPUOutfeedMode.LAST:
                self._held = [[value[-1:] for value in chunk]]
            else:
                self._held.append(chunk)

    def drop(self) -> None:
        """Forget what is held."""
        with self._lock:
            self._held.clear()

    def take(self, shapes: Sequence[Any], types: Sequence[Any], wait: bool = False) -> list[numpy.ndarray[Any, Any]]:
        """All values that are held, in order, or the last ones."""
        with self._lock:
            if wait:
                self._lock.wait_for(lambda: not self._running)
            if self._mode is IPUOutfeedMode.LAST:
                if not self._held:
                    from tensorflow.python.framework import errors

                    raise errors.FailedPreconditionError(
                        None,
                        None,
                        f"Trying to get the last value from an outfeed queue before it was enqueued (outfeed_{self._id}"
                        "): run the program first.",
                    )
                return [value[-1] for value in self._held[-1]]
            held, self._held = self._held, []
        if not held:
            inner = (self._replicas,) if self._replicas > 1 else ()
            return [numpy.empty((0, *inner, *shape), dtype=kind) for shape, kind in zip(shapes, types, strict=True)]
        return [numpy.concatenate([chunk[place] for chunk in held]) for place in range(len(held[0]))]

    def __iter__(self) -> IPUOutfeedQueueIterator:
        from tensorflow.python.eager import context

        if not context.executing_eagerly() or self._mode is not IPUOutfeedMode.ALL:
            raise RuntimeError(
                "IPUOutfeedQueue can only be iterated over in eager mode and with mode ALL; in a graph use dequeue()."
            )
        return IPUOutfeedQueueIterator(self)


class IPUOutfeedQueueIterator:
    """The values that a queue holds, one after the other."""

    def __init__(self, queue: IPUOutfeedQueue) -> None:
        self._values = self._split(queue)

    def __iter__(self) -> IPUOutfeedQueueIterator:
        return self

    def __next__(self) -> Any:
        return next(self._values)

    def _split(self, queue: IPUOutfeedQueue) -> Iterator[Any]:
        from tensorflow.python.util import nest

        if queue._eager is None:
            return
        found = queue._dequeue_eagerly(False)
        for place in range(len(nest.flatten(found)[0])):
            yield nest.map_structure(lambda value, place=place: value[place], found)


class ScopedIPUOutfeedQueue(IPUOutfeedQueue):
    """A queue for eager execution; what it holds goes with it."""

    def __init__(self, outfeed_mode: IPUOutfeedMode | None = None, device_ordinal: int | None = None) -> None:
        from tensorflow.python.eager import context

        if not context.executing_eagerly():
            raise RuntimeError("ScopedIPUOutfeedQueue can only be created in eager mode.")
        super().__init__(outfeed_mode, device_ordinal)


def _to_tensor(value: Any) -> Any:
    from tensorflow.python.framework import ops

    return ops.convert_to_tensor(value)


class _Dequeue:
    """Values for the placeholders of a dequeue."""

    inputs: Sequence[Any] = ()

    def __init__(self, queue: IPUOutfeedQueue, outputs: Sequence[Any], wait: bool) -> None:
        self.outputs = outputs
        self._queue, self._wait = queue, wait
        _, flat = queue._structures[outputs[0].graph]
        self._shapes = [tuple(tensor.shape.as_list()) for tensor in flat]
        self._types = [tensor.dtype.as_numpy_dtype for tensor in flat]

    def provide(self, session: Any, run: Runner, values: Sequence[Any]) -> Sequence[Any]:
        return self._queue.take(self._shapes, self._types, self._wait)


class _Enqueue:
    """What is handed out by an op of the script's own graph."""

    outputs: Sequence[Any] = ()

    def __init__(self, queue: IPUOutfeedQueue, tensors: Sequence[Any]) -> None:
        self._queue, self.inputs = queue, tensors

    def provide(self, session: Any, run: Runner, values: Sequence[Any]) -> Sequence[Any]:
        self._queue.put([numpy.asarray(value)[None] for value in values])
        return ()


class _Delete:
    inputs: Sequence[Any] = ()
    outputs: Sequence[Any] = ()

    def __init__(self, queue: IPUOutfeedQueue) -> None:
        self._queue = queue

    def provide(self, session: Any, run: Runner, values: Sequence[Any]) -> Sequence[Any]:
        self._queue.drop()
        return ()
