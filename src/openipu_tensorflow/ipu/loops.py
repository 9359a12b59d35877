"""`ipu.loops`: loops that run on the device.

In: a body, the values that it carries from one round to the next, an infeed. Out: the values after the last round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from openipu_tensorflow.functions.feeding import DeviceLoop, may_restart
from openipu_tensorflow.ipu.clusters.counting import ROUNDS
from openipu_tensorflow.ipu.clusters.results import check_arity, split_results
from openipu_tensorflow.ipu.clusters.tracing import (
    Level,
    LoopItem,
    Trace,
    current_trace,
    list_effects,
    make_marker,
    make_placeholders,
    open_level,
)


def repeat(
    n: Any, body: Callable[..., Any], inputs: Any = None, infeed_queue: Any = None, use_while_v1: bool = True
) -> Any:
    """Run `body` n times. It gets the carried values, then the next element of the infeed.

    `use_while_v1` chooses between two loops of TensorFlow; here it is a loop of the device either way.
    """
    trace = _find_trace("repeat")
    carried = _convert(inputs)
    count = _read_count(n)
    _check_body(body, carried, infeed_queue)
    level = _trace_body(trace, body, carried, infeed_queue, count)
    return _finish(trace, LoopItem(level, carried, [], None, count=count))


def while_loop(
    condition: Callable[..., Any],
    body: Callable[..., Any],
    inputs: Any = None,
    infeed_queue: Any = None,
    maximum_iterations: int | None = None,
    use_while_v1: bool = True,
) -> Any:
    """Run `body` while `condition` of the carried values holds; the condition does not see the infeed."""
    trace = _find_trace("while_loop")
    carried = _convert(inputs)
    check_arity(condition, len(carried), (), "loop condition")
    _check_body(body, carried, infeed_queue)
    with open_level(trace) as test:
        test.arguments = make_placeholders(carried, "loop_condition/carried")
        tensors, targets = split_results(condition(*test.arguments), "The loop's condition")
        if len(tensors) != 1 or tensors[0].shape.rank not in (0, None) or tensors[0].dtype.name != "bool":
            raise TypeError(f"The loop's condition must return one boolean scalar, and it returns {tensors}.")
        test.outputs, test.targets = tensors, targets
    level = _trace_body(trace, body, carried, infeed_queue)
    item = LoopItem(level, carried, [], None, condition=test, limit=maximum_iterations)
    return _finish(trace, item)


def _find_trace(name: str) -> Trace:
    trace = current_trace()
    if trace is None and may_restart():
        raise DeviceLoop
    if trace is None:
        raise RuntimeError(
            f"ipu.loops.{name} was called outside a compilation: call it in the function that "
            "ipu.ipu_compiler.compile gets, inside ipu.scopes.ipu_scope."
        )
    return trace


def _convert(inputs: Any) -> list[Any]:
    from tensorflow.python.framework import ops

    if inputs is None:
        return []
    given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    return [ops.convert_to_tensor(value) for value in given]


def _read_count(n: Any) -> Any:
    from tensorflow.python.framework import tensor_util
    from tensorflow.python.framework.tensor import Tensor

    if isinstance(n, Tensor):
        known = tensor_util.constant_value(n)
        return n if known is None else int(known)
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"The number of repeats must be a whole number or a scalar tensor, not {n!r}.")
    return n.__index__()


def _check_body(body: Callable[..., Any], carried: Sequence[Any], infeed: Any) -> None:
    positional, named = (0, []) if infeed is None else infeed._describe_arguments()
    check_arity(body, len(carried) + positional, named, "loop body")


def _trace_body(
    trace: Trace, body: Callable[..., Any], carried: Sequence[Any], infeed: Any, rounds: Any = None
) -> Level:
    from tensorflow.python.framework.func_graph import FuncGraph

    with open_level(trace) as level:
        level.marks[ROUNDS] = rounds
        level.arguments = make_placeholders(carried, "loop_body/carried")
        positional: tuple[Any, ...] = ()
        named: dict[str, Any] = {}
        if infeed is not None:
            positional, named = infeed._split_arguments(infeed._dequeue())
        returned = body(*level.arguments, *positional, **named)
        tensors, targets = split_results(returned, "The loop's body")
        _check_carried(carried, tensors)
        level.outputs, level.targets = tensors, targets
        if isinstance(trace.graph, FuncGraph):  # of TensorFlow 2, where what a function writes is written
            level.targets = [*targets, *list_effects(trace.graph, level)]
    return level


def _check_carried(carried: Sequence[Any], returned: Sequence[Any]) -> None:
    if len(carried) != len(returned):
        raise ValueError(
            f"The loop's body returns {len(returned)} tensors, and the loop carries {len(carried)}: "
            "the number of inputs and of outputs of the body must be the same."
        )
    for before, after in zip(carried, returned, strict=True):
        if before.dtype != after.dtype:
            raise TypeError(
                f"The loop carries {before.name} as {before.dtype.name}, and its body returns {after.name} as "
                f"{after.dtype.name} in its place: data types of inputs and outputs must be the same."
            )
        if not before.shape.is_compatible_with(after.shape):
            raise ValueError(
                f"The loop carries {before.name} of shape {before.shape}, and its body returns {after.name} of shape "
                f"{after.shape} in its place: shapes on an IPU do not change."
            )


def _finish(trace: Trace, item: LoopItem) -> Any:
    item.results = make_placeholders(item.initial, "loop/result")
    item.marker = make_marker("loop/done")
    trace.level.items.append(item)
    if not item.results:
        return item.marker
    return item.results[0] if len(item.results) == 1 else item.results
