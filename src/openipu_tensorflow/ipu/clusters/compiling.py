"""Compiles functions of a graph: `ipu_compiler.compile`, and TensorFlow's own `xla.compile` in programs for IPUs.

In: a Python function, and tensors. Out: tensors, or an op, whose values a program of the IPU device gives when a
session is asked for them. Which device that is, the ops say that the function has made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from openipu_tensorflow.ipu.clusters.cluster import Cluster
from openipu_tensorflow.ipu.clusters.providers import register_provider
from openipu_tensorflow.ipu.clusters.results import check_arity, split_results
from openipu_tensorflow.ipu.clusters.tracing import (
    Level,
    list_effects,
    list_initializers,
    make_marker,
    make_placeholders,
    open_level,
    trace_computation,
)
from openipu_tensorflow.ipu.configuration.devices import is_ipu_device, strip_job

_STOCK = "_stock_compile"


def compile_for_ipu(computation: Callable[..., Any], inputs: Any = None) -> Any:
    """Raises Exception for a computation with ops of which none is on an IPU device."""
    return _compile(computation, inputs, anywhere=False)


def compile_where_placed(computation: Callable[..., Any], inputs: Any = None) -> Any:
    """`xla.compile`: for an IPU if any op of the computation is on one, by a scope around the call or inside of the
    computation. What has no such op is computed by TensorFlow, op by op. Functions of TensorFlow 2 are left to it."""
    from tensorflow.python.compiler.xla import xla
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops

    if context.executing_eagerly() or ops.get_default_graph().building_function:
        return getattr(xla.compile, _STOCK, xla.compile)(computation, inputs)
    return _compile(computation, inputs, anywhere=True)


def install_compile() -> None:
    """Let TensorFlow's `xla.compile` know IPUs, by all of its names; a second call changes nothing."""
    import tensorflow.compat.v1 as v1
    from tensorflow.python.compiler.xla import xla

    import tensorflow as whole

    if hasattr(xla.compile, _STOCK):
        return
    setattr(compile_where_placed, _STOCK, xla.compile)
    for place in (xla, v1.xla.experimental, whole.xla.experimental):
        place.compile = compile_where_placed


def _compile(computation: Callable[..., Any], inputs: Any, anywhere: bool) -> Any:
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops

    from openipu_tensorflow.keras.running.norms import whole_norms
    from openipu_tensorflow.keras.running.train_ops import returning_train_ops

    if context.executing_eagerly():
        raise RuntimeError(
            "ipu.ipu_compiler.compile builds a part of a graph: call tf.disable_v2_behavior() first, or work in a "
            "tf.Graph(). With eager execution, use ipu.ipu_strategy.IPUStrategy and tf.function."
        )
    if not callable(computation):
        raise TypeError(f"The computation must be a function, not {computation!r}.")
    if inputs is not None and not isinstance(inputs, (list, tuple)):
        raise TypeError(f"`inputs` must be a list or a tuple of tensors, not {type(inputs).__name__}.")
    graph = ops.get_default_graph()
    arguments = [_convert(entry) for entry in inputs or ()]
    check_arity(computation, len(arguments), (), "computation")
    with trace_computation(graph, _current_device(graph)) as trace, open_level(trace) as level:
        with whole_norms(), returning_train_ops():
            returned = computation(*arguments)
        if any(_is_estimator_spec(entry) for entry in _walk(returned)):
            raise ValueError(
                "The computation's return value contains an EstimatorSpec. Return its tensors and operations, such as "
                "its loss and its train_op."
            )
        level.outputs, level.targets = split_results(returned, "The computation")
        if returned is None:  # all that it does is what it is called for
            initial = list_initializers(graph)
            level.targets = [op for op in list_effects(graph, level) if op.name not in initial]
    device = _find_placement(graph.get_operations()[level.start : level.end], anywhere and not _needs_ipu(level))
    if device is None:
        return _leave_to_tensorflow(level, returned)
    results = make_placeholders(level.outputs, "ipu_compile/output")
    marker = make_marker("ipu_compile/done", results)
    name = getattr(computation, "__name__", "program").strip("<>_") or "program"
    cluster = Cluster(graph, level, results, device or trace.device, name)
    register_provider(graph, cluster, marker, (level.start, level.end))
    if not results:
        return marker
    made = [array_ops.identity(tensor) for tensor in results]
    return made if _is_flat(returned) else _pack(returned, made, marker)


def _needs_ipu(level: Level) -> bool:
    """Has it loops, pipelines or queues that only a program of an IPU has?"""
    return bool(level.items or level.infeeds or level.enqueues)


def _leave_to_tensorflow(level: Level, returned: Any) -> Any:
    """Results of ops that TensorFlow computes; all that the computation does comes with any of them."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops

    marker = make_marker("compile/done", level.targets)
    if not level.outputs:
        return marker
    with ops.control_dependencies([marker]):
        made = [array_ops.identity(tensor) for tensor in level.outputs]
    return made if _is_flat(returned) else _pack(returned, made, marker)


def _is_flat(returned: Any) -> bool:
    """Is it one value, or a list or tuple of values?"""
    if isinstance(returned, dict):
        return False
    return not isinstance(returned, list | tuple) or not any(isinstance(one, list | tuple | dict) for one in returned)


def _pack(returned: Any, tensors: Sequence[Any], marker: Any) -> Any:
    """Results in the structure that the computation has returned; an operation is that of the whole computation."""
    from tensorflow.python.framework import ops
    from tensorflow.python.util import nest

    rest = iter(tensors)

    def take(entry: Any) -> Any:
        if entry is None:
            return None
        return marker if isinstance(entry, ops.Operation) else next(rest)

    return nest.pack_sequence_as(returned, [take(entry) for entry in nest.flatten(returned)])


def _convert(value: Any) -> Any:
    from tensorflow.python.framework import ops
    from tensorflow.python.util import nest

    return nest.map_structure(ops.convert_to_tensor, value)


def _current_device(graph: Any) -> str:
    with graph.as_default():
        return str(graph._device_function_stack.peek_top_obj().display_name) if graph._device_function_stack else ""


def _find_placement(made: Sequence[Any], anywhere: bool) -> str | None:
    """The IPU device of the ops. Where there are ops, and none of them is on one: None if they may be `anywhere`, else
    an error."""
    places = [op.device for op in made if op.type != "NoOp"]
    found = next((place for place in places if is_ipu_device(strip_job(place))), "")
    if places and not found:
        if anywhere:
            return None
        raise Exception(
            f"A computation has been compiled, but it was not placed on an IPU device: its ops are on "
            f"{sorted(set(places))}. Call ipu.ipu_compiler.compile inside `with ipu.scopes.ipu_scope('/device:IPU:0')`."
        )
    return strip_job(found)


def _walk(returned: Any) -> Iterator[Any]:
    yield returned
    if isinstance(returned, (list, tuple)) and not hasattr(returned, "_fields"):
        for entry in returned:
            yield from _walk(entry)


def _is_estimator_spec(value: Any) -> bool:
    return type(value).__name__ in ("EstimatorSpec", "TPUEstimatorSpec", "IPUEstimatorSpec")
