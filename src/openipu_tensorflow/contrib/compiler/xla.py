"""`tensorflow.contrib.compiler.xla`: a computation as one compiled op, on an IPU where it stands in an IPU's scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorflow.python.compiler.xla import xla as _xla
from tensorflow.python.framework import ops


def compile(computation: Callable[..., Any], inputs: Any = None) -> Any:
    """As `ipu.ipu_compiler.compile` in an IPU's scope, as TensorFlow's own elsewhere."""
    from openipu_tensorflow.ipu import ipu_compiler
    from openipu_tensorflow.ipu.configuration.devices import is_ipu_device, strip_job

    on_ipu = is_ipu_device(strip_job(ipu_compiler._current_device(ops.get_default_graph())))
    return (ipu_compiler.compile if on_ipu else _xla.compile)(computation, inputs)
