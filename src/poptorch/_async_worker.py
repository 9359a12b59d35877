"""The process that loads data in the background.

In: a `WorkerJob` over a pipe. Out: a `Setup` with shared memory over the same pipe, then elements in that memory, epoch
after epoch, until the other side asks for another epoch, for the end, or is gone.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as multiprocessing
from torch.utils import _pytree as pytree
from torch.utils.data import Dataset, IterableDataset

from openipu.trace import DATA, is_tracing, trace_iterator
from poptorch._args_parser import prepare_types
from poptorch._logging import logger
from poptorch._ring_buffer import WHOLE, RingBuffer, Tag, share
from poptorch.errors import createPoptorchError

LONGEST_SLEEP_SECONDS = 0.005
NOT_YET = -1  # wanted epoch before anybody iterates


@dataclass(frozen=True)
class WorkerJob:
    """What to load and how. A dataset that is a path is unpickled from that file."""

    dataset: Any
    buffer_size: int
    sleep_seconds: float
    load_indefinitely: bool
    early_preload: bool
    rebatched_size: int | None
    drop_last: bool
    log_level: int
    start_method: str  # of processes that the dataset itself starts


@dataclass(frozen=True)
class Setup:
    """What the other side needs to read elements."""

    structure: Any  # an element with empty tensors
    ring: RingBuffer
    control: Control


class Control:
    """Two numbers in shared memory, by which the reader steers the loader."""

    def __init__(self) -> None:
        self._numbers = share(torch.tensor([NOT_YET, 0], dtype=torch.int64))

    @property
    def wanted_epoch(self) -> int:
        return int(self._numbers[0])

    @wanted_epoch.setter
    def wanted_epoch(self, epoch: int) -> None:
        self._numbers[0] = epoch

    @property
    def stopped(self) -> bool:
        return bool(self._numbers[1])

    def stop(self) -> None:
        self._numbers[1] = 1


class Pause:
    """Sleeps a little longer each time, up to a few milliseconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def sleep(self) -> None:
        if self._seconds > 0:
            time.sleep(self._seconds)
            self._seconds = min(self._seconds * 1.5, max(self._seconds, LONGEST_SLEEP_SECONDS))


def run_worker(pipe: Connection, lifeline: Connection, job: WorkerJob) -> None:
    """The process's main function. Errors are shown on stderr, and end the process with a code that is not 0."""
    # Ctrl-C reaches every process of a terminal: this one goes when the reader says so, or is gone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # lets go of the dataset's own workers, too
    multiprocessing.set_start_method(job.start_method, force=True)
    logger.setLevel(job.log_level)
    logger.debug("AsynchronousDataAccessor worker process: %d", os.getpid())
    try:
        _Loader(job, lifeline).run(pipe)
    except Exception:
        traceback.print_exc()
        pipe.close()
        raise SystemExit(1) from None
    logger.debug("AsynchronousDataAccessor worker: clean exit")


