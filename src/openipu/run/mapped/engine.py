"""Runs a `MappedProgram`: each leaf becomes one function on memory, control flow calls them.

In: a program and a `Host`. Out: the host's side sees streams, functions and printed tensors; memory keeps its state
from run to run. Replicas take each leaf in turn, so that they can read from each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter as clock

import numpy as np

from openipu.activity import is_watched, note_run, take_number
from openipu.errors import MappedRunError
from openipu.graph.mapped.codelets import Array
from openipu.graph.mapped.conflicts import Conflicts, find_conflicts
from openipu.graph.mapped.nodes import (
    CallNode,
    ExecuteNode,
    FailNode,
    IfNode,
    LibraryNode,
    ProgramNode,
    RepeatNode,
    SequenceNode,
    StampNode,
    SwitchNode,
    SyncNode,
    WhileNode,
    list_children,
)
from openipu.graph.mapped.program import MappedProgram
from openipu.graph.mapped.views import View
from openipu.run.mapped.compute import build_compute_set
from openipu.run.mapped.host import Host
from openipu.run.mapped.library import build_library_op
from openipu.run.mapped.memory import Memory
from openipu.run.mapped.transfers import TransferBuilder

Action = Callable[[], object]


class MappedEngine:
    """A loaded program."""

    def __init__(
        self,
        program: MappedProgram,
        host: Host,
        conflicts: Sequence[Conflicts] | None = None,
        *,
        watched: bool = False,
        price: Callable[[], Mapping[int, float]] | None = None,
    ) -> None:
        """`price` says what each leaf costs, by its identity; it is called only if the program reads the clock."""
        self.program = program
        self.number = take_number()
        self.memories = [Memory(program, watched=watched) for _ in range(program.replicas)]
        self.remote: list[list[Array]] = [
            [np.zeros((buffer.rows, buffer.elements), buffer.type.dtype) for buffer in program.remote_buffers]
            for _ in range(program.replicas)
        ]
        self.executions: dict[int, int] = {}  # id of a leaf -> how often it ran
        self.cycles = 0.0  # of all leaves so far, if there is a price
        self._prices = price() if price is not None and _reads_clock(program) else None
        self._conflicts = conflicts
        self._transfers = TransferBuilder(program, host, self.memories, self.remote)
        self._compute_sets: dict[tuple[int, bool], list[Callable[[], bool]]] = {}
        self._library_ops: dict[int, Action] = {}
        self._functions: dict[int, Action] = {}
        self._programs: dict[int, Action] = {}

    def run(self, number: int) -> None:
        """Run one of the programs."""
        if number not in self._programs:
            self._programs[number] = self._build(self.program.programs[number])
        if not is_watched():
            self._programs[number]()
            return
        started = clock()
        self._programs[number]()
        note_run(self.number, f"{self.program.name}, program {number}", clock() - started)

    def read(self, view: View, replica: int = 0) -> Array:
        """A copy of the elements."""
        return np.array(self.memories[replica].open(view).get())

    def write(self, view: View, values: Array, replica: int = 0) -> None:
        self.memories[replica].open(view).put(values)

    def _build(self, node: ProgramNode) -> Action:
        if isinstance(node, SequenceNode):
            return _in_order([self._build(child) for child in node.children])
        if isinstance(node, RepeatNode):
            return _repeat(self._build(node.body), node.count)
        if isinstance(node, WhileNode):
            return self._build_while(node)
        if isinstance(node, IfNode):
            return self._build_if(node)
        if isinstance(node, SwitchNode):
            return self._build_switch(node)
        if isinstance(node, CallNode):
            return self._build_call(node)
        return self._count(node, self._build_leaf(node))

    def _build_leaf(self, node: ProgramNode) -> Action:
        if isinstance(node, ExecuteNode):
            return self._build_execute(node)
        if isinstance(node, LibraryNode):
            return self._build_library(node.op)
        if isinstance(node, SyncNode):
            return lambda: None
        if isinstance(node, StampNode):
            return self._build_stamp(node)
        if isinstance(node, FailNode):
            return self._build_fail(node)
        return self._transfers.build(node)

    def _count(self, node: ProgramNode, action: Action) -> Action:
        executions, key = self.executions, id(node)
        executions.setdefault(key, 0)

        def counted() -> None:
            executions[key] += 1
            action()

        if self._prices is None:
            return counted
        cycles = self._prices.get(key, 0.0)

        def clocked() -> None:
            counted()
            self.cycles += cycles

        return clocked

    def _build_execute(self, node: ExecuteNode) -> Action:
        number, key = node.compute_set, (node.compute_set, node.exit is not None)
        if key not in self._compute_sets:
            compute_set = self.program.compute_sets[number]
            if self._conflicts is not None:
                conflicts = self._conflicts[number]
            else:
                conflicts = find_conflicts(compute_set, self.program.codelets)
            self._compute_sets[key] = [
                build_compute_set(self.program, compute_set, conflicts, memory, goes_on=key[1])
                for memory in self.memories
            ]
        made = self._compute_sets[key]
        if node.exit is None:
            return _in_order(made)
        ports = [memory.open(node.exit) for memory in self.memories]
        kind = node.exit.type.dtype

        def execute() -> None:
            for run, port in zip(made, ports, strict=True):
                port.put(np.array(run(), dtype=kind))

        return execute

    def _build_stamp(self, node: StampNode) -> Action:
        ports = [memory.open(node.target) for memory in self.memories]
        before = None if node.since is None else self.memories[0].open(node.since)

        def stamp() -> None:
            now = round(self.cycles)
            if before is not None:
                low, high = before.get().reshape(-1).tolist()
                now -= low | high << 32
            for port in ports:
                port.put(np.array([now & 0xFFFFFFFF, now >> 32], dtype=np.uint32))

        return stamp

    def _build_library(self, number: int) -> Action:
        if number not in self._library_ops:
            op = self.program.library_ops[number]
            self._library_ops[number] = _in_order([build_library_op(op, memory) for memory in self.memories])
        return self._library_ops[number]

    def _build_call(self, node: CallNode) -> Action:
        number = node.function
        if number not in self._functions:
            self._functions[number] = self._build(self.program.functions[number])
        return self._functions[number]

    def _open_predicate(self, view: View, node: ProgramNode) -> Callable[[], int]:
        what = f"{node.name or type(node).__name__.removesuffix('Node')}"
        ports = [memory.open(view, what) for memory in self.memories]

        def read() -> int:
            values = {int(port.get().reshape(-1)[0]) for port in ports}
            if len(values) > 1:
                raise MappedRunError(
                    f"{what}: replicas disagree on the value that decides ({sorted(values)}). They run one program: "
                    "reduce the value over the replicas first, or copy it from one of them (CrossReplicaCopy)."
                )
            return values.pop()

        return read

    def _build_while(self, node: WhileNode) -> Action:
        condition, body = self._build(node.condition), self._build(node.body)
        read, expected = self._open_predicate(node.predicate, node), node.expected

        def loop() -> None:
            while True:
                condition()
                if bool(read()) is not expected:
                    return
                body()

        return loop

    def _build_if(self, node: IfNode) -> Action:
        then, otherwise = self._build(node.then), self._build(node.otherwise)
        read = self._open_predicate(node.predicate, node)
        return lambda: then() if read() else otherwise()

    def _build_switch(self, node: SwitchNode) -> Action:
        cases = {key: self._build(body) for key, body in node.cases}
        default = self._build(node.default)
        read = self._open_predicate(node.control, node)
        return lambda: cases.get(read(), default)()

    def _build_fail(self, node: FailNode) -> Action:
        read = None if node.condition is None else self._open_predicate(node.condition, node)
        shown = None if node.shown is None else self.memories[0].open(node.shown, "ErrorProgram")

        def fail() -> None:
            if read is not None and not read():
                return
            values = "" if shown is None else f": {np.array(shown.get()).tolist()}"
            where = "" if node.line is None else f" ({node.line})"
            raise MappedRunError(f"{node.message}{values}{where}")

        return fail


def _reads_clock(program: MappedProgram) -> bool:
    pending = [*program.programs, *program.functions]
    while pending:
        node = pending.pop()
        if isinstance(node, StampNode):
            return True
        pending.extend(list_children(node))
    return False


def _in_order(actions: Sequence[Callable[[], object]]) -> Callable[[], object]:
    if len(actions) == 1:
        return actions[0]

    def run() -> None:
        for action in actions:
            action()

    return run


def _repeat(action: Action, count: int) -> Action:
    def run() -> None:
        for _ in range(count):
            action()

    return run
