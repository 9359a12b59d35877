"""`horovod.tensorflow` of one process."""

from horovod.torch import (
    DistributedOptimizer,
    allgather,
    allreduce,
    barrier,
    broadcast,
    init,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
)

__all__ = [
    "DistributedOptimizer",
    "allgather",
    "allreduce",
    "barrier",
    "broadcast",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "rank",
    "shutdown",
    "size",
]
