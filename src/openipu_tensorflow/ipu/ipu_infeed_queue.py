"""`ipu.ipu_infeed_queue`: data sets that a program on an IPU takes its elements from.

In: a `tf.data` data set with known shapes. Out: a queue whose elements stand in traced loops as tensors, and which
delivers them as arrays when a program runs: one element for each replica and round.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy

from openipu_tensorflow.ipu.clusters.providers import Runner, register_provider
from openipu_tensorflow.ipu.clusters.results import warn_of_older
from openipu_tensorflow.ipu.clusters.tracing import current_trace, make_marker
from openipu_tensorflow.ipu.configuration.flags import SyntheticDataCategory, read_flags

_numbers = itertools.count()
_REFUSED = ("int64", "uint64", "float64", "string", "complex64", "complex128", "variant", "resource")


class IPUInfeedQueue:
    """A data set as a stream of the host."""

    def __init__(
        self,
        dataset: Any,
        device_ordinal: int | None = None,
        prefetch_depth: int | None = None,
        optimise_latency: bool = False,
        **kwargs: Any,
    ) -> None:
        from tensorflow.python.data.ops import dataset_ops
        from tensorflow.python.eager import context

        warn_of_older(kwargs, "IPUInfeedQueue")
        depth = prefetch_depth
        self._check_depth(depth)
        if device_ordinal is not None and (not isinstance(device_ordinal, int) or device_ordinal < 0):
            raise ValueError(f"Device ordinal must be >= 0, and is {device_ordinal!r}.")
        self._prefetch_depth = 3 if depth is None else depth
        self._optimise_latency = bool(optimise_latency)  # a choice of buffers, not of data
        self._device_ordinal = device_ordinal or 0
        self._id = next(_numbers)
        self._structure = dataset.element_spec
        for place, shape in enumerate(self._flat_shapes()):
            if not shape.is_fully_defined():
                raise ValueError(
                    f"Output shape {shape} of component {place} of the data set is not fully defined, and on an IPU "
                    "every size is known when a program is compiled. A batch is cut short at the end of the data "
                    "unless it is made with dataset.batch(..., drop_remainder=True)."
                )
        self._dataset = dataset
        self._eager = context.executing_eagerly()
        self._eager_iterator: Any = _iterate(dataset) if self._eager else None
        self._begin: Any = None  # the op of `initializer`
        self._next: list[Any] = []
        self._started: weakref.WeakSet[Any] = weakref.WeakSet()  # sessions
        self._initializer_used = False
        self._dequeued = False
        if not self._eager:
            iterator = dataset_ops.make_initializable_iterator(dataset)
            self._next = self._flatten(iterator.get_next())
            # At once: an op that others wait for changes, which one that a session has seen must not.
            self._begin = make_marker(f"infeed_{self._id}/initialized", [iterator.initializer])
            register_provider(self._begin.graph, _Begin(self), self._begin)

    @staticmethod
    def _check_depth(depth: int | None) -> None:
        if depth is not None and (not isinstance(depth, int) or not 0 < depth < 256):
            raise ValueError(f"prefetch_depth must be > 0 and < 256, and is {depth!r}.")

    def _flat_shapes(self) -> list[Any]:
        return [spec.shape for spec in self._flat_specs()]

    def _flat_specs(self) -> list[Any]:
        from tensorflow.python.util import nest

        return list(nest.flatten(self._structure))

    def _flatten(self, element: Any) -> list[Any]:
        from tensorflow.python.util import nest

        return list(nest.flatten(element))

    @property
    def number_of_tuple_elements(self) -> int:
        """How many tensors an element has."""
        return len(self._flat_specs())

    @property
    def dequeued(self) -> bool:
        """Has a program been traced that takes elements from here?"""
        return self._dequeued

    def _dequeue(self) -> Any:
        """The next element, as tensors of the program that is being traced."""
        from tensorflow.python.ops import array_ops
        from tensorflow.python.util import nest

        trace = current_trace()
        if trace is None:
            raise RuntimeError(
                "An IPUInfeedQueue gives its elements to programs: pass it to ipu.loops.repeat or pipeline inside "
                "ipu.ipu_compiler.compile."
            )
        self._dequeued = True
        made = [
            array_ops.placeholder(spec.dtype, spec.shape, name=f"infeed_{self._id}_{place}")
            for place, spec in enumerate(self._flat_specs())
        ]
        trace.level.infeeds.append((self, made))
        return nest.pack_sequence_as(self._structure, made)

    def _describe_arguments(self) -> tuple[int, list[str]]:
        """How many values a function gets by position, and which by name."""
        positional, named = self._split_arguments(self._structure)
        return len(positional), list(named)

    def _split_arguments(self, element: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """An element of names goes by name, one of several values by position."""
        if isinstance(element, (tuple, list)) and len(element) == 1 and isinstance(element[0], dict):
            element = element[0]
        if isinstance(element, dict) and all(isinstance(name, str) for name in element):
            return (), dict(element)
        return (tuple(element), {}) if isinstance(element, (tuple, list)) else ((element,), {})

    @property
    def initializer(self) -> Any:
        """The op that begins the data set; a session runs it before the first program."""
        if self._eager:  # the queue is ready as it is
            return None
        if self._initializer_used:
            raise ValueError(
                "The IPUInfeedQueue `initializer` function can only be accessed once. Keep the op that it returned."
            )
        self._initializer_used = True
        return self._begin

    @property
    def deleter(self) -> Any:
        """The op that ends the data set."""
        if self._eager:
            self._eager_iterator = None
            return None
        marker = make_marker(f"infeed_{self._id}/deleted")
        register_provider(marker.graph, _End(self), marker)
        return marker

    def begin(self, session: Any) -> None:
        """A session has begun the data set."""
        from tensorflow.python.framework import errors

        for place, spec in enumerate(self._flat_specs()):
            if spec.dtype.name in _REFUSED:
                raise errors.FailedPreconditionError(
                    None,
                    None,
                    f"Unsupported datatype {spec.dtype.name} on index {place} of feed operation infeed_{self._id}. "
                    "Cast it in the data set: dataset.map(lambda x: tf.cast(x, tf.int32)).",
                )
            if 0 in spec.shape.as_list():
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"Detected an input tensor to an infeed queue with a dimension of size 0: index {place} of "
                    f"infeed_{self._id} is {spec.shape}.",
                )
        self._started.add(session)

    def end(self, session: Any) -> None:
        """A session has ended the data set."""
        from tensorflow.python.framework import errors

        if session not in self._started:
            raise errors.NotFoundError(
                None, None, f"Infeed with id='infeed_{self._id}' is not there: run its initializer first."
            )
        self._started.discard(session)

    def take(self, session: Any, run: Runner, count: int) -> list[numpy.ndarray[Any, Any]]:
        """The next `count` elements: for each tensor one array with an axis for them in front."""
        from tensorflow.python.framework import errors

        flags = read_flags()
        if flags["null_data_feed"] or SyntheticDataCategory.Infeed in flags.categories:
            return [make_up(spec, count, str(flags["synthetic_data_initializer"])) for spec in self._flat_specs()]
        if not self._eager and session not in self._started:
            raise errors.FailedPreconditionError(
                None,
                None,
                f"The infeed queue infeed_{self._id} has not been initialized: run session.run(queue.initializer) "
                "before the program.",
            )
        rows: list[Sequence[Any]] = []
        try:
            while len(rows) < count:
                rows += [self._flatten(next(self._eager_iterator)) if self._eager else run(self._next)]
        except (errors.OutOfRangeError, StopIteration):
            raise errors.OutOfRangeError(
                None,
                None,
                f"End of sequence: the data set of infeed_{self._id} has reached its end after {len(rows)} of the "
                f"{count} elements that the program takes next. Add .repeat() to it, or run fewer rounds.",
            ) from None
        return [numpy.stack([numpy.asarray(row[place]) for row in rows]) for place in range(len(rows[0]))]

    @property
    def bytes_per_element(self) -> int:
        """The size of one element."""
        return sum(spec.shape.num_elements() * spec.dtype.size for spec in self._flat_specs())


def _iterate(dataset: Any) -> Any:
    """TensorFlow's own iterator, also in the scope of a strategy."""
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator

    return OwnedIterator(dataset)


