"""`ipu.embedded_runtime`: applications of files, started once and called with a batch at a time."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from openipu_tensorflow.engine import Step
from openipu_tensorflow.graphs.formats import to_numpy
from openipu_tensorflow.ipu.applications.application import (
    Application,
    Signature,
    TensorInfo,
    read_application,
    start_application,
)

_PREFIX = "XLA_Args/"  # that the original puts before the names of what an application starts with


class RuntimeContext:
    """An application that was started; `embedded_runtime_start` makes it."""

    def __init__(self, name: str, application: Application, inputs: Sequence[Any]) -> None:
        self._name, self._application, self._inputs = name, application, list(inputs)
        self._step: Step | None = None
        self._lock = threading.Lock()

    def name(self) -> str:
        return self._name

    def signature(self) -> Signature:
        """What it takes and returns."""
        return self._application.signature

    def start_output(self) -> list[Any]:
        """What it was started with."""
        return self._inputs

    def output_types(self) -> list[Any]:
        """Types of what a call returns."""
        return [info.as_port().dtype for info in _list_results(self.signature())]

    def run(self, *values: Any) -> list[Any]:
        """Arrays it is started with, then those of one call -> results. The first call starts it."""
        count = len(self._inputs)
        with self._lock:
            if self._step is None:
                application = self._application
                names = [info.name for info in application.signature.inputs]
                frozen = {
                    info.name: to_numpy(application.values[info.name], info.as_port().dtype)
                    for info in application.frozen
                }
                step = start_application(application)
                step.load({**frozen, **dict(zip(names, values[:count], strict=True))})
                self._step = step
            return self._step.run(values[count:])


def embedded_runtime_start(executable_file: Any, inputs: Any, name: str, timeout: int | None = None) -> RuntimeContext:
    """Start an application.

    inputs: in the order of its signature, or by their names, with or without the original's `XLA_Args/`.
    timeout: how long a pipeline of the original waits for more data before it goes on without; here a call never waits
    for another.
    """
    application = read_application(Path(_find_path(executable_file)))
    expected = application.signature.inputs
    if isinstance(inputs, Mapping):
        given = {name.removeprefix(_PREFIX): value for name, value in inputs.items()}
        missing = [info.name for info in expected if info.name not in given]
        if missing:
            raise Exception(f"Failed to find input tensor with name '{_PREFIX}{missing[0]}' in input dictionary.")
        inputs = [given[info.name] for info in expected]
    if not isinstance(inputs, list | tuple):
        raise Exception("Expected the inputs to be a list.")
    if len(expected) != len(inputs):
        raise Exception(
            f"Embedded application runtime expects {len(expected)} inputs, but {len(inputs)} were provided."
        )
    return RuntimeContext(name, application, _check(inputs, expected, Exception, _PREFIX))


def embedded_runtime_call(inputs: Sequence[Any], context: RuntimeContext) -> list[Any]:
    """Results of one batch: tensors of the graph, or values where there is none."""
    from tensorflow.python.ops import script_ops

    signature = context.signature()
    expected = signature.streamed_inputs
    if len(inputs) != len(expected):
        raise Exception(f"Embedded application call expects {len(expected)} inputs, but {len(inputs)} were provided.")
    given = [*context.start_output(), *_check(inputs, expected, TypeError)]
    found = script_ops.numpy_function(context.run, given, context.output_types())
    made = list(found) if isinstance(found, list | tuple) else [found]
    for tensor, info in zip(made, _list_results(signature), strict=True):
        tensor.set_shape(info.shape)
    return made


def embedded_runtime_stop(context: RuntimeContext) -> NoReturn:
    """An engine runs for as long as its process."""
    raise NotImplementedError("Embedded runtime doesn't support stopping an engine.")


def embedded_runtime_start_and_call(
    executable_file: Any, startup_inputs: Any, call_inputs: Sequence[Any], name: str
) -> tuple[list[Any], RuntimeContext]:
    """Results of a first batch, and what further ones are called with."""
    context = embedded_runtime_start(executable_file, startup_inputs, name)
    return embedded_runtime_call(call_inputs, context), context


def _list_results(signature: Signature) -> list[TensorInfo]:
    return [*signature.streamed_outputs, *signature.outputs]


def _find_path(file: Any) -> str:
    from tensorflow.python.client import session
    from tensorflow.python.eager import context

    if hasattr(file, "dtype") and hasattr(file, "graph") and not context.executing_eagerly():
        with session.Session(graph=file.graph) as running:
            file = running.run(file)
    found = file.numpy() if hasattr(file, "numpy") else file
    return found.decode() if isinstance(found, bytes) else str(found)


def _check(values: Sequence[Any], expected: Sequence[TensorInfo], kind: type[Exception], prefix: str = "") -> list[Any]:
    """Tensors of the shapes and types that the application takes."""
    from tensorflow.python.framework import ops

    found = []
    for place, (value, info) in enumerate(zip(values, expected, strict=True)):
        tensor = ops.convert_to_tensor(value)
        where = f"at position {place} ('{prefix}{info.name}')"
        if tensor.shape.as_list() != info.shape:
            raise Exception(
                f"Mismatched input shape {where}. Expected {info.shape}, but input {place} has shape "
                f"{tensor.shape.as_list()}."
            )
        if tensor.dtype.base_dtype.name != info.dtype:
            raise kind(
                f"Mismatched input dtype {where}. Expected {info.as_port().dtype!s}, but input {place} has dtype "
                f"{tensor.dtype.base_dtype.name}."
            )
        found.append(tensor)
    return found
