"""Running programs on this host, at the speed of its PyTorch."""

from openipu.run.batching import split_micro_batch
from openipu.run.executable import Executable
from openipu.run.feeds import Source
from openipu.run.memory.host_memory import reclaim_memory
from openipu.run.memory.written_buffers import list_parting_statistics
from openipu.run.results import MicroBatchTimes, RunResult
from openipu.run.rewrites.semantics.loss_scale import tracks_gradients
from openipu.run.rewrites.simplify import PASSES
from openipu.run.taps import list_tensors
from openipu.run.verify import verify_calls

__all__ = [
    "PASSES",
    "Executable",
    "MicroBatchTimes",
    "RunResult",
    "Source",
    "list_parting_statistics",
    "list_tensors",
    "reclaim_memory",
    "split_micro_batch",
    "tracks_gradients",
    "verify_calls",
]