def make_up(spec: Any, count: int, initializer: str) -> numpy.ndarray[Any, Any]:
    """Data that no data set was asked for."""
    shape, kind = (count, *spec.shape.as_list()), spec.dtype.as_numpy_dtype
    rng = numpy.random.default_rng(0)
    if initializer in ("random", "uniform") and spec.dtype.is_floating:
        return rng.uniform(size=shape).astype(kind)
    if initializer == "normal" and spec.dtype.is_floating:
        return rng.normal(size=shape).astype(kind)
    return numpy.full(shape, int(initializer) if initializer.lstrip("-").isdigit() else 0, kind)


class _Begin:
    """What running the initializer does besides."""

    inputs: Sequence[Any] = ()
    outputs: Sequence[Any] = ()

    def __init__(self, queue: IPUInfeedQueue) -> None:
        self._queue = queue

    def provide(self, session: Any, run: Runner, values: Sequence[Any]) -> Sequence[Any]:
        self._queue.begin(session)
        return ()


class _End(_Begin):
    def provide(self, session: Any, run: Runner, values: Sequence[Any]) -> Sequence[Any]:
        self._queue.end(session)
        return ()


def __getattr__(name: str) -> Any:
    """Iterators of TensorFlow 2, by the place that the original has them in."""
    if name in ("IPUIterator", "IPUOwnedIterator"):
        from openipu_tensorflow.functions.feeding import IPUOwnedIterator

        return IPUOwnedIterator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
