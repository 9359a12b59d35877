"""`horovod.torch` of one process: every reduction is over one value, every broadcast comes from here."""

from __future__ import annotations

from typing import Any

Average, Sum, Min, Max = range(4)


def init(*args: Any, **options: Any) -> None:
    pass


shutdown = init
broadcast_parameters = init
broadcast_optimizer_state = init
barrier = init


def size() -> int:
    return 1


local_size = cross_size = size


def rank() -> int:
    return 0


local_rank = cross_rank = rank


def is_initialized() -> bool:
    return True


def allreduce(tensor: Any, *args: Any, **options: Any) -> Any:
    return tensor


allreduce_ = broadcast = broadcast_ = broadcast_object = allgather = allreduce


def allgather_object(value: Any, *args: Any, **options: Any) -> list[Any]:
    return [value]


def DistributedOptimizer(optimizer: Any, *args: Any, **options: Any) -> Any:
    return optimizer
