"""What an IPU asks of a model's data: the original's rules, with its errors."""

from __future__ import annotations

import logging

import numpy
import pytest
from keras.src.trainers import data_adapters

import openipu_tensorflow.keras  # noqa: F401 (extends Keras)
import tensorflow as tf
from openipu_tensorflow.keras.data import chunks, epochs
from openipu_tensorflow.keras.data.arrays import find_ordered_arrays
from openipu_tensorflow.keras.data.epochs import Feeding, IpuEpochIterator
from openipu_tensorflow.keras.data.rules import plan_epoch


@pytest.mark.parametrize(
    ("size", "steps", "execution", "replicas", "expected"),
    [
        (16, None, 8, 1, (16, 8)),
        (16, None, 4, 2, (8, 4)),  # 16 batches are 8 for each of 2 replicas
        (-1, 12, 6, 2, (6, 6)),  # steps count batches of all replicas
        (None, 12, 3, 1, (12, 3)),
        (20, 16, 8, 1, (16, 8)),
    ],
)
def test_steps_are_counted_for_each_replica(size, steps, execution, replicas, expected):
    found = plan_epoch(size, steps, execution, replicas)
    assert (found.steps, found.steps_per_execution) == expected
    assert found.elements == expected[1] * replicas


@pytest.mark.parametrize(
    ("size", "steps", "execution", "replicas", "phrase"),
    [
        (None, None, 1, 1, "Could not infer the size of the data"),
        (-1, None, 1, 1, "You must specify the number of steps"),
        (10, None, 4, 1, r"`steps_per_execution` \(4\) must be a divisor of the number of batches \(10\)"),
        (10, None, 4, 2, r"\(5\) in the dataset provided to this replica"),
        (10, 20, 1, 1, "Your input does not have enough data"),
        (1, None, 1, 2, "Make sure the dataset contains at least 2 items"),
    ],
)
def test_what_does_not_divide_is_an_error(size, steps, execution, replicas, phrase):
    with pytest.raises(ValueError, match=phrase):
        plan_epoch(size, steps, execution, replicas)


def test_more_steps_than_there_are_become_those_that_there_are_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING, "openipu"):
        assert plan_epoch(6, None, 10, 1).steps_per_execution == 6
    assert "only contains 6 batches" in caplog.text


def test_batches_that_replicas_cannot_share_evenly_are_dropped_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING, "openipu"):
        assert plan_epoch(7, None, 1, 2).steps == 3
    assert "remaining 1 batch will be dropped" in caplog.text


def iterate(how=Feeding(), **given):  # noqa: B008 (frozen)
    return IpuEpochIterator(how, **given)


def test_arrays_with_a_partial_batch_are_refused():
    with pytest.raises(ValueError, match="has a partial batch"):
        iterate(x=numpy.zeros((10, 2)), batch_size=4)


def test_a_data_set_whose_last_batch_may_be_short_is_refused():
    data = tf.data.Dataset.from_tensor_slices(numpy.zeros((8, 2), "float32")).batch(4)
    with pytest.raises(ValueError, match=r"not fully defined.*drop_remainder=True"):
        iterate(x=data)


def test_generators_are_refused_by_their_type():
    def generate():
        while True:
            yield numpy.zeros((4, 2), "float32"), numpy.zeros(4)

    with pytest.raises(ValueError, match="`generator` which is not compatible with the IPU's requirement"):
        iterate(x=generate(), steps_per_epoch=2)


def test_an_execution_has_the_batches_of_all_its_steps_and_replicas_in_order():
    x = numpy.arange(24, dtype="float64").reshape(12, 2)
    found = iterate(Feeding(replicas=2), x=x, batch_size=1, steps_per_execution=3)
    executions = list(found)
    assert [(first, last) for first, last, _ in executions] == [(0, 2), (3, 5)]
    taken = [data.open().take(0, 6)[0].numpy() for _, _, data in executions]
    assert taken[0].dtype == numpy.float32  # an IPU has no double
    numpy.testing.assert_array_equal(numpy.concatenate(taken).reshape(12, 2), x)


def test_steps_of_an_epoch_go_on_where_the_last_one_ended():
    data = tf.data.Dataset.range(100).batch(1, drop_remainder=True)
    found = iterate(x=data, steps_per_epoch=4, steps_per_execution=2)
    first = [item.open().take(0, 2)[0].numpy().ravel().tolist() for _, _, item in found]
    second = [item.open().take(0, 2)[0].numpy().ravel().tolist() for _, _, item in found]
    assert (first, second) == ([[0, 1], [2, 3]], [[4, 5], [6, 7]])


def read(source, counts):
    """What a source gives for runs of so many batches."""
    found, first = [], 0
    for count in counts:
        found.append(source.take(first, count)[0].numpy().copy())
        first += count
    return found


