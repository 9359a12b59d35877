"""Values that go from a program of an estimator to functions of the host."""

from __future__ import annotations

from typing import Any

from openipu_tensorflow.estimator.model_fn import check_result


def check_call(call: Any, name: str, *kinds: type) -> None:
    """A function and its arguments, as `host_call` and `eval_metrics` name them."""
    if call is None:
        return
    if not isinstance(call, tuple):
        raise TypeError(f"`{name}` must be a tuple.")
    if len(call) != 2:
        raise ValueError(f"`{name}` must have two elements.")
    if not callable(call[0]):
        raise TypeError(f"first element in `{name}` must be callable.")
    if not isinstance(call[1], kinds):
        raise TypeError(f"second element in `{name}` must be a {' or '.join(kind.__name__ for kind in kinds)}.")


def call_on_host(function: Any, given: Any) -> Any:
    """Call a function with what an outfeed gave: by position, or by name."""
    if isinstance(given, dict):
        return function(**given)
    return function(*given) if isinstance(given, (list, tuple)) else function(given)


def check_answer(returned: Any, what: str) -> Any:
    return check_result(returned, what)


def average(queue: Any, after: Any) -> Any:
    """The mean of all that a queue got in one run of a program: over its rounds and replicas."""
    from tensorflow.python.framework import dtypes, ops
    from tensorflow.python.ops import math_ops

    with ops.control_dependencies([after]):
        return math_ops.reduce_mean(math_ops.cast(queue.dequeue(wait_for_completion=True), dtypes.float32))
