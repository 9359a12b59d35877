"""`ipu.application_compile_op`: a function as a file that `ipu.embedded_runtime` runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from openipu_tensorflow.ipu.applications.application import write_application
from openipu_tensorflow.ipu.applications.compiling import Form, build_application, find_form
from openipu_tensorflow.ipu.clusters.preparing import Prepared, prepare_level
from openipu_tensorflow.ipu.clusters.providers import Runner, register_provider
from openipu_tensorflow.ipu.clusters.results import split_results
from openipu_tensorflow.ipu.clusters.tracing import open_level, trace_computation
from openipu_tensorflow.ipu.clusters.variables import SessionVariables

_DEVICE = "/device:IPU:0"


def experimental_application_compile_op(
    func: Callable[..., Any],
    inputs: Any = None,
    output_path: Any = None,
    freeze_variables: bool = False,
    name: str | None = None,
) -> Any:
    """The path of a file with the function, written when this is evaluated: for each element of its infeeds it computes
    what goes to its outfeeds.

    freeze_variables: values of variables become part of the file; else they are inputs when it is started.
    """
    from tensorflow.python.eager import context
    from tensorflow.python.framework import constant_op, dtypes, ops
    from tensorflow.python.ops import array_ops

    given = list(inputs or ())
    if context.executing_eagerly():
        return constant_op.constant(_compile_eagerly(func, given, output_path, freeze_variables))
    graph = ops.get_default_graph()
    arguments = [ops.convert_to_tensor(value) for value in given]
    plain = getattr(func, "python_function", func)
    with ops.device(_DEVICE), trace_computation(graph, _DEVICE) as trace, open_level(trace) as level:
        level.outputs, level.targets = split_results(plain(*arguments), "The function")
    prepared = prepare_level(graph, level)
    form = find_form(prepared, arguments, _name(func))
    made = array_ops.placeholder(dtypes.string, [], name=name or "application")
    handles = [op for op in _list_ops(prepared) if op.type == "VarHandleOp"]
    provider = _Compilation(form, SessionVariables(graph, handles), made, output_path, freeze_variables)
    register_provider(graph, provider, traced=(level.start, level.end))
    return array_ops.identity(made)


class _Compilation:
    """Writes the file when a session asks for its path."""

    inputs: Sequence[Any] = ()
    outputs: Sequence[Any] = ()

    def __init__(self, form: Form, variables: SessionVariables, made: Any, path: Any, freeze: bool) -> None:
        self.outputs = [made]
        self._form, self._variables, self._path, self._freeze = form, variables, path, freeze

    def provide(self, session: Any, run: Runner, values: Sequence[Any]) -> Sequence[Any]:
        def read(names: Sequence[str]) -> Mapping[str, Any]:
            return self._variables.read(run, names)

        return [_write(self._form, read, self._path, self._freeze)]


def _compile_eagerly(func: Any, inputs: list[Any], path: Any, freeze: bool) -> str:
    from openipu_tensorflow.functions.looping import EagerVariables, LoopedFunction
    from openipu_tensorflow.ipu.ipu_strategy import IPUStrategyV1

    traced = LoopedFunction(getattr(func, "python_function", func))._trace(IPUStrategyV1(), tuple(inputs), {})
    variables = EagerVariables(traced.graph)
    form = find_form(traced.prepared, traced.inputs, _name(func))
    return _write(form, lambda names: variables.read(None, names), path, freeze)


def _write(form: Form, read: Callable[[Sequence[str]], Mapping[str, Any]], path: Any, freeze: bool) -> str:
    application = build_application(form, read, freeze)
    target = Path(tempfile.mkdtemp()) / f"{form.name}.openipu_exec" if path is None else Path(os.fspath(path))
    write_application(target, application)
    return str(target)


def _name(func: Any) -> str:
    return str(getattr(func, "__name__", "application")).strip("<>_") or "application"


def _list_ops(prepared: Prepared) -> list[Any]:
    own = [op for stage in prepared.stages for op in stage.ops]
    return own + [op for levels in prepared.inner.values() for level in levels for op in _list_ops(level)]
