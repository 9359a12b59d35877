"""Iterates over the executions of an epoch.

In: what `fit`, `evaluate` or `predict` got. Out: for each execution its first and last step, and a source of the
batches of all its steps and replicas.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from keras.src.backend.tensorflow import trainer as keras_trainer
from keras.src.trainers import data_adapters
from keras.src.trainers.epoch_iterator import EpochIterator

import tensorflow as tf
from openipu_tensorflow.keras.data.arrays import find_ordered_arrays
from openipu_tensorflow.keras.data.chunks import ChunkSource, cut
from openipu_tensorflow.keras.data.rules import (
    Schedule,
    check_partial_batch,
    check_shapes,
    count_batches,
    narrow,
    plan_epoch,
    refuse_generator,
)


@dataclass(frozen=True, slots=True)
class Feeding:
    """How a run takes its data."""

    replicas: int | Callable[[Any], int] = 1  # a function of a batch's types, where a model's stages depend on them
    prefetch: int = 3

    def count_replicas(self, element: Any) -> int:
        return self.replicas(element) if callable(self.replicas) else self.replicas


_current: contextvars.ContextVar[Feeding | None] = contextvars.ContextVar("feeding", default=None)


@contextlib.contextmanager
def feed(how: Feeding) -> Iterator[None]:
    """Epoch iterators that are made in it are those of an IPU."""
    token = _current.set(how)
    try:
        yield
    finally:
        _current.reset(token)


def install_epochs() -> None:
    """Have Keras' trainer make our iterator where a run is fed to an IPU; a second call changes nothing."""
    if getattr(keras_trainer, "_ipu_original_iterator", None) is not None:
        return
    original = keras_trainer.TFEpochIterator

    def make(*args: Any, **kwargs: Any) -> Any:
        how = _current.get()
        return original(*args, **kwargs) if how is None else IpuEpochIterator(how, *args, **kwargs)

    keras_trainer._ipu_original_iterator = original
    keras_trainer.TFEpochIterator = make


class IpuEpochIterator(EpochIterator):  # type: ignore[misc]
    """As Keras' own, by executions instead of batches."""

    def __init__(self, how: Feeding, *args: Any, distribute_strategy: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.steps_per_execution: int
        self._epoch_iterator: Any
        adapter = self.data_adapter
        if isinstance(adapter, data_adapters.GeneratorDataAdapter):
            refuse_generator(kwargs.get("x", args[0] if args else None))
        if isinstance(adapter, data_adapters.ArrayDataAdapter) and adapter.has_partial_batch:
            full = adapter.num_batches - 1
            check_partial_batch(full * adapter.batch_size + adapter.partial_batch_size, adapter.batch_size)
        arrays = find_ordered_arrays(adapter)
        dataset: Any = None if arrays is not None else _make_dataset(adapter)
        self.element_spec = dataset.element_spec if arrays is None else arrays.element_spec
        replicas = how.count_replicas(self.element_spec)
        self.schedule: Schedule = plan_epoch(
            adapter.num_batches or count_batches(dataset), self.steps_per_epoch, self.steps_per_execution, replicas
        )
        self.steps_per_execution = self.schedule.steps_per_execution
        self._chunk = self.schedule.elements  # batches in one element of the iterator
        if arrays is not None:
            self._start: Callable[[], Any] = partial(arrays.read, self._chunk)
        else:
            chunks = cut(dataset, self.schedule.elements, how.prefetch)
            self._chunk, self._start = chunks.size, partial(make_iterator, chunks.dataset)
        self._iterator: Any = None

    @property
    def num_batches(self) -> int:
        return int(self.schedule.steps)

    def reset(self) -> None:
        self._iterator = None
        self._epoch_iterator = None

    def _enumerate_iterator(self) -> Iterator[tuple[int, int, Any]]:
        self.data_adapter.on_epoch_begin()
        if self._iterator is None or self.steps_per_epoch is None:
            self._iterator = self._start()
        size = self.schedule.steps_per_execution
        for step in range(0, self.schedule.steps, size):
            yield step, step + size - 1, Execution(self._iterator, self._chunk, self.schedule, self.element_spec)
        self.data_adapter.on_epoch_end()

    def __next__(self) -> Any:
        return next(self._epoch_iterator)

    @contextlib.contextmanager
    def catch_stop_iteration(self) -> Iterator[None]:
        try:
            yield
        except (StopIteration, tf.errors.OutOfRangeError):
            self._interrupted_warning()
            self._iterator = None
            self.data_adapter.on_epoch_end()


@dataclass(frozen=True, eq=False)
class Execution:
    """The data of one execution."""

    iterator: Any
    chunk: int  # batches in one element of the iterator
    schedule: Schedule
    element_spec: Any

    def open(self) -> ChunkSource:
        """Its batches, flat."""
        return ChunkSource(self.iterator, self.chunk)


def make_iterator(dataset: Any) -> Any:
    """TensorFlow's own iterator, also where the scope of a strategy has another one."""
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator

    return OwnedIterator(dataset)


def execute_batch(batch: Any) -> Execution:
    """One batch as an execution of one step: `train_on_batch`."""
    element = tf.nest.map_structure(tf.convert_to_tensor, tuple(part for part in batch if part is not None))
    dataset = narrow(tf.data.Dataset.from_tensors(element))
    return Execution(make_iterator(dataset), 1, Schedule(1, 1, 1), dataset.element_spec)


def _make_dataset(adapter: Any) -> Any:
    """Of batches as an IPU takes them."""
    dataset = adapter.get_tf_dataset()
    if isinstance(adapter, data_adapters.ArrayDataAdapter):
        dataset = _fix_batch(dataset, adapter.batch_size)
    check_shapes(dataset)
    return narrow(dataset)


def _fix_batch(dataset: Any, batch_size: int) -> Any:
    """All batches of arrays are whole, which Keras does not say."""
    specs = tf.nest.flatten(dataset.element_spec)
    if all(spec.shape.is_fully_defined() for spec in specs):
        return dataset

    def fix(*element: Any) -> Any:
        flat = [tf.ensure_shape(tensor, [batch_size, *tensor.shape[1:]]) for tensor in tf.nest.flatten(element)]
        found = tf.nest.pack_sequence_as(element, flat)
        return found if isinstance(dataset.element_spec, tuple) else found[0]

    return dataset.map(fix)


def describe_feeding(options: Any, replicas: int | Callable[[Any], int]) -> Feeding:
    """From a model's options."""
    depth = options.infeed_options.get("prefetch_depth")
    made = Feeding(replicas=replicas)
    return made if depth is None else dataclasses.replace(made, prefetch=depth)
