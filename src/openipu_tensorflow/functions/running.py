"""Runs a `tf.function` as a program of an IPU device.

In: a function and its arguments, as `strategy.run` gets them. Out: what the function returns. It is traced once for
each kind of arguments; data come from its iterators, results go to its outfeeds.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy

import tensorflow as tf
from openipu.graph import Reduction
from openipu.translate.tensorflow.steps import GRADIENT_MARK
from openipu_tensorflow.engine import marking_optimizers
from openipu_tensorflow.functions.feeding import DeviceLoop, FunctionTrace, trace_feeds
from openipu_tensorflow.functions.looping import LoopedFunction, complete_variables, is_input
from openipu_tensorflow.functions.shaping import Shape, shape_function
from openipu_tensorflow.ipu.configuration.devices import count_configurations, find_device
from openipu_tensorflow.ipu.configuration.run_options import Arrangement
from openipu_tensorflow.ipu.ipu_strategy import IPUStrategyV1, check_types
from openipu_tensorflow.keras.running.program import StepRunner, part_rounds
from openipu_tensorflow.keras.running.tracing import TracedStep
from openipu_tensorflow.keras.running.watching import pause_watching
from openipu_tensorflow.keras.running.whole_ops import whole_ops


@dataclass(eq=False)
class _Wrapped:
    """A function of the user's without XLA, and what was compiled of it."""

    function: Any
    programs: dict[Any, FunctionProgram] = field(default_factory=dict)
    traces: list[FunctionTrace] = field(default_factory=list)
    held: dict[Any, list[Any]] = field(default_factory=dict)  # variables of the graphs, which keep none
    looped: LoopedFunction | None = None  # it has loops or pipelines of the device


_wrapped: weakref.WeakKeyDictionary[Any, _Wrapped] = weakref.WeakKeyDictionary()


def run_function(strategy: IPUStrategyV1, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One run."""
    wrapped = _wrapped.get(function)
    if wrapped is None:
        plain = getattr(function, "python_function", None)
        made = function if plain is None else tf.function(plain, autograph=function._autograph)
        wrapped = _wrapped[function] = _Wrapped(made)
    if wrapped.looped is not None:
        return wrapped.looped.run(strategy, args, kwargs)
    try:
        concrete = _trace(strategy, wrapped, args, kwargs)
    except DeviceLoop:
        wrapped.looped = LoopedFunction(wrapped.function.python_function)
        return wrapped.looped.run(strategy, args, kwargs)
    key = (id(concrete), count_configurations())
    if key not in wrapped.programs:
        trace = FunctionTrace(
            [entry for trace in wrapped.traces for entry in trace.taken],
            [entry for trace in wrapped.traces for entry in trace.handed],
        )
        wrapped.held[key] = complete_variables(concrete.graph, concrete.graph.variables)
        wrapped.programs[key] = FunctionProgram(strategy, concrete, shape_function(concrete, trace))
    return wrapped.programs[key].run(_list_inputs(concrete, args, kwargs))


def _trace(strategy: IPUStrategyV1, wrapped: _Wrapped, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not hasattr(wrapped.function, "get_concrete_function"):
        return wrapped.function
    context = tf.distribute.ReplicaContext(strategy, replica_id_in_sync_group=0)
    with trace_feeds(restarts=True) as trace, marking_optimizers(), pause_watching(), whole_ops(training=True), context:
        concrete = wrapped.function.get_concrete_function(*args, **kwargs)
    if trace.taken or trace.handed:
        wrapped.traces.append(trace)
    check_types(concrete.inputs, "input")
    check_types(concrete.outputs, "output")
    return concrete


def _list_inputs(concrete: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Data of one run, in the order of the function's inputs."""
    names = getattr(concrete, "_arg_keywords", None)
    if names and kwargs and not args and set(kwargs) == set(names):  # a signature of a saved model
        specs = concrete.structured_input_signature[1]
        return [tf.convert_to_tensor(kwargs[name], specs[name].dtype) for name in names]
    return [tf.convert_to_tensor(value) for value in tf.nest.flatten((args, kwargs)) if is_input(value)]


class FunctionProgram:
    """A function, compiled."""

    def __init__(self, strategy: IPUStrategyV1, concrete: Any, shape: Shape) -> None:
        self._concrete, self._shape = concrete, shape
        device = find_device(strategy._ipu_device)
        self._replicas = device.ipus
        returned = list(shape.outputs)
        handed = [tensor for entry in shape.handed for tensor in entry.tensors]
        traced = TracedStep(
            name=concrete.graph.name,
            graph=shape.graph,
            inputs=[tensor for entry in shape.taken for tensor in entry.tensors],
            structure=[*returned, *handed],
            stages=1,
            carried=[*((inside, inside) for inside, _ in shape.given), *((old, new) for old, new, _ in shape.carried)],
            targets=shape.targets,
        )
        how = Arrangement(
            training=any(GRADIENT_MARK in node.attr for node in shape.graph.as_graph_def().node),
            device_iterations=shape.count,
            replicas=self._replicas,
            replica_reduction=Reduction.SUM,
        )
        self._runner = StepRunner(traced, device, how)

    def run(self, tensors: list[Any]) -> Any:
        shape, concrete = self._shape, self._concrete
        values = dict(zip((entry.name for entry in concrete.inputs), tensors, strict=False))
        carried = [values[source.name] for _, source in shape.given]
        carried += [values[first.name] if hasattr(first, "name") else first for *_, first in shape.carried]
        data: list[Any] = []
        for taken in shape.taken:
            data += taken.iterator.take(shape.count * self._replicas)
        found = self._runner.run_flat(data, [self._spread(value) for value in carried])
        total = shape.count * self._replicas
        results = [part_rounds(value, total, self._replicas) for value in found[: self._outputs]]
        returned, rest = results[: len(shape.outputs)], results[len(shape.outputs) :]
        for handed in shape.handed:
            own, rest = rest[: len(handed.tensors)], rest[len(handed.tensors) :]
            handed.queue.put_eagerly(handed.structure, own, self._replicas)
        last = [value[-1] if self._replicas == 1 else value[-1, -1] for value in returned]
        left = found[self._outputs + len(shape.given) :]
        return self._pack(last, left if self._replicas == 1 else [value[-1] for value in left])

    def _spread(self, value: Any) -> Any:
        """A carried value, for each replica the same."""
        array = numpy.asarray(value)
        return array if self._replicas == 1 else numpy.stack([array] * self._replicas)

    @property
    def _outputs(self) -> int:
        return len(self._shape.outputs) + sum(len(entry.tensors) for entry in self._shape.handed)

    def _pack(self, returned: list[Any], carried: list[Any]) -> Any:
        concrete, shape = self._concrete, self._shape
        if concrete.structured_outputs is None:
            return None
        flat = []
        for place, tensor in enumerate(concrete.outputs):
            if shape.results or shape.count > 1:
                source = tensor
                while source.op.type == "Identity":
                    source = source.op.inputs[0]
                flat.append(carried[shape.results[source.name]])
            else:
                flat.append(returned[place])
        made = [tf.constant(value, tensor.dtype) for value, tensor in zip(flat, concrete.outputs, strict=True)]
        return tf.nest.pack_sequence_as(concrete.structured_outputs, made, expand_composites=True)
