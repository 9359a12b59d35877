"""`ipu.dataset_benchmark`: how fast a data set delivers, without any program.

In: a data set, or the one of an infeed. Out: an op; running it goes through the data and gives a text in JSON, with an
entry for each epoch.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from typing import Any

import numpy

from openipu_tensorflow.ipu.clusters.providers import Runner, register_provider
from openipu_tensorflow.ipu.ipu_infeed_queue import IPUInfeedQueue

_logger = logging.getLogger("openipu")


def dataset_benchmark(
    dataset: Any,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    apply_debug_options: bool = True,
    do_memcpy: bool = True,
) -> Any:
    """Elements, bytes and seconds of each epoch.

    `apply_debug_options` belongs to TensorFlow's own debugging of data sets; those options are part of the data set.
    """
    from tensorflow.python.data.ops import dataset_ops
    from tensorflow.python.framework import dtypes
    from tensorflow.python.ops import array_ops

    if number_of_epochs < 1 or elements_per_epochs < 1:
        raise ValueError("Expected `number_of_epochs` and `elements_per_epochs` to be at least 1.")
    if not isinstance(dataset, dataset_ops.DatasetV2):
        raise TypeError(f"Expected `dataset` argument to be of type `tf.data.Dataset`, but got {dataset!r} instead.")
    iterator = dataset_ops.make_initializable_iterator(dataset)
    text = array_ops.placeholder(dtypes.string, [1], name="dataset_benchmark/text")
    benchmark = _Benchmark(dataset, iterator, text, number_of_epochs, elements_per_epochs, print_stats, do_memcpy)
    register_provider(text.graph, benchmark)
    return array_ops.identity(text)


def infeed_benchmark(
    infeed_queue: IPUInfeedQueue,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    do_memcpy: bool = True,
) -> Any:
    """As `dataset_benchmark`, of an infeed's data set."""
    if not isinstance(infeed_queue, IPUInfeedQueue):
        raise TypeError(
            "Expected `infeed_queue` argument to be of type `ipu.ipu_infeed_queue.IPUInfeedQueue`, but got "
            f"{infeed_queue!r} instead."
        )
    return dataset_benchmark(
        infeed_queue._dataset, number_of_epochs, elements_per_epochs, print_stats, do_memcpy=do_memcpy
    )


class _Benchmark:
    inputs: Sequence[Any] = ()

    def __init__(
        self, dataset: Any, iterator: Any, text: Any, epochs: int, elements: int, shown: bool, copies: bool
    ) -> None:
        from tensorflow.python.util import nest

        self.outputs: Sequence[Any] = [text]
        self._specs = nest.flatten(dataset.element_spec)
        self._initializer, self._next = iterator.initializer, nest.flatten(iterator.get_next())
        self._epochs, self._elements, self._shown, self._copies = epochs, elements, shown, copies

    def provide(self, session: Any, run: Runner, values: Sequence[Any]) -> Sequence[Any]:
        from tensorflow.python.framework import errors

        if any(0 in (spec.shape.as_list() or ()) for spec in self._specs):
            raise errors.InvalidArgumentError(
                None, None, "Detected a tensor in the dataset with a dimension of size 0: nothing can be measured."
            )
        run(self._initializer)
        measured = [self._measure(run) for _ in range(self._epochs)]
        for number, epoch in enumerate(measured if self._shown else ()):
            _logger.info("Epoch %d: %.0f elements/s, %.3f GB/s", number, *list(epoch.values())[-2:])
        return [numpy.array([json.dumps({"epochs": measured})], dtype=object)]

    def _measure(self, run: Runner) -> dict[str, float]:
        start, size = time.perf_counter(), 0
        for _ in range(self._elements):
            found = [numpy.asarray(value) for value in run(self._next)]
            size += sum(value.nbytes for value in found)
            if self._copies:
                found = [value.copy() for value in found]
        seconds = time.perf_counter() - start
        return {
            "elements_processed": self._elements,
            "total_bytes_processed": size,
            "time_elapsed": seconds,
            "elements_per_second": self._elements / seconds,
            "bandwidth": size / seconds / 1e9,
        }
