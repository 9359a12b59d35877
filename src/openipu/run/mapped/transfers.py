"""Leaves that move data: copies, streams, remote buffers, functions of the host, printing.

In: a node. Out: a function without arguments over the memories of all replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from openipu.errors import InternalError, MappedRunError
from openipu.graph.mapped.codelets import Array
from openipu.graph.mapped.nodes import (
    CopyNode,
    CrossReplicaCopyNode,
    HostCallNode,
    PrintNode,
    ProgramNode,
    RemoteReadNode,
    RemoteWriteNode,
    StreamInNode,
    StreamOutNode,
    UndefineNode,
)
from openipu.graph.mapped.program import MappedProgram
from openipu.graph.mapped.views import View
from openipu.run.mapped.host import Host
from openipu.run.mapped.memory import Memory, Port

Action = Callable[[], None]


class TransferBuilder:
    """Makes the functions of one loaded program."""

    def __init__(
        self, program: MappedProgram, host: Host, memories: Sequence[Memory], remote: Sequence[Sequence[Array]]
    ) -> None:
        self._program, self._host, self._memories, self._remote = program, host, memories, remote

    def build(self, node: ProgramNode) -> Action:
        if isinstance(node, CopyNode):
            return _in_turn([_build_copy(memory, memory, node) for memory in self._memories])
        if isinstance(node, CrossReplicaCopyNode):
            return self._build_cross_copy(node)
        if isinstance(node, StreamInNode):
            return self._build_feed(node)
        if isinstance(node, StreamOutNode):
            return self._build_drain(node)
        if isinstance(node, RemoteReadNode):
            return self._build_remote(node, node.buffer, node.target, node.offsets, writes=False)
        if isinstance(node, RemoteWriteNode):
            return self._build_remote(node, node.buffer, node.source, node.offsets, writes=True)
        if isinstance(node, HostCallNode):
            return self._build_call(node)
        if isinstance(node, PrintNode):
            return self._build_print(node)
        if isinstance(node, UndefineNode):
            target = node.target
            addresses = target.list_addresses()
            return _in_turn(
                [lambda memory=memory: memory.unmark(target.type, addresses) for memory in self._memories]  # type: ignore[misc]
            )
        raise InternalError(f"The engine knows no program {type(node).__name__}. Please report this.")

    def _build_cross_copy(self, node: CrossReplicaCopyNode) -> Action:
        sources = [memory.open(node.source, "CrossReplicaCopy") for memory in self._memories]
        targets = [memory.open(node.target) for memory in self._memories]

        def copy() -> None:
            values = [np.array(port.get()) for port in sources]
            for replica, port in enumerate(targets):
                port.put(values[node.sources[replica]].reshape(port.shape))

        return copy

    def _build_feed(self, node: StreamInNode) -> Action:
        host, stream, elements = self._host, node.stream, node.target.elements
        ports = [memory.open(node.target) for memory in self._memories]

        def feed() -> None:
            for replica, port in enumerate(ports):
                port.put(host.feed(stream, elements, replica).reshape(port.shape))

        return feed

    def _build_drain(self, node: StreamOutNode) -> Action:
        host, stream = self._host, node.stream
        what = f"The stream {self._program.streams[stream].handle!r}"
        ports = [memory.open(node.source, what) for memory in self._memories]

        def drain() -> None:
            for replica, port in enumerate(ports):
                host.drain(stream, port.get().reshape(-1), replica)

        return drain

    def _build_remote(
        self, node: ProgramNode, number: int, view: View, offsets: View | None, *, writes: bool
    ) -> Action:
        buffer = self._program.remote_buffers[number]
        what = f"The remote buffer {buffer.handle!r}"
        ports = [memory.open(view, what if writes else "") for memory in self._memories]
        places = [None if offsets is None else memory.open(offsets, what) for memory in self._memories]

        def move() -> None:
            for replica, (port, place) in enumerate(zip(ports, places, strict=True)):
                rows = np.zeros(1, dtype=np.int64) if place is None else place.get().reshape(-1).astype(np.int64)
                if (rows < 0).any() or (rows >= buffer.rows).any():
                    wrong = int(rows[(rows < 0) | (rows >= buffer.rows)][0])
                    raise MappedRunError(
                        f"{what} has {buffer.rows} rows, and row {wrong} was asked for ({node.line}). Correct the "
                        "offset tensor, or give addRemoteBuffer more repeats."
                    )
                memory = self._remote[replica][number]
                if writes:
                    memory[rows] = port.get().reshape(len(rows), buffer.elements)
                else:
                    port.put(memory[rows].reshape(port.shape))

        return move

    def _build_call(self, node: HostCallNode) -> Action:
        what = f"The host function {self._program.host_functions[node.function].handle!r}"
        sides = [
            ([memory.open(view, what) for view in node.inputs], [memory.open(view) for view in node.outputs])
            for memory in self._memories
        ]

        def call() -> None:
            for replica, (inputs, outputs) in enumerate(sides):
                given = [np.array(port.get()) for port in inputs]
                made = self._host.call(node.function, given, replica)
                for port, values in zip(outputs, made, strict=True):
                    port.put(values.reshape(port.shape))

        return call

    def _build_print(self, node: PrintNode) -> Action:
        host, title, element = self._host, node.title, node.source.type
        ports = [memory.open(node.source, f"PrintTensor {node.title}") for memory in self._memories]
        several = len(ports) > 1

        def show() -> None:
            for replica, port in enumerate(ports):
                host.show(f"{title} (replica {replica})" if several else title, port.get(), element)

        return show


def _build_copy(source_memory: Memory, target_memory: Memory, node: CopyNode) -> Action:
    source: Port = source_memory.open(node.source, node.name or "Copy")
    target = target_memory.open(node.target)
    if node.source.shape == node.target.shape:
        return lambda: target.put(source.get())
    shape = node.target.shape
    return lambda: target.put(source.get().reshape(shape))


def _in_turn(actions: Sequence[Action]) -> Action:
    if len(actions) == 1:
        return actions[0]

    def run() -> None:
        for action in actions:
            action()

    return run
