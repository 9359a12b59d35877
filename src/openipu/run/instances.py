"""What the processes of one job tell each other: new weights before a call, gradients before an update.

In: how many instances share an update, and the rendezvous that a launcher put into the environment. Out: an
`InstanceGroup` over torch.distributed. Every sum is made in the same order on every instance, so that weights which
start equal stay equal to the bit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as distributed

from openipu.errors import InstanceError
from openipu.heartbeat import start_heartbeat

LAUNCHED_VARIABLE = "POPDIST_NUM_TOTAL_REPLICAS"  # what poprun sets for every instance

_RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
_ALONE_ELEMENTS = 1 << 18  # from here on a tensor is sent as it lies; smaller ones are packed together
_GRACE_SECONDS = 8.0  # for the launcher to see which instance failed first


class InstanceGroup:
    """The instances of a job, seen from one of them."""

    def __init__(self, index: int, count: int) -> None:
        self.index = index
        self.count = count

    def sum_gradients(self, gradients: Mapping[str, torch.Tensor]) -> None:
        """Let every instance have the sum over all of them, in place. By name: engines may list them differently."""
        ordered = [gradients[name] for name in sorted(gradients)]
        with self._watch("gradients were summed"):
            for parts in _pack(ordered):
                _apply_packed(parts, distributed.all_reduce)

    def find_source(self, has_news: bool) -> int | None:
        """The first instance that has news for the others; None where nobody has. All of them ask at the same time."""
        flags = torch.zeros(self.count, dtype=torch.int64)
        flags[self.index] = int(has_news)
        with self._watch("a call began"):
            distributed.all_reduce(flags)
        found = flags.nonzero()
        return int(found[0]) if len(found) else None

    def share(self, tensors: Iterable[torch.Tensor], source: int) -> None:
        """Write what one instance has into the tensors of all others."""
        with self._watch("weights were shared"):
            for parts in _pack(_drop_doubles(tensors)):
                _apply_packed(parts, lambda tensor: distributed.broadcast(tensor, source))

    def gather(self, tensors: Sequence[Sequence[torch.Tensor]]) -> tuple[list[list[torch.Tensor]], slice]:
        """What the replicas of all instances have, in order, and which of them are this instance's own."""
        columns = []
        with self._watch("replicas exchanged values"):
            for own in zip(*tensors, strict=True):
                stacked = torch.stack(own)
                found = [torch.empty_like(stacked) for _ in range(self.count)]
                distributed.all_gather(found, stacked)
                columns.append(torch.cat(found).unbind())
        first = self.index * len(tensors)
        return [list(row) for row in zip(*columns, strict=True)], slice(first, first + len(tensors))

    def sum_counts(self, counts: Sequence[int]) -> list[int]:
        """Whole numbers, summed over all instances."""
        total = torch.tensor(list(counts), dtype=torch.int64)
        with self._watch("statistics were summed"):
            distributed.all_reduce(total)
        return [int(value) for value in total]

    def take_own(self, seeds: torch.Tensor, replicas: int) -> torch.Tensor:
        """This instance's part of the seeds of all micro-batches: those that its replicas have in the whole job."""
        return seeds.view(-1, self.count, replicas)[:, self.index].reshape(-1)

    @contextmanager
    def _watch(self, moment: str) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            if LAUNCHED_VARIABLE in os.environ:
                time.sleep(_GRACE_SECONDS)  # normally the launcher ends this process here
            raise InstanceError(
                f"Instance {self.index} of {self.count} lost the others when {moment}: {_first_line(error)}. Another "
                "instance has ended, or is out of reach; what it wrote last says why. Start the job again from its "
                "last checkpoint."
            ) from error


def join_instances(count: int) -> InstanceGroup:
    """Meet the other instances; the first time in a process this waits until all are there."""
    start_heartbeat()  # from here on others wait for this one
    if not distributed.is_available():
        raise InstanceError("This PyTorch was built without torch.distributed: use replicas in one process instead.")
    if not distributed.is_initialized():
        missing = [name for name in _RENDEZVOUS if name not in os.environ]
        if missing:
            raise InstanceError(
                f"This program is one of {count} instances that share their updates, and {', '.join(missing)} is not "
                "in the environment, so that it cannot find the others. Start it with poprun (or torchrun), or use "
                "replicationFactor in one process with Options.Distributed.disable()."
            )
        try:
            distributed.init_process_group("gloo")
        except (RuntimeError, ValueError) as error:
            raise InstanceError(f"The {count} instances of this job did not meet: {_first_line(error)}.") from error
    size = distributed.get_world_size()
    if size != count:
        raise InstanceError(
            f"The options speak of {count} instances, and torch.distributed was started with {size} processes. Let "
            "configureProcessId say what the launcher says."
        )
    return InstanceGroup(distributed.get_rank(), count)


def _pack(tensors: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Large tensors alone, small ones of one number format together."""
    alone = [[tensor] for tensor in tensors if tensor.numel() >= _ALONE_ELEMENTS]
    small: dict[torch.dtype, list[torch.Tensor]] = {}
    for tensor in tensors:
        if 0 < tensor.numel() < _ALONE_ELEMENTS:
            small.setdefault(tensor.dtype, []).append(tensor)
    return [*alone, *small.values()]


def _apply_packed(parts: Sequence[torch.Tensor], exchange: Callable[[torch.Tensor], object]) -> None:
    if len(parts) == 1 and parts[0].is_contiguous():
        exchange(parts[0])
        return
    packed = torch.cat([part.reshape(-1) for part in parts])
    exchange(packed)
    sizes = [part.numel() for part in parts]
    pieces = [piece.view(part.shape) for piece, part in zip(torch.split(packed, sizes), parts, strict=True)]
    torch._foreach_copy_(list(parts), pieces)


def _drop_doubles(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """0-dim state may be one tensor under several names."""
    return list({id(tensor): tensor for tensor in tensors}.values())


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
