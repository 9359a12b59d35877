"""`poptorch.AsynchronousDataAccessor`: a dataset that another process loads while the model runs.

In: any iterable of tensors, or of structures of tensors. Out: its elements, in memory that both processes share: an
element is valid until the next one is asked for.
"""

from __future__ import annotations

import atexit
import os
import pickle
import tempfile
import weakref
from pathlib import Path
from typing import Any

import torch.multiprocessing as multiprocessing
from torch.utils import _pytree as pytree

from openipu.trace import WAIT, span
from poptorch._args_parser import prepare_types
from poptorch._loading.ring_buffer import END
from poptorch._loading.worker import Pause, Setup, WorkerJob, run_worker
from poptorch._logging import logger
from poptorch.enums import SharingStrategy
from poptorch.errors import createPoptorchError

_METHODS = {SharingStrategy.Fork: "fork", SharingStrategy.ForkServer: "forkserver"}
_GRACE_SECONDS = 10.0  # for a dataset that is busy when the end is asked for
_POLLS_BETWEEN_LOOKS = 64  # whether the process lives is asked for less often than whether data is there


class AsynchronousDataAccessor:
    """Loads in the background; iterating again starts from the beginning."""

    _worker: AsynchronousWorker | None = None

    def __init__(
        self,
        dataset: Any,
        buffer_size: int = 3,
        miss_sleep_time_in_ms: float = 0.1,
        load_indefinitely: bool = True,
        early_preload: bool = False,
        sharing_strategy: SharingStrategy = SharingStrategy.ForkServer,
        rebatched_size: int | None = None,
    ) -> None:
        if getattr(dataset, "_accessor", None) is not None:
            raise createPoptorchError(
                "The DataLoader already uses an AsynchronousDataAccessor internally. Iterate over the DataLoader "
                "itself, or make it with mode=poptorch.DataLoaderMode.Sync."
            )
        if rebatched_size is None and getattr(dataset, "leaves_short_batches", False):
            raise AssertionError(
                "The 'drop_last=False' option from the DataLoader only works if 'rebatched_size' is specified too."
            )
        assert rebatched_size is None or rebatched_size > 1, "rebatched_size must be None or greater than 1"
        self._dataset = dataset
        self.rebatched_size = rebatched_size
        job = WorkerJob(
            dataset=dataset,
            buffer_size=buffer_size,
            sleep_seconds=miss_sleep_time_in_ms / 1000,
            load_indefinitely=load_indefinitely,
            early_preload=early_preload,
            rebatched_size=rebatched_size,
            drop_last=getattr(dataset, "rebatched_drop_last", True),
            log_level=logger.level,
            start_method=multiprocessing.get_start_method(),
        )
        self._worker = AsynchronousWorker(job, sharing_strategy)
        # Before multiprocessing's own exit function, which would wait for the process.
        self._at_exit = _make_exit_function(weakref.ref(self))
        atexit.register(self._at_exit)

    def terminate(self) -> None:
        """End the background process. The accessor cannot be used any more."""
        worker, self._worker = self._worker, None
        if worker is not None:
            atexit.unregister(self._at_exit)
            worker.terminate()

    def __del__(self) -> None:
        self.terminate()

    def __len__(self) -> int:
        if self.rebatched_size is None:
            return len(self._dataset)
        return int(len(self._dataset) * (getattr(self._dataset, "batch_size", 1) or 1)) // self.rebatched_size

    def __iter__(self) -> AsynchronousDataAccessor:
        self._require_worker().start_epoch()
        return self

    def __next__(self) -> Any:
        with span(WAIT, "data of another process"):
            return self._require_worker().read_next()

    def _require_worker(self) -> AsynchronousWorker:
        assert self._worker is not None, "The AsynchronousDataAccessor was terminated: make a new one."
        return self._worker


class AsynchronousWorker:
    """The background process, from the side that reads."""

    def __init__(self, job: WorkerJob, strategy: SharingStrategy) -> None:
        self._sleep_seconds = job.sleep_seconds
        self._epoch = -1
        self._used = self._finished = True
        context = multiprocessing.get_context(_METHODS.get(strategy, "spawn"))
        if strategy == SharingStrategy.ForkServer:
            # The server imports these once; processes that it forks need not.
            context.set_forkserver_preload(["__main__", "torch", "poptorch"])
        logger.debug("AsynchronousDataAccessor parent process: %d", os.getpid())
        if strategy == SharingStrategy.FileSystem:
            with tempfile.TemporaryDirectory() as directory:
                path = Path(directory) / "dataset.pickle"
                path.write_bytes(pickle.dumps(job.dataset, protocol=4))
                setup = self._start(context, WorkerJob(**{**vars(job), "dataset": path}))
        else:
            setup = self._start(context, job)
        prepare_types(setup.structure)
        self._spec = pytree.tree_structure(setup.structure)
        self._data_buffers = setup.ring
        self._control = setup.control

    def _start(self, context: Any, job: WorkerJob) -> Setup:
        receiving, sending = context.Pipe(duplex=False)
        watched, self._lifeline = context.Pipe(duplex=False)
        self._process = context.Process(target=run_worker, args=(sending, watched, job))
        self._process.start()
        sending.close()
        watched.close()
        try:
            setup: Setup = receiving.recv()
        except EOFError:
            self._process.join(_GRACE_SECONDS)
            message = "AsynchronousDataAccessor worker thread failed to start (Check above for details)"
            raise createPoptorchError(message) from None
        finally:
            receiving.close()
        return setup

    def start_epoch(self) -> None:
        """Read from the beginning. An epoch that was not touched yet is that already."""
        self._data_buffers.release()
        if not self._used:
            return
        self._epoch += 1
        self._control.wanted_epoch = self._epoch
        self._used = self._finished = False

    def read_next(self) -> Any:
        """The next element of this epoch, as soon as it is there."""
        ring = self._data_buffers
        ring.release()
        pause = Pause(self._sleep_seconds)
        polls = 0
        while not self._finished:
            if ring.is_full_here:
                tag = ring.read_tag()
                if tag.epoch < self._epoch or tag.rows == END:  # left over from an epoch that was given up, or the end
                    self._finished = tag.epoch == self._epoch
                    self._used |= self._finished
                    ring.skip()
                    continue
                self._used = True
                return pytree.tree_unflatten(ring.take(), self._spec)
            polls += 1
            if polls % _POLLS_BETWEEN_LOOKS == 0:
                assert self._process.is_alive(), (
                    "An error occurred in the data fetcher: its process ended with code "
                    f"{self._process.exitcode}. What it wrote to stderr says why."
                )
            pause.sleep()
        raise StopIteration

    def terminate(self) -> None:
        """End the process: kindly, and by force if its dataset does not let it."""
        self._control.stop()
        self._lifeline.close()
        self._process.join(_GRACE_SECONDS)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(_GRACE_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _make_exit_function(reference: weakref.ref[AsynchronousDataAccessor]) -> Any:
    def end_at_exit() -> None:
        accessor = reference()
        if accessor is not None:
            accessor.terminate()

    return end_at_exit
