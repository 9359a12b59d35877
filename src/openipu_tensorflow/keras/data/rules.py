"""How many steps a data set has for each replica, and which data sets an IPU can take.

In: a `tf.data` data set, the steps that were asked for, steps for each execution, replicas. Out: `Schedule`; or the
original's error.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

_logger = logging.getLogger("openipu")


@dataclass(frozen=True, slots=True)
class Schedule:
    """One epoch."""

    steps: int  # of each replica
    steps_per_execution: int
    replicas: int

    @property
    def elements(self) -> int:
        """Batches that one execution takes."""
        return self.steps_per_execution * self.replicas


def check_partial_batch(samples: int, batch_size: int) -> None:
    """Arrays must be whole batches."""
    if samples % batch_size:
        raise ValueError(
            "The provided set of data has a partial batch, which could result in data being dropped: "
            f"{samples} samples are {samples // batch_size} batches of {batch_size}, and {samples % batch_size} are "
            f"left over. Either adjust the `batch_size` of your model (currently set to {batch_size}) or pad your data."
        )


def refuse_generator(data: Any) -> None:
    """Shapes of what a generator gives are not known before."""
    raise ValueError(
        f"The provided set of data is of type `{type(data).__name__}` which is not compatible with the IPU's "
        "requirement to know the data shape ahead of time. Please use `tf.data.Dataset.from_generator()` with an "
        "output_signature, to specify the shape of your data."
    )


def check_shapes(dataset: Any) -> None:
    """Every size is known when a program is compiled."""
    for spec in tf.nest.flatten(dataset.element_spec):
        if not spec.shape.is_fully_defined():
            raise ValueError(
                f"The provided set of data contains a shape {spec.shape} which is not fully defined. Executing on IPU "
                "requires all dataset elements to have fully defined shapes. If using batch() make sure to set "
                "`drop_remainder=True`."
            )


def narrow(dataset: Any) -> Any:
    """float64 becomes float32: an IPU has no double."""
    if all(spec.dtype != tf.float64 for spec in tf.nest.flatten(dataset.element_spec)):
        return dataset

    def cast(*element: Any) -> Any:
        found = tf.nest.map_structure(
            lambda tensor: tf.cast(tensor, tf.float32) if tensor.dtype == tf.float64 else tensor, element
        )
        return found[0] if len(found) == 1 and not isinstance(dataset.element_spec, tuple) else found

    return dataset.map(cast)


def count_batches(dataset: Any) -> int | None:
    """None where they cannot be counted; -1 for a data set without end."""
    size = int(dataset.cardinality())
    if size == tf.data.INFINITE_CARDINALITY:
        return -1
    return None if size == tf.data.UNKNOWN_CARDINALITY else size


def plan_epoch(size: int | None, steps: int | None, steps_per_execution: int, replicas: int) -> Schedule:
    """`size`: batches of the data set; `steps`: those that were asked for. Both count batches of all replicas."""
    total = steps if steps is not None else size
    if total is None or total < 0:
        raise ValueError(
            "Could not infer the size of the data. You must specify the number of steps to run: steps_per_epoch of "
            "fit(), steps of evaluate() and predict(), validation_steps for validation data."
        )
    if steps is not None and size is not None and 0 <= size < steps:
        raise ValueError(
            f"Your input does not have enough data. Make sure that your dataset or generator can generate at least "
            f"{steps} batches (currently it can only generate {size} batches). You may need to use the repeat() "
            "function when building your dataset."
        )
    if total % replicas and size is not None and size >= 0:
        _logger.warning(
            "Dataset of length %d is being evenly distributed between %d replicas. The remaining %d batch%s will be "
            "dropped.", total, replicas, total % replicas, "es" if total % replicas > 1 else "",
        )  # fmt: skip
    each = total // replicas
    where = " to this replica" if replicas > 1 else ""
    if each == 0:
        raise ValueError(
            f"The provided dataset contains {total} items, but all {replicas} replicas are requested to run 1 steps "
            f"each. Make sure the dataset contains at least {replicas} items."
        )
    if steps_per_execution > each:
        _logger.warning(
            "`steps_per_execution` has been set to %d but the dataset provided%s only contains %d batches. Using %d as "
            "`steps_per_execution`.", steps_per_execution, where, each, each,
        )  # fmt: skip
        steps_per_execution = each
    if each % steps_per_execution:
        raise ValueError(
            f"`steps_per_execution` ({steps_per_execution}) must be a divisor of the number of batches ({each}) in the "
            f"dataset provided{where}."
        )
    return Schedule(each, steps_per_execution, replicas)
