"""Programs of a `MappedProgram` as a tree: control flow, and leaves that do one thing.

In: views and numbers of compute sets, library ops, streams. Out: frozen nodes. Every node has the user's line.
"""

from __future__ import annotations

from dataclasses import dataclass

from openipu.graph.mapped.views import View
from openipu.graph.program import SourceLine


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ProgramNode:
    """One program."""

    name: str = ""
    line: SourceLine | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SequenceNode(ProgramNode):
    children: tuple[ProgramNode, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RepeatNode(ProgramNode):
    count: int
    body: ProgramNode


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WhileNode(ProgramNode):
    """Run `condition`, test `predicate`, run `body` while it is `expected`."""

    condition: ProgramNode
    predicate: View
    expected: bool
    body: ProgramNode


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class IfNode(ProgramNode):
    predicate: View
    then: ProgramNode
    otherwise: ProgramNode


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SwitchNode(ProgramNode):
    control: View
    cases: tuple[tuple[int, ProgramNode], ...]
    default: ProgramNode


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CallNode(ProgramNode):
    function: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ExecuteNode(ProgramNode):
    """Without `exit`, a vertex that returns false is an error; else whether all returned true goes there."""

    compute_set: int
    exit: View | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LibraryNode(ProgramNode):
    op: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CopyNode(ProgramNode):
    source: View
    target: View


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CrossReplicaCopyNode(ProgramNode):
    """`sources[i]` is the replica that replica i reads from."""

    source: View
    target: View
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StreamInNode(ProgramNode):
    stream: int
    target: View


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StreamOutNode(ProgramNode):
    source: View
    stream: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RemoteReadNode(ProgramNode):
    """Rows `offsets` of a buffer, or its first one, into memory."""

    buffer: int
    target: View
    offsets: View | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RemoteWriteNode(ProgramNode):
    source: View
    buffer: int
    offsets: View | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HostCallNode(ProgramNode):
    function: int
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PrintNode(ProgramNode):
    title: str
    source: View


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class UndefineNode(ProgramNode):
    target: View


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SyncNode(ProgramNode):
    external: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StampNode(ProgramNode):
    """The cycles of all leaves that ran before: [low, high] halves of 64 bits. With `since`, less that stamp."""

    target: View
    since: View | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FailNode(ProgramNode):
    """Stop with a message; where there is a condition, only if it is true. `shown` goes into the message."""

    message: str
    condition: View | None = None
    shown: View | None = None


def list_children(node: ProgramNode) -> tuple[ProgramNode, ...]:
    """The programs inside a program."""
    if isinstance(node, SequenceNode):
        return node.children
    if isinstance(node, RepeatNode):
        return (node.body,)
    if isinstance(node, WhileNode):
        return (node.condition, node.body)
    if isinstance(node, IfNode):
        return (node.then, node.otherwise)
    if isinstance(node, SwitchNode):
        return (*(body for _, body in node.cases), node.default)
    return ()
