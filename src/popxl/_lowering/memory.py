"""Variables between the host and the device.

In: the host's arrays of variables. Out: what each replica holds of them, and back: values by group of replicas, shares
of sharded variables, entries of remote buffers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from openipu.graph import InputKind
from openipu.run import Executable
from popxl._lowering.program import LoweredProgram, list_kinds
from popxl.dtypes import from_held, to_held
from popxl.ir import Ir
from popxl.remote_buffer import RemoteBuffer
from popxl.tensor import Variable

Array = np.ndarray[Any, Any]


class Memory:
    """The device's memory of one session."""

    def __init__(self, ir: Ir, lowered: LoweredProgram, executable: Executable) -> None:
        self._ir, self._lowered, self._executable = ir, lowered, executable
        names = [*lowered.held.values(), *lowered.remote.values()]
        self._kinds = list_kinds(lowered.program, names)
        self._shares = {buffer: tensor for tensor, (buffer, _) in ir._shares.items() if tensor in lowered.held}

    @property
    def _replicas(self) -> int:
        return self._ir.instance_replication_factor

    def load(self) -> None:
        """Copy all variables from the host to the device."""
        parameters: dict[str, torch.Tensor] = {}
        each: list[dict[str, torch.Tensor]] = [{} for _ in range(self._replicas)]
        for tensor, name in self._lowered.held.items():
            if isinstance(tensor, Variable) and self._kinds.get(name) is InputKind.PARAMETER:
                parameters[name] = to_held(tensor._data, tensor.dtype)
            elif isinstance(tensor, Variable):
                for replica, own in enumerate(each):
                    own[name] = to_held(_find_value(tensor, replica), tensor.dtype)
        for number, name in self._lowered.remote.items():
            buffer = self._ir._remote_buffers[number]
            for own in each:
                shape = (buffer.entries, *buffer.tensor_shape)
                own[name] = torch.zeros(shape, dtype=buffer.tensor_dtype._held)
        for variable in self._ir.main_graph.variables:
            if variable._remote is not None:
                self._load_remote(variable, *variable._remote, each)
        self._executable.load_weights(parameters, each[0])
        if self._replicas > 1:
            for replica, own in enumerate(each):
                self._executable.load_buffers(own, replica)

    def _load_remote(
        self, variable: Variable, buffer: RemoteBuffer, offset: int, each: list[dict[str, torch.Tensor]]
    ) -> None:
        share = self._shares.get(buffer)
        name = self._lowered.remote.get(buffer.remote_buffer_id)
        for replica, own in enumerate(each):
            value = to_held(_find_value(variable, replica), variable.dtype)
            if variable._sharded:
                value = _cut(value, buffer.tensor_shape, _find_rank(variable, buffer, replica))
            if share is not None:
                own[self._lowered.held[share]] = value
            if name is not None:
                own[name][offset].copy_(value.reshape(buffer.tensor_shape))

    def read(self) -> None:
        """Bring what runs have changed back to the host."""
        written = [name for name in self._lowered.written if self._kinds.get(name) is not None]
        if not written:
            return
        buffers = [name for name in written if self._kinds[name] is InputKind.BUFFER]
        copies = [self._executable.copy_buffers(buffers, replica) for replica in range(self._replicas)]
        for tensor, name in self._lowered.held.items():
            if isinstance(tensor, Variable) and name in copies[0]:
                self._store(tensor, [from_held(copy[name], tensor.dtype) for copy in copies])
        for variable in self._ir.main_graph.variables:
            if variable._remote is not None:
                self._read_remote(variable, *variable._remote, copies)

    def _read_remote(
        self, variable: Variable, buffer: RemoteBuffer, offset: int, copies: list[dict[str, torch.Tensor]]
    ) -> None:
        share = self._shares.get(buffer)
        name = self._lowered.remote.get(buffer.remote_buffer_id)
        if share is not None and self._lowered.held[share] in copies[0]:
            parts = [copy[self._lowered.held[share]] for copy in copies]
        elif name is not None and name in copies[0]:
            parts = [copy[name][offset] for copy in copies]
        else:
            return
        if variable._sharded:
            parts = [_join(variable, buffer, parts, replica) for replica in range(len(parts))]
        self._store(variable, [from_held(part, variable.dtype).reshape(variable.shape) for part in parts])

    @staticmethod
    def _store(variable: Variable, values: list[Array]) -> None:
        """Keep the values of all replicas: one of each group, and all if the variable says so."""
        grouping = variable.replica_grouping
        variable._all_replicas = values
        chosen = [values[members[0]] for members in grouping.members] if len(values) > 1 else values
        array = np.stack(chosen) if grouping.num_groups > 1 else chosen[0]
        if variable._memmap_arr is not None:
            variable._memmap_arr[...] = array
            variable._memmap_arr.flush()
        else:
            variable._data = array


def _find_value(variable: Variable, replica: int) -> Array:
    grouping = variable.replica_grouping
    data: Array = variable._data
    return data if grouping.num_groups == 1 else data[grouping.assignment[replica]]


def _find_rank(variable: Variable, buffer: RemoteBuffer, replica: int) -> int:
    """Which share of its group's variable a replica has."""
    members = variable.replica_grouping.members[variable.replica_grouping.assignment[replica]]
    return members.index(replica) % _count_shares(variable, buffer)


def _count_shares(variable: Variable, buffer: RemoteBuffer) -> int:
    size = int(np.prod(buffer.tensor_shape))
    return max(1, -(-variable.nelms // size))


def _cut(value: torch.Tensor, shape: tuple[int, ...], rank: int) -> torch.Tensor:
    size = int(np.prod(shape))
    flat = value.reshape(-1)[rank * size : (rank + 1) * size]
    return torch.nn.functional.pad(flat, (0, size - flat.numel())).reshape(shape)


def _join(variable: Variable, buffer: RemoteBuffer, parts: list[torch.Tensor], replica: int) -> torch.Tensor:
    """The whole of which the replicas of a group have shares."""
    members = variable.replica_grouping.members[variable.replica_grouping.assignment[replica]]
    count = _count_shares(variable, buffer)
    rows = [parts[member].reshape(-1) for member in members[:count]]
    return torch.cat(rows)[: variable.nelms].reshape(variable.shape)