@pytest.mark.parametrize("most", [1, 3 * 8, 1 << 20], ids=["one by one", "in threes", "all at once"])
def test_batches_of_an_execution_come_in_order_however_they_are_cut(most, monkeypatch):
    monkeypatch.setattr(chunks, "_CHUNK_BYTES", most)
    data = tf.data.Dataset.range(48).map(lambda number: tf.cast(number, tf.float32)).batch(2, drop_remainder=True)
    executions = [data.open() for _, _, data in iterate(x=data, steps_per_execution=12)]
    sizes = [1, 4, 7]  # within a chunk, over its end, over several
    found = [numpy.concatenate(read(source, sizes)) for source in executions]
    numpy.testing.assert_array_equal(numpy.concatenate(found), numpy.arange(48))


def test_an_execution_of_many_steps_does_not_hold_all_its_data():
    images = tf.data.Dataset.from_tensors(tf.zeros((4, 64, 64, 3))).repeat(1000)  # 196,608 B each, 197 MB in all
    iterator = iterate(x=images, steps_per_execution=1000)
    (_, _, execution), *_ = iterator
    held = execution.open().take(0, 1)[0].untyped_storage().nbytes()
    assert held == 20 * 196_608  # the largest divisor of 1,000 that 4 MiB hold: 4,194,304 // 196,608 = 21


def test_memory_of_a_batch_is_tensorflows_own():
    """No copy on the way to the engine: a batch that fills a chunk by itself is lent."""
    batch = tf.ones((1 << 20, 2))
    (_, _, execution), *_ = iterate(x=tf.data.Dataset.from_tensors(batch))
    assert execution.chunk == 1


def test_an_input_of_one_dimension_may_be_a_number_as_in_keras_2():
    assert tf.keras.Input(shape=(80), batch_size=4, dtype="int32").shape == (4, 80)
    assert tf.keras.layers.InputLayer(shape=(80,)).batch_shape == (None, 80)


def take_epoch(**given):
    """All leaves of an epoch's batches, and the types of one of them."""
    found = iterate(**given)
    count = found.schedule.elements
    taken = [[leaf.numpy().copy() for leaf in data.open().take(0, count)] for _, _, data in found]
    return [numpy.concatenate(parts) for parts in zip(*taken, strict=True)], found.element_spec


def make_arrays():
    return {
        "x": {"b": numpy.arange(12, dtype="int32"), "a": [numpy.random.rand(12, 3).astype("float32")]},
        "y": tf.range(12) % 2,
        "sample_weight": numpy.random.rand(12).astype("float32"),
    }


def test_arrays_in_order_are_the_batches_that_keras_makes_of_them(monkeypatch):
    given = {**make_arrays(), "batch_size": 2, "steps_per_execution": 3}
    found, spec = take_epoch(**given)
    monkeypatch.setattr(epochs, "find_ordered_arrays", lambda adapter: None)
    expected, expected_spec = take_epoch(**given)
    assert spec == expected_spec
    for own, other in zip(found, expected, strict=True):
        numpy.testing.assert_array_equal(own, other)
        assert own.dtype == other.dtype


@pytest.mark.filterwarnings("error")
def test_arrays_in_order_are_read_where_they_lie():
    x = numpy.arange(48, dtype="float32").reshape(12, 4)
    x.flags.writeable = False
    (_, _, first), (_, _, second) = iterate(x=x, batch_size=3, steps_per_execution=2)
    assert first.open().take(0, 2)[0].data_ptr() == x.ctypes.data
    assert second.open().take(1, 1)[0].data_ptr() == x[9:].ctypes.data


@pytest.mark.parametrize("steps", [1, 2])
def test_steps_of_an_epoch_go_on_in_arrays_and_end_with_them(steps):
    x = numpy.arange(8, dtype="int64")
    found = iterate(x=x, batch_size=1, steps_per_epoch=4, steps_per_execution=steps)
    first, second = ([read(item.open(), [steps])[0] for _, _, item in found] for _ in range(2))
    assert numpy.concatenate(first).tolist() == [0, 1, 2, 3]
    assert numpy.concatenate(second).tolist() == [4, 5, 6, 7]
    with pytest.raises(StopIteration):
        [item.open().take(0, steps) for _, _, item in found]


@pytest.mark.parametrize(
    ("x", "options"),
    [
        (numpy.zeros((4, 2), "float64"), {}),
        (numpy.zeros((4, 2), "uint16"), {}),
        (numpy.zeros((2, 4), "float32").T, {}),
        (numpy.zeros((4, 2), "float32"), {"shuffle": True}),
        (numpy.zeros((4, 2), ">f4"), {}),
        (numpy.zeros((4, 0), "float32"), {}),
        (tf.ragged.constant([[1], [2, 3], [], [4]]), {}),
    ],
    ids=["double", "unsigned", "turned", "shuffled", "big-endian", "empty", "ragged"],
)
def test_other_arrays_go_through_a_data_set(x, options):
    adapter = data_adapters.get_data_adapter(x, batch_size=2, **options)
    assert find_ordered_arrays(adapter) is None
