"""DataLoader: batch sizes and order, worked out by hand."""

import pytest
import torch
from torch.utils.data import BatchSampler, Dataset, IterableDataset, RandomSampler, SequentialSampler

import poptorch


class Numbers(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return torch.tensor([float(index)]), index


class Stream(IterableDataset):
    def __init__(self, size):
        self.size = size

    def __iter__(self):
        return (torch.tensor([float(index)]) for index in range(self.size))


def read_indices(loader):
    return [labels.tolist() for _, labels in loader]


def flatten(batches):
    return [index for batch in batches for index in batch]


@pytest.mark.parametrize(
    ("device_iterations", "accumulation", "replicas", "group"), [(1, 1, 1, 1), (2, 1, 1, 1), (2, 3, 1, 1), (2, 3, 4, 2)]
)
def test_the_combined_batch_is_the_product_of_all_loops(device_iterations, accumulation, replicas, group):
    options = poptorch.Options().deviceIterations(device_iterations).replicationFactor(replicas)
    options.inputReplicaGrouping(group, poptorch.CommGroupType.Consecutive)
    options.Training.gradientAccumulation(accumulation)
    loader = poptorch.DataLoader(options, Numbers(200), batch_size=2)
    expected = 2 * device_iterations * accumulation * (replicas // group)
    assert loader.combinedBatchSize == expected
    assert len(loader) == 200 // expected
    assert read_indices(loader) == [
        list(range(start, start + expected)) for start in range(0, 200 // expected * expected, expected)
    ]
    assert loader.options is options


def test_the_last_incomplete_batch_is_dropped_unless_told_otherwise(caplog):
    options = poptorch.Options().deviceIterations(2)
    assert read_indices(poptorch.DataLoader(options, Numbers(7), batch_size=2)) == [[0, 1, 2, 3]]
    loader = poptorch.DataLoader(options, Numbers(7), batch_size=2, drop_last=False)
    assert read_indices(loader) == [[0, 1, 2, 3], [4, 5, 6]]
    assert "The number of elements in the dataset (7) is not divisible by that of one step (4)" in caplog.text


def test_options_freeze_with_the_loader():
    options = poptorch.Options()
    poptorch.DataLoader(options, Numbers(4))
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        options.deviceIterations(2)


def test_shuffling_keeps_every_element():
    loader = poptorch.DataLoader(poptorch.Options(), Numbers(32), batch_size=8, shuffle=True)
    batches = read_indices(loader)
    assert sorted(flatten(batches)) == list(range(32))
    assert flatten(batches) != list(range(32))


def test_a_dataset_that_batches_itself_passes_through():
    loader = poptorch.DataLoader(poptorch.Options(), Numbers(3), batch_size=None)
    assert loader.combinedBatchSize is None
    assert [label for _, label in loader] == [0, 1, 2]


def test_iterable_datasets_are_batched():
    options = poptorch.Options().deviceIterations(3)
    batches = [batch.flatten().tolist() for batch in poptorch.DataLoader(options, Stream(8), batch_size=1)]
    assert batches == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_batches_of_a_sampler_are_joined():
    options = poptorch.Options().deviceIterations(2)
    options.Training.gradientAccumulation(2)
    sampler = BatchSampler(SequentialSampler(range(20)), batch_size=2, drop_last=False)
    loader = poptorch.DataLoader(options, Numbers(20), batch_sampler=sampler)
    # 4 micro-batches of 2 in a call: 20 elements give two full calls, and two micro-batches that are dropped
    assert read_indices(loader) == [list(range(8)), list(range(8, 16))]
    assert len(loader) == 2
    assert loader.combinedBatchSize == 8
    kept = poptorch.DataLoader(options, Numbers(20), batch_sampler=sampler, drop_last=False)
    assert read_indices(kept)[-1] == [16, 17, 18, 19]
    assert len(kept) == 3


def test_each_batch_of_a_sampler_is_collated_by_itself():
    def pad(samples):
        values = [value for value, _ in samples]
        return torch.stack(values + [torch.full((1,), -1.0)] * (3 - len(values)))

    sampler = [[0, 1], [2, 3, 4], [5], [6]]
    loader = poptorch.DataLoader(
        poptorch.Options().deviceIterations(2), Numbers(7), batch_sampler=sampler, collate_fn=pad
    )
    assert [batch.flatten().tolist() for batch in loader] == [[0, 1, -1, 2, 3, 4], [5, -1, -1, 6, -1, -1]]


@pytest.mark.parametrize("arguments", [{"batch_size": 2}, {"shuffle": True}])
def test_a_batch_sampler_excludes_batch_size_and_shuffle(arguments):
    sampler = BatchSampler(RandomSampler(range(4)), batch_size=2, drop_last=False)
    with pytest.raises(poptorch.Error, match="`batch_sampler` option is mutually exclusive with batch_size, shuffle"):
        poptorch.DataLoader(poptorch.Options(), Numbers(4), batch_sampler=sampler, **arguments)


def share(process, processes, size, epochs=1, **arguments):
    options = poptorch.Options()
    if arguments.get("shuffle"):
        options.randomSeed(3)
    options.Distributed.configureProcessId(process, processes)
    loader = poptorch.DataLoader(options, Numbers(size), **arguments)
    return [flatten(read_indices(loader)) for _ in range(epochs)]


def test_each_process_gets_a_contiguous_share():
    # 10 elements, 3 processes: 3 each, and one is left over
    assert share(0, 3, 10, epochs=2) == [[0, 1, 2], [0, 1, 2]]
    assert share(2, 3, 10, epochs=2) == [[6, 7, 8], [6, 7, 8]]
    # steps of 2: 2 each, and whole steps only
    assert share(1, 3, 10, batch_size=2) == [[2, 3]]
    assert [share(process, 3, 10, drop_last=False) for process in range(3)] == [
        [[0, 1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]]
    ]  # fmt: skip


def test_elements_left_over_in_one_shuffled_epoch_are_used_in_the_next():
    for size in range(9, 16):
        shares = [share(process, 2, size, epochs=6, shuffle=True, batch_size=2) for process in (0, 1)]
        for epoch in range(5):
            used = {index for mine in shares for index in mine[epoch] + mine[epoch + 1]}
            assert used == set(range(size))


def test_shuffled_shares_of_processes_do_not_overlap_and_change_each_epoch():
    first, second = (share(process, 2, 8, epochs=2, shuffle=True, batch_size=2) for process in (0, 1))
    for epoch in (0, 1):
        assert sorted(first[epoch] + second[epoch]) == list(range(8))
    assert first[0] + second[0] != first[1] + second[1]


def test_shares_need_a_seed_a_batch_and_a_map():
    options = poptorch.Options()
    options.Distributed.configureProcessId(0, 2)
    with pytest.raises(AssertionError, match=r"you must set poptorch\.Options\.randomSeed"):
        poptorch.DataLoader(options, Numbers(4), shuffle=True)
    with pytest.raises(AssertionError, match="auto_distributed_partitioning not supported for IterableDataset"):
        poptorch.DataLoader(options, Stream(4))
    with pytest.raises(AssertionError, match="batch_size=None not allowed"):
        poptorch.DataLoader(options, Numbers(4), batch_size=None)
    whole = poptorch.DataLoader(options, Numbers(4), auto_distributed_partitioning=False)
    assert flatten(read_indices(whole)) == [0, 1, 2, 3]


def test_a_worker_loads_at_most_a_combined_batch():
    options = poptorch.Options()
    with pytest.raises(AssertionError, match="rebatched_worker_size"):
        poptorch.DataLoader(
            options, Numbers(4), 4, mode=poptorch.DataLoaderMode.AsyncRebatched, rebatched_worker_size=5
        )


def test_workers_load_the_same_batches_and_stop():
    loader = poptorch.DataLoader(poptorch.Options().deviceIterations(2), Numbers(8), batch_size=2, num_workers=1)
    assert loader.persistent_workers
    assert read_indices(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    loader.terminate()  # has no effect here: there is no process of our own
    assert read_indices(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_loader_without_a_batch_says_so(caplog):
    loader = poptorch.DataLoader(poptorch.Options().deviceIterations(3), torch.arange(5), batch_size=2)
    assert list(loader) == []
    assert "has 5 elements, fewer than one batch takes (6)" in caplog.text
    caplog.clear()
    poptorch.DataLoader(poptorch.Options().deviceIterations(3), torch.arange(6), batch_size=2)
    assert not caplog.records