class _Loader:
    """Fills the ring."""

    def __init__(self, job: WorkerJob, lifeline: Connection) -> None:
        self._job = job
        self._lifeline = lifeline
        self._parent = os.getppid()
        self._control = Control()
        dataset = job.dataset
        self._dataset = pickle.loads(dataset.read_bytes()) if isinstance(dataset, Path) else dataset

    def run(self, pipe: Connection) -> None:
        elements = self._load()
        first = next(elements, None)
        if first is None:
            raise createPoptorchError(explain_no_batch(self._dataset, self._job.rebatched_size))
        leaves, rows, spec = first
        ring = RingBuffer.allocate(leaves, self._job.buffer_size, self._job.rebatched_size)
        ring.write(leaves, Tag(0, rows))
        structure = pytree.tree_unflatten([torch.empty(0) for _ in leaves], spec)
        pipe.send(Setup(structure, ring, self._control))
        epoch = 0
        if not self._job.early_preload:
            self._wait_for_epoch(epoch)
        while not self._should_stop():
            self._fill(ring, elements, epoch)
            epoch = max(epoch + 1, self._control.wanted_epoch)
            if not self._job.load_indefinitely:
                self._wait_for_epoch(epoch)
            if not self._should_stop():
                elements = self._load()

    def _fill(self, ring: RingBuffer, elements: Iterator[tuple[list[torch.Tensor], int, Any]], epoch: int) -> None:
        """Load one epoch, until its end or until a later one is wanted."""
        for leaves, rows, _ in elements:
            if not self._wait_for_slot(ring, epoch):
                return
            ring.write(leaves, Tag(epoch, rows))
        logger.debug("AsynchronousDataAccessor worker: end of dataset reached")
        if self._wait_for_slot(ring, epoch):
            ring.write_end(epoch)

    def _load(self) -> Iterator[tuple[list[torch.Tensor], int, Any]]:
        """Elements of one epoch, put together to batches of another size where asked for: tensors, rows, structure."""
        size = self._job.rebatched_size
        waiting: list[torch.Tensor] = []
        spec = None
        elements = _iterate(self._dataset)
        for element in trace_iterator(elements, DATA, "load") if is_tracing() else elements:
            leaves, spec = _flatten(element)
            if size is None:
                yield leaves, WHOLE, spec
                continue
            waiting = [torch.cat(pair) for pair in zip(waiting, leaves, strict=True)] if waiting else leaves
            while len(waiting[0]) >= size:
                yield [leaf[:size] for leaf in waiting], size, spec
                waiting = [leaf[size:] for leaf in waiting]
        if size is not None and waiting and len(waiting[0]) and not self._job.drop_last:
            yield waiting, len(waiting[0]), spec

    def _wait_for_epoch(self, epoch: int) -> None:
        self._wait(lambda: self._control.wanted_epoch >= epoch)

    def _wait_for_slot(self, ring: RingBuffer, epoch: int) -> bool:
        """Whether there is a free slot, and still a reason to fill it."""
        self._wait(lambda: not ring.is_full_here or self._control.wanted_epoch > epoch)
        return not self._should_stop() and self._control.wanted_epoch <= epoch

    def _wait(self, is_over: Callable[[], bool]) -> None:
        pause = Pause(self._job.sleep_seconds)
        while not is_over() and not self._should_stop():
            pause.sleep()

    def _should_stop(self) -> bool:
        if self._control.stopped or os.getppid() != self._parent:
            return True
        return self._lifeline.poll()  # a pipe that nobody holds any more can be read: its end


def explain_no_batch(dataset: Any, rebatched_size: int | None = None) -> str:
    """Why a dataset, or a loader of one, gives nothing: it may be empty, or too small for one batch."""
    size = rebatched_size or getattr(dataset, "combinedBatchSize", None) or getattr(dataset, "batch_size", None)
    source = getattr(dataset, "dataset", dataset)
    try:
        count = len(source)
    except TypeError:
        count = None
    if size is None or count == 0:
        return "The Dataset is empty"
    if count is None or count >= size:  # not known, or this process has a share of it
        held = "has fewer elements for this process"
    else:
        held = f"has {count} elements, fewer"
    return (
        f"The dataset {held} than one batch takes ({size}), and "
        "drop_last=True leaves out what does not fill one: there is no batch. A poptorch.DataLoader loads batch_size x "
        "deviceIterations x replicationFactor x gradientAccumulation elements for each call of the model: lower one of "
        "them, or use a larger dataset."
    )


def _iterate(dataset: Any) -> Iterator[Any]:
    """Map-style datasets need not raise IndexError at their end, so they are counted."""
    counted = isinstance(dataset, Dataset) and not isinstance(dataset, IterableDataset)
    if counted and not hasattr(dataset, "__iter__") and hasattr(dataset, "__len__"):
        return (dataset[index] for index in range(len(dataset)))
    elements: Iterator[Any] = iter(dataset)
    return elements


def _flatten(element: Any) -> tuple[list[torch.Tensor], Any]:
    prepare_types(element)
    leaves, spec = pytree.tree_flatten(element)
    for index, leaf in enumerate(leaves):
        assert isinstance(leaf, torch.Tensor), (
            f"Tensor at index {index} is not a torch tensor ({type(leaf)}). AsynchronousDataAccessor expects data to "
            "be organised as a flat 1D container of tensors."
        )
    return leaves, spec
