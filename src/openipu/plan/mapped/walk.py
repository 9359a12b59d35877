"""The order of a program: its leaves once, its loops, its tree, and how often each leaf runs.

In: programs and functions. Out: leaves in order, loops as ranges of leaves, and the entries of the tree. Where data
decide how often something runs, one execution is taken, unless counts of a real run are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from openipu.graph.mapped import nodes
from openipu.graph.mapped.nodes import ProgramNode
from openipu.graph.mapped.program import MappedProgram


@dataclass(slots=True, eq=False)
class TreeEntry:
    """One program of the tree: a control program, or a leaf with its number."""

    kind: str
    name: str
    parent: int
    count: int = 1
    leaf: int = -1


@dataclass(slots=True, eq=False)
class Walk:
    """Everything of the programs, in order."""

    leaves: list[ProgramNode] = field(default_factory=list)
    loops: list[tuple[int, int]] = field(default_factory=list)  # first leaf, one past the last
    entries: list[TreeEntry] = field(default_factory=list)
    programs: list[tuple[int, int]] = field(default_factory=list)  # leaves of each program: first, one past the last


def walk_programs(program: MappedProgram, chosen: Sequence[int]) -> Walk:
    """Visit the chosen programs; a function is visited where it is called first."""
    found = Walk()
    functions: dict[int, tuple[int, int]] = {}

    def add(kind: str, name: str, parent: int, count: int = 1, leaf: int = -1) -> int:
        found.entries.append(TreeEntry(kind, name, parent, count, leaf))
        return len(found.entries) - 1

    def loop(body: ProgramNode, parent: int) -> None:
        first = len(found.leaves)
        visit(body, parent)
        found.loops.append((first, len(found.leaves)))

    def visit(node: ProgramNode, parent: int) -> None:
        if isinstance(node, nodes.SequenceNode):
            own = add("Sequence", node.name, parent)
            for child in node.children:
                visit(child, own)
        elif isinstance(node, nodes.RepeatNode):
            loop(node.body, add("Repeat", node.name, parent, node.count))
        elif isinstance(node, nodes.WhileNode):
            own = add("RepeatWhile", node.name, parent)
            first = len(found.leaves)
            visit(node.condition, own)
            visit(node.body, own)
            found.loops.append((first, len(found.leaves)))
        elif isinstance(node, nodes.IfNode):
            own = add("If", node.name, parent)
            visit(node.then, own)
            visit(node.otherwise, own)
        elif isinstance(node, nodes.SwitchNode):
            own = add("Switch", node.name, parent)
            for _, body in node.cases:
                visit(body, own)
            visit(node.default, own)
        elif isinstance(node, nodes.CallNode):
            own = add("Call", node.name or f"function {node.function}", parent)
            if node.function not in functions:
                first = len(found.leaves)
                visit(program.functions[node.function], own)
                functions[node.function] = (first, len(found.leaves))
        else:
            number = len(found.leaves)
            found.leaves.append(node)
            add(_name_kind(node), node.name, parent, 1, number)

    for number in chosen:
        first = len(found.leaves)
        visit(program.programs[number], add("Program", f"program {number}", -1))
        found.programs.append((first, len(found.leaves)))
    found.loops.extend(functions.values())  # called from several places: as if in one loop
    return found


def _name_kind(node: ProgramNode) -> str:
    return {
        nodes.ExecuteNode: "OnTileExecute",
        nodes.LibraryNode: "Library",
        nodes.CopyNode: "Copy",
        nodes.StreamInNode: "StreamCopy",
        nodes.StreamOutNode: "StreamCopy",
        nodes.SyncNode: "Sync",
        nodes.UndefineNode: "WriteUndef",
    }.get(type(node), type(node).__name__.removesuffix("Node"))


def count_executions(program: MappedProgram, runs: Mapping[int, int]) -> dict[int, int]:
    """How often each leaf runs, by its identity, if each program runs so often; data-dependent parts run once."""
    found: dict[int, int] = {}

    def visit(node: ProgramNode, times: int) -> None:
        if isinstance(node, nodes.SequenceNode):
            for child in node.children:
                visit(child, times)
        elif isinstance(node, nodes.RepeatNode):
            visit(node.body, times * node.count)
        elif isinstance(node, nodes.WhileNode):
            visit(node.condition, times)
            visit(node.body, times)
        elif isinstance(node, nodes.IfNode):
            visit(node.then, times)
            visit(node.otherwise, times)
        elif isinstance(node, nodes.SwitchNode):
            for _, body in node.cases:
                visit(body, times)
            visit(node.default, times)
        elif isinstance(node, nodes.CallNode):
            visit(program.functions[node.function], times)
        else:
            found[id(node)] = found.get(id(node), 0) + times

    for number, times in runs.items():
        visit(program.programs[number], times)
    return found
