"""Cutting arrays for replicas: every cut has an inverse, and neighbours get what they should."""

import numpy as np
import pytest

from popxl_addons import array_munging as munging


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_shards_join_to_the_whole(axis):
    x = np.arange(4 * 6 * 8).reshape(4, 6, 8)
    parts = munging.shard(x, 2, axis)
    assert parts.shape[0] == 2
    np.testing.assert_array_equal(parts[1], np.split(x, 2, axis)[1])
    np.testing.assert_array_equal(munging.unshard(parts, axis), x)


@pytest.mark.parametrize(("axis_1", "axis_2"), [(0, 1), (1, 0), (0, 2)])
def test_cuts_along_two_axes_join_to_the_whole(axis_1, axis_2):
    x = np.arange(4 * 4 * 8).reshape(4, 4, 8)
    parts = munging.shard2D(x, 2, 4, axis_1, axis_2)
    np.testing.assert_array_equal(parts[1], np.split(np.split(x, 2, axis_1)[0], 4, axis_2)[1])
    np.testing.assert_array_equal(munging.unshard2D(parts, 2, 4, axis_1, axis_2), x)


def test_repeating():
    x = np.array([[0, 1], [2, 3]])
    np.testing.assert_array_equal(munging.repeat(x, 3, 1)[0], [[0, 1]] * 3)
    np.testing.assert_array_equal(munging.repeat_axis(x, 2, 1), [[0, 1, 0, 1], [2, 3, 2, 3]])
    line = np.arange(4)
    np.testing.assert_array_equal(munging.repeat_shard(line, 2, 2, 0), [[0, 1], [2, 3], [0, 1], [2, 3]])
    strided = munging.repeat_shard(line, 2, 2, 0, "strided")
    np.testing.assert_array_equal(strided, [[0, 1], [0, 1], [2, 3], [2, 3]])


def test_inputs_of_tensor_parallel_replicas():
    x = np.arange(4)
    np.testing.assert_array_equal(munging.tensor_parallel_input(x, 1, 2), [[0, 1], [2, 3]])
    np.testing.assert_array_equal(munging.tensor_parallel_input(x, 2, 4), [[0, 0, 1, 1], [2, 2, 3, 3]])
    shifted = munging.tensor_parallel_input(x, 2, 2, repeat_fn=lambda data, i: data - 10 * i)
    np.testing.assert_array_equal(shifted, [[0, -10], [1, -9], [2, -8], [3, -7]])
    with pytest.raises(ValueError, match="divide"):
        munging.tensor_parallel_input(x, 2, 3)


def test_outputs_of_tensor_parallel_replicas_are_their_samples():
    x = np.arange(8.0).reshape(8, 1)
    sent = munging.tensor_parallel_input(x, 2, 4)
    np.testing.assert_array_equal(munging.tensor_parallel_output(sent, 4, 2, 4, (1,)), x)
    some = munging.tensor_parallel_output(sent, 4, 2, 4, (1,), tp_identical=False, true_num_host_transfers=1)
    np.testing.assert_array_equal(some, x[:2, None].repeat(2, 1))


def test_padding_and_squeezing():
    padded = munging.pad_axis(np.ones((2, 3)), 5, 1, value=7)
    np.testing.assert_array_equal(padded[0], [1, 1, 1, 7, 7])
    with pytest.raises(ValueError, match="more than"):
        munging.pad_axis(np.ones((2, 3)), 2, 1)
    assert munging.squeeze_safe(np.ones((1, 2, 1)), [0, 1]).shape == (2, 1)
    with pytest.raises(IndexError):
        munging.handle_negative_axis(np.ones(3), 1)
