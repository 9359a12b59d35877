"""A program of popxl as one captured `Program`.

In: an `Ir`. Out: a `LoweredProgram`: the program, and where it holds each variable, remote buffer and stream.
Variables that a run writes to, and those that differ between replicas, are buffers; the others are parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from openipu.capture import Traced, capture_program
from openipu.graph import InputKind, OutputKind, Program
from popxl._ir.aliases import Traffic, count_traffic, find_sharing
from popxl._lowering.frames import Runner
from popxl._lowering.main_loop import MainLoop, find_main_loop
from popxl._lowering.traffic import Streams, shape_transfers
from popxl.ir import Ir
from popxl.remote_buffer import RemoteBuffer
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor import Tensor, Variable


@dataclass(frozen=True, eq=False)
class LoweredProgram:
    """A program, and the names under which it holds things."""

    program: Program
    held: dict[Tensor, str]  # variables on the device, and shares of sharded ones
    remote: dict[int, str]  # remote buffers by number
    inputs: tuple[HostToDeviceStream, ...]  # in the order of the program's inputs
    outputs: tuple[DeviceToHostStream, ...]
    written: frozenset[str]  # what a run changes
    iterations: int  # device iterations of a run: passes of a program that is one loop
    transfers: int  # of each stream in one of them


class _Main(nn.Module):
    """The main graph as the module that capture sees."""

    def __init__(self, ir: Ir, traffic: Traffic, loop: MainLoop | None) -> None:
        super().__init__()
        self.ir, self.loop = ir, loop
        self.transfers = ir.num_host_transfers if loop is None else loop.transfers
        self.inputs = tuple(sorted(traffic.loads, key=lambda stream: stream.tensor_id))
        self.outputs = tuple(sorted(traffic.stores, key=lambda stream: stream.tensor_id))
        self._openipu_input_names = tuple(stream.tensor_id for stream in self.inputs)
        self._written_outputs = dict(traffic.stores)
        sharing = find_sharing(ir.main_graph)
        self.held: dict[Tensor, str] = {}
        used = {id(tensor) for op in ir.main_graph._ops for tensor in op.inputs}
        for tensor in ir.main_graph.tensors:
            share = tensor in ir._shares
            if not share and (not isinstance(tensor, Variable) or tensor._remote is not None):
                continue
            if id(tensor) not in used:
                continue
            value = torch.empty(tensor.shape, dtype=tensor.dtype._held, device="meta")
            grouped = isinstance(tensor, Variable) and tensor.replica_grouping.num_groups > 1
            self.held[tensor] = tensor.id
            if share or grouped or sharing.is_written(tensor) or not value.is_floating_point():
                self._buffers[tensor.id] = value
            else:
                self._parameters[tensor.id] = nn.Parameter(value, requires_grad=False)
        self.remote: dict[int, str] = {}
        buffers: dict[int, RemoteBuffer] = {**traffic.loaded, **traffic.stored}
        for number, buffer in sorted(buffers.items()):
            name = f"remote_buffer_{number}"
            self.remote[number] = name
            shape = (buffer.entries, *buffer.tensor_shape)
            self._buffers[name] = torch.empty(shape, dtype=buffer.tensor_dtype._held, device="meta")

    def forward(self, *given: torch.Tensor) -> Traced:
        streams = Streams(self.transfers, dict(zip(self.inputs, given, strict=True)), self._written_outputs)
        tensors = {**self._parameters, **self._buffers}
        remote = {number: _present(tensors[name]) for number, name in self.remote.items()}
        runner = Runner(streams, remote)
        values = {tensor: _present(tensors[name]) for tensor, name in self.held.items()}
        with torch.no_grad():
            if self.loop is None:
                runner.run(self.ir.main_graph, values)
            else:
                runner.call(self.loop.op, values)
            for stream in self.outputs:
                streams.open(stream)
        return Traced(outputs={stream.tensor_id: streams.written[stream] for stream in self.outputs})


def _present(tensor: torch.Tensor | None) -> torch.Tensor:
    assert tensor is not None
    return tensor


def lower(ir: Ir, name: str) -> LoweredProgram:
    """Capture the main graph of a program."""
    loop = find_main_loop(ir)
    traffic = count_traffic(ir.main_graph) if loop is None else loop.traffic
    module = _Main(ir, traffic, loop)
    examples = tuple(
        torch.empty(shape_transfers(stream, module.transfers), dtype=stream.dtype._held, device="meta")
        for stream in module.inputs
    )
    program = capture_program(module, examples, {}, training=False, optimizer=None, name=name)
    written = [entry.name for entry in program.micro.outputs if entry.kind in (OutputKind.BUFFER, OutputKind.PARAMETER)]
    return LoweredProgram(
        program,
        module.held,
        module.remote,
        module.inputs,
        module.outputs,
        frozenset(written),
        1 if loop is None else loop.op.count,
        module.transfers,
    )


def list_kinds(program: Program, names: Sequence[str]) -> dict[str, InputKind]:
    """Which of the names are parameters, and which buffers."""
    wanted = set(names)
    return {
        entry.name: entry.kind
        for entry in program.micro.inputs
        if entry.name in wanted and entry.kind in (InputKind.PARAMETER, InputKind.BUFFER)
    }
