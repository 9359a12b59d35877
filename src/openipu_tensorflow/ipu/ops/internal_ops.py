"""`ipu.internal_ops`: how tensors lie on tiles, queues on the device, printing."""

from __future__ import annotations

from typing import Any

from openipu_tensorflow.graphs.device_ops import add_device_op
from openipu_tensorflow.ipu.clusters.variables import begin_by_itself


def remap(x: Any, name: str | None = None) -> Any:
    """Copy a tensor so that it lies evenly on the tiles. Values are the same."""
    return _copy(x, name)


def remap_deduce(x: Any, name: str | None = None) -> Any:
    """Copy a tensor so that it lies as its users want it. Values are the same."""
    return _copy(x, name)


def _copy(x: Any, name: str | None) -> Any:
    from tensorflow.python.ops import array_ops

    return array_ops.identity(x, name=name)


def fifo(x: Any, depth: int, offload: bool = False, name: str | None = None) -> Any:
    """The value of `depth` rounds before; zeros in the first ones."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops, init_ops, variable_scope

    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise ValueError(f"The depth of a fifo must be at least 1, and is {depth!r}.")
    value = ops.convert_to_tensor(x)
    held = variable_scope.get_variable(
        ops.get_default_graph().unique_name(name or "fifo"),
        shape=[depth, *value.shape.as_list()],
        dtype=value.dtype,
        initializer=init_ops.zeros_initializer(),
        trainable=False,
        use_resource=True,
    )
    begin_by_itself(held)
    before = held.read_value()
    with ops.control_dependencies([before]):
        write = held.assign(array_ops.concat([before[1:], value[None]], axis=0), read_value=False)
    with ops.control_dependencies([write]):
        return array_ops.identity(before[0])


def print_tensor(input: Any, name: str = "") -> Any:
    """Print a tensor on the host, to stderr, whenever the program comes by. Return the op where it is to run."""
    return add_device_op("IpuPrintTensor", [input], [], {"title": name}, acts=True)


def get_current_iteration_counter(name: str | None = None, **kwargs: Any) -> Any:
    """The micro-batch of the pipeline's update, or the round of the loop, that runs: a scalar, from 0."""
    from openipu_tensorflow.ipu.clusters.counting import count_rounds

    return count_rounds()
