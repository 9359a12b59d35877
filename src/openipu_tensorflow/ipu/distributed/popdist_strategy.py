"""`ipu.distributed.popdist_strategy`: one model on the replicas of all instances of a job.

In: poprun's environment. Out: a strategy. Variables begin with the values of instance 0; gradients are summed over the
replicas of all instances before they are applied; what the host reduces is reduced between the hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tensorflow.python.distribute import one_device_strategy

import popdist
import tensorflow as tf
from openipu_tensorflow.ipu.clusters.tracing import current_trace
from openipu_tensorflow.ipu.distributed.host_collective_ops import allreduce, broadcast
from openipu_tensorflow.ipu.ipu_strategy import IPUStrategyV1


class PopDistStrategy(IPUStrategyV1):
    """Data parallelism over all replicas that poprun has started.

    Args:
        ipu_device: the name of this instance's device.
        add_ipu_cross_replica_reductions: reduce in programs of TensorFlow 1, too; without, they reduce what they want.
        enable_dataset_iterators: in the scope, `iter(dataset)` is an infeed of programs.
        enable_keras_extensions: models that are made in the scope run on the device.
    """

    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        add_ipu_cross_replica_reductions: bool = True,
        enable_dataset_iterators: bool = True,
        enable_keras_extensions: bool = True,
    ) -> None:
        popdist.init()
        super().__init__(
            ipu_device,
            enable_dataset_iterators=enable_dataset_iterators,
            enable_keras_extensions=enable_keras_extensions,
        )
        self._extended = PopDistExtended(self, self._cpu_device, bool(add_ipu_cross_replica_reductions))
        self._extended._retrace_functions_for_each_device = False

    def update_ipu_config(self, config: Any) -> Any:
        """Write this instance's number into a configuration."""
        distribution = config.experimental.multi_replica_distribution
        distribution.process_count = popdist.getNumInstances()
        distribution.process_index = popdist.getInstanceIndex()
        return config

    @contextmanager
    def scope(self) -> Iterator[Any]:
        """Variables made inside begin with the values of instance 0."""
        with super().scope() as scope, tf.variable_creator_scope(_create_equal):
            yield scope

    def reduce(self, reduce_op: Any, value: Any, axis: Any = None) -> Any:
        """Over the replicas of all instances inside a program, and over the instances outside."""
        if axis is not None:
            value = tf.nest.map_structure(lambda entry: _reduce_axis(reduce_op, entry, axis), value)
        return tf.nest.map_structure(lambda entry: self._extended.reduce_value(reduce_op, entry), value)

    def experimental_run_v2(
        self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """What `run` was called in TensorFlow 1."""
        return self.run(fn, args, kwargs)


class PopDistExtended(one_device_strategy.OneDeviceExtended):  # type: ignore[misc]
    """How values are reduced."""

    def __init__(self, container_strategy: Any, device: str, reduces: bool) -> None:
        super().__init__(container_strategy, device)
        self._add_ipu_cross_replica_reductions = reduces

    @property
    def _num_replicas_in_sync(self) -> int:
        return popdist.getNumTotalReplicas()

    def reduce_value(self, reduce_op: Any, value: Any) -> Any:
        """In a program of TensorFlow 1 by the device, elsewhere by the host."""
        if current_trace() is None:
            return allreduce(value, reduce_op)
        if not self._add_ipu_cross_replica_reductions:
            return tf.identity(value)
        from openipu_tensorflow.ipu.ops import cross_replica_ops

        mean = getattr(reduce_op, "value", reduce_op) == "MEAN"
        return cross_replica_ops.cross_replica_mean(value) if mean else cross_replica_ops.cross_replica_sum(value)

    def _reduce_to(self, reduce_op: Any, value: Any, destinations: Any, options: Any) -> Any:
        """Of gradients in replica context: where a program is cut at them, it reduces them itself."""
        return value if current_trace() is None else self.reduce_value(reduce_op, value)

    def _call_for_each_replica(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if current_trace() is None:
            return super()._call_for_each_replica(fn, args, kwargs)
        with one_device_strategy._OneDeviceReplicaContext(self._container_strategy()):  # ops stay where they are
            return fn(*args, **kwargs)


def _create_equal(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
    """A variable that begins with the value of instance 0."""
    given = kwargs.get("initial_value")
    if popdist.getNumInstances() > 1 and given is not None:

        def begin() -> Any:
            value = given() if callable(given) else given
            return broadcast(tf.convert_to_tensor(value, dtype=kwargs.get("dtype")))

        kwargs["initial_value"] = begin if callable(given) or not tf.executing_eagerly() else begin()
    return next_creator(**kwargs)


def _reduce_axis(reduce_op: Any, value: Any, axis: int) -> Any:
    mean = str(getattr(reduce_op, "value", reduce_op)).upper() == "MEAN"
    return tf.reduce_mean(value, axis) if mean else tf.reduce_sum(value, axis)


PopDistExtendedV1 = PopDistExtended
