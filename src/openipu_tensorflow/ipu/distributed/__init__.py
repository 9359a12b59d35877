"""`ipu.distributed`: one model on several instances that poprun has started."""

from openipu_tensorflow.ipu.distributed import basics, host_collective_ops, popdist_strategy
from openipu_tensorflow.ipu.distributed.host_collective_ops import allgather, allreduce, broadcast

__all__ = ["allgather", "allreduce", "basics", "broadcast", "host_collective_ops", "popdist_strategy"]
