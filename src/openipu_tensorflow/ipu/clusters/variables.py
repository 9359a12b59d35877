"""Variables of a session, as a program reads and leaves them.

In: handles of variables that a computation reaches. Out: their values, and new ones written back. The ops for that are
made when the computation is, because a graph may be closed before a session runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from openipu_tensorflow.ipu.clusters.providers import Runner

_STATE = "_ipu_state"  # a collection of the graph: (is it initialized?, its initializer)


def begin_by_itself(variable: Any) -> None:
    """Let a variable be state of the device, which no script knows of: programs give it its first value."""
    from tensorflow.python.framework import ops

    with ops.control_dependencies(None), ops.device("/device:CPU:0"):
        ops.get_default_graph().add_to_collection(_STATE, (variable.is_initialized(), variable.initializer))


class SessionVariables:
    """Reads and writes of some variables of a graph, by the names that the engine gives them."""

    def __init__(self, graph: Any, handles: Iterable[Any]) -> None:
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import array_ops, gen_resource_variable_ops

        from openipu_tensorflow.engine.describing import name_variables

        named = name_variables(graph)
        self._graph = graph
        self._reads: dict[str, Any] = {}
        self._writes: dict[str, tuple[Any, Any]] = {}
        with graph.as_default(), ops.device("/device:CPU:0"), ops.name_scope("ipu_variables"):
            for op in handles:
                kind = op.get_attr("dtype")
                with ops.control_dependencies(None):
                    read = gen_resource_variable_ops.read_variable_op(op.outputs[0], kind)
                    given = array_ops.placeholder(kind, op.get_attr("shape"))
                    write = gen_resource_variable_ops.assign_variable_op(op.outputs[0], given)
                title = named[id(op.outputs[0])][0] if id(op.outputs[0]) in named else op.name
                self._reads[title] = read
                self._writes[title] = (given, write)

    def read(self, run: Runner, names: Iterable[str]) -> dict[str, Any]:
        """Values as the session has them."""
        waiting = [start for known, start in self._graph.get_collection(_STATE) if not run(known)]
        if waiting:
            run(waiting)
        wanted = {name: self._reads[name] for name in names if name in self._reads}
        return dict(run(wanted)) if wanted else {}

    def write(self, run: Runner, values: Mapping[str, Any]) -> None:
        """Give the session new values."""
        if values:
            run(
                [self._writes[name][1] for name in values],
                {self._writes[name][0]: value for name, value in values.items()},
            )
