"""Functions with loops and pipelines of `ipu.loops` and `ipu.pipelining_ops`.

In: a function of the user's, which such a call was found in (`DeviceLoop`). Out: what it returns. It is traced into a
graph as `ipu_compiler.compile` traces a computation of a TF1 graph, and runs in the same way: variables are the eager
ones, and queues deliver without a session.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

import tensorflow as tf
from openipu_tensorflow.engine.describing import name_variables
from openipu_tensorflow.engine.marks import marking_optimizers
from openipu_tensorflow.ipu.clusters.cluster import count_replicas
from openipu_tensorflow.ipu.clusters.executing import LevelRunner, Round
from openipu_tensorflow.ipu.clusters.preparing import Prepared, prepare_level
from openipu_tensorflow.ipu.clusters.programs import Surroundings
from openipu_tensorflow.ipu.clusters.tracing import list_effects, open_level, trace_computation
from openipu_tensorflow.ipu.configuration.devices import count_configurations, find_device
from openipu_tensorflow.ipu.ipu_strategy import IPUStrategyV1, check_types
from openipu_tensorflow.keras.running.watching import pause_watching


@dataclass(frozen=True, eq=False)
class _Traced:
    graph: Any
    inputs: Sequence[Any]
    returned: Any  # a nest of tensors of the graph
    prepared: Prepared
    held: Sequence[Any]  # variables: a graph does not keep them


class LoopedFunction:
    """A function that was called for a device, and what was traced of it."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self._name = getattr(plain, "__name__", "function").strip("<>_") or "function"
        self._traced: dict[Any, _Traced] = {}

    def run(self, strategy: IPUStrategyV1, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One run; tensors and arrays are inputs, all else is part of the program."""
        flat = tf.nest.flatten((args, kwargs))
        given = [tf.convert_to_tensor(value) for value in flat if is_input(value)]
        key = (
            count_configurations(),
            tuple((value.shape, value.dtype.name) if is_input(value) else id(value) for value in flat),
        )
        if key not in self._traced:
            self._traced[key] = self._trace(strategy, args, kwargs)
        traced = self._traced[key]
        device = find_device(strategy._ipu_device)
        replicas = count_replicas(device, traced.prepared)
        variables: Any = EagerVariables(traced.graph)
        around = Surroundings(None, None, device, variables, replicas, self._name, device.seed)  # type: ignore[arg-type]
        known = {tensor.name: value.numpy() for tensor, value in zip(traced.inputs, given, strict=True)}
        for outer, inner in traced.graph.captures:
            if inner.dtype != tf.resource:
                known[inner.name] = outer.numpy()
        found = LevelRunner(around).run(traced.prepared, [known] * replicas, Round())[0]
        tensors = iter(found)
        return tf.nest.map_structure(
            lambda tensor: None if tensor is None else tf.constant(next(tensors), tensor.dtype), traced.returned
        )

    def _trace(self, strategy: IPUStrategyV1, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Traced:
        from tensorflow.python.framework.func_graph import FuncGraph

        graph = FuncGraph(self._name)
        converted = tf.__internal__.autograph.tf_convert(
            self._plain, tf.__internal__.autograph.control_status_ctx(), convert_by_default=True
        )
        context = tf.distribute.ReplicaContext(strategy, replica_id_in_sync_group=0)
        with (
            graph.as_default(),
            tf.device(strategy._ipu_device),
            pause_watching(),
            context,
            _lift_variables(),
            marking_optimizers(),
        ):
            places = tf.nest.map_structure(
                lambda value: tf.compat.v1.placeholder(_dtype(value), value.shape) if is_input(value) else value,
                (args, kwargs),
            )
            inputs = [after for before, after in _pair((args, kwargs), places) if is_input(before)]
            with trace_computation(graph, strategy._ipu_device) as trace, open_level(trace) as level:
                returned = converted(*places[0], **places[1])
                returned = tf.nest.map_structure(_to_tensor, returned)
                level.outputs = [tensor for tensor in tf.nest.flatten(returned) if tensor is not None]
                level.targets = list_effects(graph, level)
        held = complete_variables(graph, graph._watched_variables)
        check_types(inputs, "input")
        check_types(level.outputs, "output")
        return _Traced(graph, inputs, returned, prepare_level(graph, level), held)


class HandleVariable:
    """A variable that a function writes without reading it: only its handle is captured."""

    def __init__(self, handle: Any) -> None:
        kind = handle._handle_data.shape_and_type[0]
        self.handle, self.dtype, self.shape = handle, tf.as_dtype(kind.dtype), tf.TensorShape(kind.shape)
        self.name = self._unique_id = f"variable_{id(handle)}:0"

    def numpy(self) -> Any:
        return tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=self.dtype).numpy()

    def assign(self, value: Any) -> None:
        tf.raw_ops.AssignVariableOp(resource=self.handle, value=tf.constant(value, self.dtype))


def complete_variables(graph: Any, read: Iterable[Any]) -> list[Any]:
    """Give a function's graph all variables that it has handles of, those that it only writes too. The graph does not
    keep them: what is returned must live as long as it does."""
    held = list(read)
    known = {id(variable.handle) for variable in held}
    captured = [outer for outer, inner in graph.captures if inner.dtype == tf.resource]
    held += [HandleVariable(handle) for handle in captured if id(handle) not in known and _is_variable(handle)]
    graph.variables = held
    return held


def _is_variable(handle: Any) -> bool:
    data = getattr(handle, "_handle_data", None)
    return data is not None and bool(data.is_set) and len(data.shape_and_type) == 1


class EagerVariables:
    """Variables that a function has captured, by the names that the engine gives them."""

    def __init__(self, graph: Any) -> None:
        self._held = dict(name_variables(graph).values())

    def read(self, run: Any, names: Iterable[str]) -> dict[str, Any]:
        return {name: self._held[name].numpy() for name in names if name in self._held}

    def write(self, run: Any, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self._held[name].assign(value)


def is_input(value: Any) -> bool:
    """Is it data of a run, and not part of the function?"""
    return bool(tf.is_tensor(value)) or isinstance(value, (numpy.ndarray, numpy.generic))


def _dtype(value: Any) -> Any:
    return value.dtype if tf.is_tensor(value) else tf.as_dtype(value.dtype)


def _pair(before: Any, after: Any) -> Iterator[tuple[Any, Any]]:
    return zip(tf.nest.flatten(before), tf.nest.flatten(after), strict=True)


def _to_tensor(value: Any) -> Any:
    return None if value is None or isinstance(value, tf.Operation) else tf.convert_to_tensor(value)


@contextlib.contextmanager
def _lift_variables() -> Iterator[None]:
    """Variables that the function makes live outside of its graph."""

    def create(following: Any, **settings: Any) -> Any:
        with tf.init_scope():
            return following(**settings)

    with tf.variable_creator_scope(create):
        yield
