"""`ipu.ipu_strategy`: models and functions that run on an IPU device.

In: the names of the devices. Out: a strategy. Models that are made in its scope get the IPU's `fit`, `evaluate` and
`predict`; a `tf.function` that its `run` gets becomes an IPU program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorflow.python.distribute import one_device_strategy
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import concrete_function, polymorphic_function

import tensorflow as tf

_REFUSED = (tf.float64,)


class IPUStrategyV1(tf.distribute.OneDeviceStrategy):  # type: ignore[misc]
    """One IPU device. Variables live on the host, and in the device's memory while a program runs.

    Args:
        ipu_device: the name of the device.
        cpu_device: where the host's part is placed.
        enable_dataset_iterators: in the scope, `iter(dataset)` is an infeed of programs.
        enable_keras_extensions: models that are made in the scope run on the device.
    """

    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        cpu_device: str = "/device:CPU:0",
        enable_dataset_iterators: bool = True,
        enable_keras_extensions: bool = True,
    ) -> None:
        super().__init__(cpu_device)
        self._extended = IPUExtended(self, cpu_device)
        self._extended._retrace_functions_for_each_device = False
        self._ipu_device = ipu_device
        self._cpu_device = cpu_device
        self._enable_dataset_iterators = bool(enable_dataset_iterators)
        self._enable_keras_extensions = bool(enable_keras_extensions)
        if self._enable_dataset_iterators:
            from openipu_tensorflow.functions.feeding import install_iterators

            install_iterators()
        if self._enable_keras_extensions:
            from openipu_tensorflow.keras.extending import extend_keras

            extend_keras()

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Any = None,
    ) -> Any:
        """Run a `tf.function` as a program of the device."""
        if context.executing_eagerly() and not isinstance(
            fn, (polymorphic_function.Function, concrete_function.ConcreteFunction)
        ):
            raise ValueError(
                "IPUStrategyV1.run(fn, ...) does not support eager execution: an IPU runs a graph. Decorate `fn` with "
                "@tf.function, or call strategy.run inside a tf.function."
            )
        if not context.executing_eagerly():
            return super().run(fn, args, kwargs, options)
        from openipu_tensorflow.functions.running import run_function

        return run_function(self, fn, tuple(args), dict(kwargs or {}))

    def distribute_datasets_from_function(self, dataset_fn: Callable[..., Any], options: Any = None) -> Any:
        """The data set of the one input pipeline that there is."""
        return dataset_fn(tf.distribute.InputContext())

    def experimental_run_v2(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("`experimental_run_v2` has been deleted: call `run`.")

    @property
    def supports_loss_scaling(self) -> bool:
        return True

    @property
    def _device_ordinal(self) -> int:
        from openipu_tensorflow.ipu.configuration.devices import read_ordinal

        return read_ordinal(self._ipu_device)


class IPUExtended(one_device_strategy.OneDeviceExtended):  # type: ignore[misc]
    """How values are reduced over replicas where a function asks for it by its replica context."""

    def _reduce_to(self, reduce_op: Any, value: Any, destinations: Any, options: Any) -> Any:
        from openipu_tensorflow.engine.marks import is_applying_marked
        from openipu_tensorflow.functions.feeding import current_function
        from openipu_tensorflow.ipu.ops import cross_replica_ops

        if current_function() is None or is_applying_marked():
            return value
        mean = getattr(reduce_op, "value", reduce_op) == "MEAN"
        return cross_replica_ops.cross_replica_mean(value) if mean else cross_replica_ops.cross_replica_sum(value)


IPUStrategy = IPUStrategyV1


def check_types(tensors: Sequence[Any], which: str) -> None:
    """An IPU has no double."""
    for tensor in tensors:
        if tensor.dtype in _REFUSED:
            raise TypeError(
                f"Unsupported data type for {which}: {tensor.dtype.name}. An IPU has no {tensor.dtype.name}: cast to "
                "tf.float32."
            )


def find_ipu_strategy(strategy: Any = None) -> IPUStrategyV1 | None:
    """The strategy, or the one of the current scope, if it is for an IPU."""
    found = strategy if strategy is not None else tf.distribute.get_strategy()
    return found if isinstance(found, IPUStrategyV1) else None
