"""Running programs on this host, at the speed of its PyTorch."""

from openipu.run.batching import split_micro_batch
from openipu.run.executable import Executable, RunResult
from openipu.run.passes import PASSES

__all__ = ["PASSES", "Executable", "RunResult", "split_micro_batch"]
