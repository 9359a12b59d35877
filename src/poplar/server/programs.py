"""Programs that a C++ program built, as a list in which children come before their parents.

In: `[[kind, children, arguments…], …], roots`. Out: the same as objects of `poplar.program`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from poplar import program as programs
from poplar._graph import Graph
from poplar._vertices import ComputeSet
from poplar.server.session import Session, at_line

_SYNCS = (programs.SyncType.INTERNAL, programs.SyncType.EXTERNAL, programs.SyncType.GLOBAL)
Made = programs.Program


def build_programs(session: Session, graph: Graph, listed: list[Any]) -> list[Made]:
    """The programs at the roots."""
    nodes, roots = listed
    shared = graph.shared
    builder = _Builder(
        session,
        graph,
        *(list(group.values()) for group in (shared.streams, shared.remote_buffers, shared.host_functions)),
    )
    made: list[Made] = []
    for kind, children, *arguments in nodes:
        made.append(builder.build(kind, [made[child] for child in children.tolist()], arguments))
    return [made[root] for root in roots.tolist()]


class _Builder:
    def __init__(
        self, session: Session, graph: Graph, streams: list[Any], buffers: list[Any], functions: list[Any]
    ) -> None:
        self._session = session
        self._graph = graph
        self._streams = streams
        self._buffers = buffers
        self._functions = functions

    def build(self, kind: str, children: list[Made], arguments: list[Any]) -> Made:
        if kind == "Held":
            held: Made = self._session.find(arguments[0])
            return held
        if kind == "Sequence" and not arguments:
            return programs.Sequence(children)
        at = next(place for place, entry in enumerate(arguments) if _is_context(entry))
        context, given = arguments[at], [*arguments[:at], *arguments[at + 1 :]]
        with at_line(context) as name:
            return _MAKERS[kind](self, name, children, *given)

    def sequence(self, name: str, children: list[Made]) -> Made:
        return programs.Sequence(children, name=name)

    def copy(self, name: str, _: list[Made], source: Any, destination: Any) -> Made:
        return programs.Copy(source, destination, name=name)

    def stream_in(self, name: str, _: list[Made], stream: int, destination: Any) -> Made:
        return programs.Copy(self._streams[stream], destination, name=name)

    def stream_out(self, name: str, _: list[Made], source: Any, stream: int) -> Made:
        return programs.Copy(source, self._streams[stream], name=name)

    def remote_read(self, name: str, _: list[Made], buffer: int, destination: Any, offset: Any) -> Made:
        return programs.Copy(self._buffers[buffer], destination, *_given(offset), name=name)

    def remote_write(self, name: str, _: list[Made], source: Any, buffer: int, offset: Any) -> Made:
        return programs.Copy(source, self._buffers[buffer], *_given(offset), name=name)

    def execute(self, name: str, _: list[Made], number: Any, exit_value: Any = None) -> Made:
        return programs.Execute(ComputeSet(self._graph.shared.tables[number.number]), exit_value, name)

    def repeat(self, name: str, children: list[Made], count: int) -> Made:
        return programs.Repeat(count, children[0], name)

    def repeat_while_true(self, name: str, children: list[Made], predicate: Any) -> Made:
        return programs.RepeatWhileTrue(children[0], predicate, children[1], name)

    def repeat_while_false(self, name: str, children: list[Made], predicate: Any) -> Made:
        return programs.RepeatWhileFalse(children[0], predicate, children[1], name)

    def choose(self, name: str, children: list[Made], predicate: Any) -> Made:
        return programs.If(predicate, children[0], children[1], name)

    def switch(self, name: str, children: list[Made], control: Any, values: Any) -> Made:
        cases = list(zip(values.tolist(), children[:-1], strict=True))
        return programs.Switch(control, cases, children[-1], name)

    def call(self, name: str, _: list[Made], function: int) -> Made:
        return programs.Call(programs.Function(function), name=name)

    def call_host(self, name: str, _: list[Made], function: int, inputs: Any, outputs: Any) -> Made:
        return programs.Call(self._functions[function], list(inputs), list(outputs), name)

    def print_tensor(self, name: str, _: list[Made], title: str, tensor: Any, *form: Any) -> Made:
        chosen = (title, tensor) if title or not name else (name, tensor)
        if not title and not name:
            return programs.PrintTensor(tensor)
        return programs.PrintTensor(*chosen, tuple(form) or None, name)

    def sync(self, name: str, _: list[Made], kind: int) -> Made:
        return programs.Sync(_SYNCS[kind], name)

    def cycle_stamp(self, name: str, _: list[Made], target: Any, since: Any) -> Made:
        return programs.CycleStamp(target, since, name)

    def write_undef(self, name: str, _: list[Made], tensor: Any) -> Made:
        return programs.WriteUndef(tensor, name)

    def cross_replica_copy(self, name: str, _: list[Made], source: Any, destination: Any, pairs: list[Any]) -> Made:
        return programs.CrossReplicaCopy(source, destination, dict(pairs), name)

    def assume_equal(self, name: str, _: list[Made], tensor: Any) -> Made:
        return programs.AssumeEqualAcrossReplicas(tensor, name)

    def abort(self, name: str, _: list[Made], message: str) -> Made:
        return programs.Abort(message, name)

    def abort_on_condition(self, name: str, _: list[Made], condition: Any, message: str) -> Made:
        return programs.AbortOnCondition(condition, message, name)

    def fail(self, name: str, _: list[Made], message: str, tensor: Any) -> Made:
        return programs.ErrorProgram(message, tensor, name)


_MAKERS: dict[str, Callable[..., Made]] = {
    "Sequence": _Builder.sequence,
    "Copy": _Builder.copy,
    "StreamIn": _Builder.stream_in,
    "StreamOut": _Builder.stream_out,
    "RemoteRead": _Builder.remote_read,
    "RemoteWrite": _Builder.remote_write,
    "Execute": _Builder.execute,
    "Repeat": _Builder.repeat,
    "RepeatWhileTrue": _Builder.repeat_while_true,
    "RepeatWhileFalse": _Builder.repeat_while_false,
    "If": _Builder.choose,
    "Switch": _Builder.switch,
    "Call": _Builder.call,
    "CallHost": _Builder.call_host,
    "PrintTensor": _Builder.print_tensor,
    "Sync": _Builder.sync,
    "CycleStamp": _Builder.cycle_stamp,
    "WriteUndef": _Builder.write_undef,
    "CrossReplicaCopy": _Builder.cross_replica_copy,
    "AssumeEqualAcrossReplicas": _Builder.assume_equal,
    "Abort": _Builder.abort,
    "AbortOnCondition": _Builder.abort_on_condition,
    "ErrorProgram": _Builder.fail,
}


def _is_context(entry: Any) -> bool:
    """[name, file, line, function], as a DebugContext is written."""
    return isinstance(entry, list) and len(entry) == 4 and isinstance(entry[1], str) and isinstance(entry[2], int)


def _given(offset: Any) -> tuple[Any, ...]:
    return () if offset is None else (offset,)
