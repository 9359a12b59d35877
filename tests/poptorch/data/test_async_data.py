"""Data that another process loads: the same elements in the same order, and no process left behind."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset

import poptorch
from poptorch._loading.ring_buffer import END, WHOLE, RingBuffer, Tag

FORK = {"sharing_strategy": poptorch.SharingStrategy.Fork}  # starts at once: nothing is imported anew


class Numbers(Dataset):
    def __init__(self, size, broken_at=-1):
        self.size, self.broken_at = size, broken_at

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index == self.broken_at:
            raise OSError("unreadable")
        return torch.full((2,), float(index))


class Stream(IterableDataset):
    def __iter__(self):
        return ({"data": torch.tensor([index]), "label": torch.tensor(index)} for index in range(4))


@pytest.fixture
def accessors():
    """A factory; what it made is terminated at the end."""
    made = []

    def make(kind, *args, **kwargs):
        made.append(kind(*args, **kwargs))
        return made[-1]

    yield make
    for loader in made:
        loader.terminate()


def read(loader):
    return [element.view(-1, 2)[:, 0].tolist() for element in loader]


def test_elements_come_in_order_epoch_after_epoch(accessors):
    accessor = accessors(poptorch.AsynchronousDataAccessor, Numbers(5), **FORK)
    assert len(accessor) == 5
    for _ in range(3):
        assert read(accessor) == [[0.0], [1.0], [2.0], [3.0], [4.0]]


def test_iterating_again_halfway_starts_from_the_beginning(accessors):
    accessor = accessors(poptorch.AsynchronousDataAccessor, Numbers(9), load_indefinitely=False, **FORK)
    for _ in range(3):
        for element in accessor:
            if element[0] == 4:
                break
    assert len(read(accessor)) == 9


@pytest.mark.parametrize("indefinitely", [True, False])
def test_a_ring_of_one_slot_is_enough(accessors, indefinitely):
    accessor = accessors(
        poptorch.AsynchronousDataAccessor, Numbers(3), buffer_size=1, load_indefinitely=indefinitely, **FORK
    )
    assert read(accessor) == read(accessor) == [[0.0], [1.0], [2.0]]


def test_structures_are_rebuilt(accessors):
    accessor = accessors(poptorch.AsynchronousDataAccessor, Stream(), **FORK)
    assert [(type(element), int(element["label"])) for element in accessor] == [(dict, index) for index in range(4)]


@pytest.mark.parametrize(
    ("drop_last", "expected"), [(True, [[0, 1, 2, 3], [4, 5, 6, 7]]), (False, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]])]
)
def test_batches_are_put_together_anew(accessors, drop_last, expected):
    loader = accessors(
        poptorch.DataLoader,
        poptorch.Options().deviceIterations(2),
        Numbers(10),
        batch_size=2,
        drop_last=drop_last,
        mode=poptorch.DataLoaderMode.AsyncRebatched,
        rebatched_worker_size=3,
        async_options=FORK,
    )
    assert len(loader) == len(expected)
    assert read(loader) == read(loader) == expected


def test_short_batches_of_an_asynchronous_loader_are_not_lost(accessors):
    loader = accessors(
        poptorch.DataLoader,
        poptorch.Options(),
        Numbers(5),
        batch_size=2,
        drop_last=False,
        mode=poptorch.DataLoaderMode.Async,
        async_options=FORK,
    )
    assert read(loader) == [[0, 1], [2, 3], [4]]


def test_two_accessors_over_each_other_are_refused(accessors):
    loader = accessors(
        poptorch.DataLoader, poptorch.Options(), Numbers(4), mode=poptorch.DataLoaderMode.Async, async_options=FORK
    )
    with pytest.raises(poptorch.Error, match="The DataLoader already uses an AsynchronousDataAccessor internally"):
        poptorch.AsynchronousDataAccessor(loader)


def test_wrong_arguments_are_refused():
    short = poptorch.DataLoader(poptorch.Options(), Numbers(4), batch_size=2, drop_last=False)
    with pytest.raises(AssertionError, match="only works if 'rebatched_size' is specified"):
        poptorch.AsynchronousDataAccessor(short)
    with pytest.raises(AssertionError, match="rebatched_size must be None or greater than 1"):
        poptorch.AsynchronousDataAccessor(Numbers(4), rebatched_size=1)


@pytest.mark.parametrize(
    ("dataset", "reason"), [(Numbers(3, broken_at=0), "unreadable"), (Numbers(0), "empty"), ([["text"]], "flat 1D")]
)
def test_a_dataset_that_cannot_start_says_why(dataset, reason, capfd):
    with pytest.raises(poptorch.Error, match="worker thread failed to start"):
        poptorch.AsynchronousDataAccessor(dataset, **FORK)
    assert reason in capfd.readouterr().err


@pytest.mark.parametrize("mode", [poptorch.DataLoaderMode.Async, poptorch.DataLoaderMode.AsyncRebatched])
def test_a_dataset_that_is_too_small_for_one_batch_is_not_called_empty(mode):
    options = poptorch.Options().deviceIterations(4)
    with pytest.raises(poptorch.Error, match=r"has 7 elements, fewer than one batch takes \(8\).*deviceIterations"):
        poptorch.DataLoader(options, Numbers(7), batch_size=2, mode=mode, async_options=FORK)
    with pytest.raises(poptorch.Error, match="The Dataset is empty"):
        poptorch.DataLoader(options, Numbers(0), batch_size=2, mode=mode, async_options=FORK)


def test_an_accessor_of_a_loader_without_a_batch_says_why(capfd):
    loader = torch.utils.data.DataLoader(Numbers(3), batch_size=4, drop_last=True)
    with pytest.raises(poptorch.Error, match="worker thread failed to start"):
        poptorch.AsynchronousDataAccessor(loader, **FORK)
    assert "has 3 elements, fewer than one batch takes (4)" in capfd.readouterr().err


def test_a_dataset_that_breaks_later_does_not_hang(accessors, capfd):
    accessor = accessors(poptorch.AsynchronousDataAccessor, Numbers(4, broken_at=2), **FORK)
    with pytest.raises(AssertionError, match="An error occurred in the data fetcher"):
        read(accessor)
    assert "OSError: unreadable" in capfd.readouterr().err


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_process_ends_with_the_accessor_and_ignores_ctrl_c():
    loader = poptorch.DataLoader(poptorch.Options(), Numbers(4), mode=poptorch.DataLoaderMode.Async, async_options=FORK)
    pid = loader._accessor._worker._process.pid
    os.kill(pid, signal.SIGINT)
    assert len(read(loader)) == 4
    del loader
    assert not is_running(pid)


SCRIPT = """
import torch, poptorch
if __name__ == "__main__":
    accessor = poptorch.AsynchronousDataAccessor([torch.ones(2)] * 3, sharing_strategy=poptorch.SharingStrategy.{how})
    print(len(list(accessor)), accessor._worker._process.pid, flush=True)
    {end}
"""


@pytest.mark.parametrize(("how", "end"), [("ForkServer", "pass"), ("Fork", "import os; os.kill(os.getpid(), 9)")])
def test_no_process_outlives_the_program(tmp_path, how, end):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(how=how, end=end))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600)
    count, pid = done.stdout.split()
    assert count == "3"
    deadline = time.monotonic() + 300
    while is_running(int(pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(int(pid))
    assert done.stderr == ""


def test_a_ring_keeps_order_and_tags():
    ring = RingBuffer.allocate([torch.zeros(2)], slots=2)
    reader = RingBuffer(ring._tensors, ring._full, ring._tags)
    ring.write([torch.tensor([1.0, 2.0])], Tag(0, WHOLE))
    ring.write_end(0)
    assert ring.is_full_here  # both slots are taken: the writer is back at the first
    assert reader.take()[0].tolist() == [1.0, 2.0]
    assert reader.read_tag() == Tag(0, END)
    reader.release()
    assert not ring.is_full_here
    with pytest.raises(ValueError, match=r"shape \(3,\).*all elements must be alike"):
        ring.write([torch.zeros(3)], Tag(1, WHOLE))
