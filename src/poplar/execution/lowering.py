"""Programs of the user become nodes.

In: program objects. Out: frozen nodes, the compute sets that they use, and an error where functions call each other in
a circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openipu.graph import SourceLine
from openipu.graph.mapped import ProgramNode, nodes
from poplar import program as programs
from poplar._errors import control_program_error, graph_recursion_error
from poplar._lines import find_line
from poplar._tensor import Tensor
from poplar.execution.streams import DataStream, HostFunction, RemoteBuffer

if TYPE_CHECKING:
    from poplar._graph import Graph


class Lowering:
    """One graph's programs."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._used: set[int] = set()
        self._open: list[int] = []

    @property
    def compute_sets(self) -> frozenset[int]:
        """Numbers of the compute sets that any program executes."""
        return frozenset(self._used)

    def lower(self, program: programs.Program) -> ProgramNode:
        if not isinstance(program, programs.Program):
            raise control_program_error(f"{program!r} is no program.")
        if id(program) in self._open:
            raise graph_recursion_error("A program contains itself.")
        self._open.append(id(program))
        try:
            return self._lower(program, program.name, find_line(program.line))
        finally:
            self._open.pop()

    def _lower(self, program: programs.Program, name: str, line: SourceLine) -> ProgramNode:
        if isinstance(program, programs.Sequence):
            children = tuple(self.lower(child) for child in program.programs)
            return nodes.SequenceNode(name=name, line=line, children=children)
        if isinstance(program, programs.Execute):
            table = program.computeSet.table
            if table.library is not None:
                return nodes.LibraryNode(name=name or table.name, line=line, op=table.library)
            self._used.add(table.number)
            exit_view = None if program.exit is None else program.exit.view()
            return nodes.ExecuteNode(name=name or table.name, line=line, compute_set=table.number, exit=exit_view)
        if isinstance(program, programs.Library):
            return nodes.LibraryNode(name=name, line=line, op=program.number)
        if isinstance(program, programs.Copy):
            return self._lower_copy(program, name, line)
        if isinstance(program, programs.Repeat):
            return nodes.RepeatNode(name=name, line=line, count=program.count, body=self.lower(program.program))
        if isinstance(program, programs._While):
            return nodes.WhileNode(
                name=name or type(program).__name__,
                line=line,
                condition=self.lower(program.condition),
                predicate=program.predicate.view(),
                expected=program.expected,
                body=self.lower(program.body),
            )
        if isinstance(program, programs.If):
            return nodes.IfNode(
                name=name,
                line=line,
                predicate=program.predicate.view(),
                then=self.lower(program.trueBody),
                otherwise=self.lower(program.falseBody),
            )
        if isinstance(program, programs.Switch):
            return nodes.SwitchNode(
                name=name,
                line=line,
                control=program.control.view(),
                cases=tuple((value, self.lower(body)) for value, body in program.cases),
                default=self.lower(program.default),
            )
        if isinstance(program, programs.Call):
            return self._lower_call(program, name, line)
        return self._lower_rest(program, name, line)

    def _lower_copy(self, program: programs.Copy, name: str, line: SourceLine) -> ProgramNode:
        source, target = program.source, program.destination
        offsets = None if program.offset is None else program.offset.view()
        if isinstance(source, DataStream):
            return nodes.StreamInNode(
                name=name or source.handle(), line=line, stream=source.number, target=target.view()
            )
        if isinstance(target, DataStream):
            return nodes.StreamOutNode(
                name=name or target.handle(), line=line, source=source.view(), stream=target.number
            )
        if isinstance(source, RemoteBuffer):
            return nodes.RemoteReadNode(
                name=name or source.handle(), line=line, buffer=source.number, target=target.view(), offsets=offsets
            )
        if isinstance(target, RemoteBuffer):
            return nodes.RemoteWriteNode(
                name=name or target.handle(), line=line, source=source.view(), buffer=target.number, offsets=offsets
            )
        return nodes.CopyNode(
            name=name or self._name_copy(source, target), line=line, source=source.view(), target=target.view()
        )

    def _name_copy(self, source: Tensor, target: Tensor) -> str:
        store = self._graph._store
        return f"Copy {store.name_of(source)} to {store.name_of(target)}"

    def _lower_call(self, program: programs.Call, name: str, line: SourceLine) -> ProgramNode:
        function = program.function
        if isinstance(function, HostFunction):
            return nodes.HostCallNode(
                name=name or function.handle(),
                line=line,
                function=function.number,
                inputs=tuple(tensor.view() for tensor in program.inputs),
                outputs=tuple(tensor.view() for tensor in program.outputs),
            )
        if not isinstance(function, programs.Function):
            raise control_program_error(f"Call: {function!r} is neither a function of the graph nor of the host.")
        return nodes.CallNode(name=name, line=line, function=function.number)

    def _lower_rest(self, program: programs.Program, name: str, line: SourceLine) -> ProgramNode:
        if isinstance(program, programs.PrintTensor):
            return nodes.PrintNode(name=name, line=line, title=program.title, source=program.tensor.view())
        if isinstance(program, programs.WriteUndef):
            return nodes.UndefineNode(name=name, line=line, target=program.tensor.view())
        if isinstance(program, programs.Sync):
            return nodes.SyncNode(name=name, line=line, external=program.kind != programs.SyncType.INTERNAL)
        if isinstance(program, programs.CycleStamp):
            since = None if program.since is None else program.since.view()
            return nodes.StampNode(name=name, line=line, target=program.tensor.view(), since=since)
        if isinstance(program, programs.ErrorProgram):
            return nodes.FailNode(name=name, line=line, message=program.message, shown=program.tensor.view())
        if isinstance(program, programs.AbortOnCondition):
            message = program.message or "Abort: the condition is true"
            return nodes.FailNode(name=name, line=line, message=message, condition=program.predicate.view())
        if isinstance(program, programs.Abort):
            return nodes.FailNode(name=name, line=line, message=program.message or "Abort")
        if isinstance(program, programs.CrossReplicaCopy):
            replicas = self._graph.getReplicationFactor()
            # {source: destination}, as the original has it
            sources = {int(to): int(origin) for origin, to in program.replicas.items()}
            if sorted(sources) != list(range(replicas)) or not all(0 <= one < replicas for one in sources.values()):
                raise control_program_error(
                    f"CrossReplicaCopy: {program.replicas} must name a destination for each of {replicas} replicas."
                )
            return nodes.CrossReplicaCopyNode(
                name=name,
                line=line,
                source=program.source.view(),
                target=program.destination.view(),
                sources=tuple(sources[replica] for replica in range(replicas)),
            )
        return nodes.SequenceNode(name=name, line=line, children=())

    def refuse_circles(self, functions: Sequence[ProgramNode]) -> None:
        """A function must not call itself, at any depth."""
        calls = [frozenset(list_calls(body)) for body in functions]
        for number in range(len(functions)):
            seen: set[int] = set()
            pending = set(calls[number])
            while pending:
                one = pending.pop()
                if one == number:
                    raise graph_recursion_error(f"Function {number} of the graph calls itself.")
                if one not in seen:
                    seen.add(one)
                    pending |= calls[one]


def list_calls(node: ProgramNode) -> list[int]:
    """Numbers of the functions that a node calls, at any depth."""
    if isinstance(node, nodes.CallNode):
        return [node.function]
    return [number for child in nodes.list_children(node) for number in list_calls(child)]
