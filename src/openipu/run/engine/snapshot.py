"""Everything that a call starts from and leaves behind on the device, as copies.

In: the sets of replicas of an executable. Out: a `Snapshot`; this executable, or another one of the program, can go
back to it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from openipu.run.engine.replica_sets import ReplicaSets
from openipu.run.random_stream import RandomStream
from openipu.run.rewrites.semantics.loss_scale import LossScale

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class ReplicaSetSnapshot:
    """The memory of one set of weights."""

    parameters: Tensors
    buffers: tuple[Tensors, ...]  # by replica
    state: Tensors
    hyper: Tensors


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Memory of all sets, and where the random stream and the loss scale stand."""

    sets: tuple[ReplicaSetSnapshot, ...]
    stream: torch.Tensor | None
    global_stream: torch.Tensor
    loss_scale: LossScale | None

    def list_tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Weights, buffers and state under names for a reader."""
        for number, replica_set in enumerate(self.sets):
            suffix = f" (replica group {number})" if number else ""
            for name, tensor in replica_set.parameters.items():
                yield f"weight {name}{suffix}", tensor
            for name, tensor in replica_set.state.items():
                yield f"optimizer state {name}{suffix}", tensor
            for replica, buffers in enumerate(replica_set.buffers):
                where = f" of replica {replica}" if replica else suffix
                yield from ((f"buffer {name}{where}", tensor) for name, tensor in buffers.items())


def take_snapshot(sets: ReplicaSets, stream: RandomStream, loss_scale: LossScale | None) -> Snapshot:
    memories = [replica_set.memory for replica_set in sets.sets]
    return Snapshot(
        tuple(
            ReplicaSetSnapshot(
                _copy(memory.parameters),
                tuple(_copy(buffers) for buffers in memory.buffers),
                _copy(memory.state),
                _copy(memory.hyper),
            )
            for memory in memories
        ),
        stream.state,
        torch.get_rng_state(),
        copy.deepcopy(loss_scale),
    )


@torch.no_grad()
def load_snapshot(snapshot: Snapshot, sets: ReplicaSets, stream: RandomStream, loss_scale: LossScale | None) -> bool:
    """Go back to a snapshot. Says whether state was moved, so that functions must be bound anew."""
    moved = False
    for replica_set, held in zip(sets.sets, snapshot.sets, strict=True):
        memory = replica_set.memory
        memory.load_weights(held.parameters, held.buffers[0])
        for replica, buffers in enumerate(held.buffers):
            memory.load_buffers(buffers, replica)
        if _differs_where_shared(memory.state, held.state):
            memory.state = {key: value.clone() if not value.dim() else value for key, value in memory.state.items()}
            moved = True
        for key, value in memory.state.items():
            value.copy_(held.state[key])
        for key, value in memory.hyper.items():
            value.copy_(held.hyper[key])
        memory.hyper_set = True
    stream.state = snapshot.stream
    torch.set_rng_state(snapshot.global_stream)
    if loss_scale is not None and snapshot.loss_scale is not None:
        loss_scale.follow(snapshot.loss_scale)
    return moved


def _copy(tensors: Tensors) -> Tensors:
    return {name: tensor.clone() for name, tensor in tensors.items()}


def _differs_where_shared(state: Tensors, wanted: Tensors) -> bool:
    """Whether two parameters share a 0-dim tensor that is to have two values."""
    first: dict[int, torch.Tensor] = {}
    return any(
        not torch.equal(first.setdefault(tensor.data_ptr(), wanted[key]), wanted[key])
        for key, tensor in state.items()
        if not tensor.dim()
    )
