"""Ops that TensorFlow does not have: the same values on the device and on the host, and what the maths says."""

from __future__ import annotations

import numpy as np
import pytest
from tensorflow.python import ipu
from tensorflow.python.ipu.ops import f8_ops

import tensorflow as tf

v1 = tf.compat.v1
RANDOM = np.random.default_rng(5)


def run(function, *arrays, times=1):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with tf.Graph().as_default(), v1.Session() as session:
        with tf.device("cpu"):
            given = [v1.placeholder(value.dtype, value.shape) for value in arrays]
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            made = ipu.ipu_compiler.compile(function, given)
        found = [session.run(made, dict(zip(given, arrays, strict=True))) for _ in range(times)]
        return found[0] if times == 1 else found


def test_slices_of_sequences_go_where_the_data_say():
    source = np.arange(12, dtype=np.float32).reshape(6, 2)
    target = -np.ones((5, 2), np.float32)
    counts, starts, ends = np.array([2, 1]), np.array([3, 0]), np.array([0, 4])
    kept, zeroed, unpacked, packed = run(
        lambda t, s, n, a, b: (
            ipu.slicing_ops.sequence_slice(t, s, n, a, b, False),
            ipu.slicing_ops.sequence_slice(t, s, n, a, b, True),
            ipu.slicing_ops.sequence_slice_unpack(s, n, a, 3),
            ipu.slicing_ops.sequence_slice_pack(t, s, n, b, False),
        ),
        *(target, source, counts.astype(np.int32), starts.astype(np.int32), ends.astype(np.int32)),
    )
    np.testing.assert_array_equal(kept, [[6, 7], [8, 9], [-1, -1], [-1, -1], [0, 1]])
    np.testing.assert_array_equal(zeroed, [[6, 7], [8, 9], [0, 0], [0, 0], [0, 1]])
    np.testing.assert_array_equal(unpacked, [[6, 7], [8, 9], [0, 1]])
    np.testing.assert_array_equal(packed, [[0, 1], [2, 3], [-1, -1], [-1, -1], [4, 5]])


@pytest.mark.parametrize(("form", "largest"), [(f8_ops.Format.F143, 240.0), (f8_ops.Format.F152, 57344.0)])
@pytest.mark.parametrize("scale", [-2, 0, 3])
def test_numbers_of_eight_bits_come_back_rounded_and_held_at_the_largest(form, largest, scale):
    exact = np.array([0.0, 1.0, -1.5, 0.75], np.float32)
    metadata = np.array(f8_ops.create_metadata(form, scale), np.uint8)

    def there_and_back(values, how):
        return [f8_ops.convert_from_f8(f8_ops.convert_to_f8(values, how), tf.float32)]

    values = np.append(exact, [65504.0]).astype(np.float32)
    (back,) = run(there_and_back, values, metadata)
    np.testing.assert_array_equal(back[:4], exact)
    assert back[4] == min(largest * 2.0**scale, 65504)
    np.testing.assert_array_equal(there_and_back(tf.constant(values), metadata)[0], back)  # eagerly, on the host


def test_dropout_by_a_seed_has_one_mask_in_every_run_and_its_gradient_the_same():
    x = np.ones((64, 64), np.float32)

    def compute(value, seed):
        made = ipu.rand_ops.dropout(value, 0.3, seed=seed)
        return made, v1.gradients(made, value)[0]

    (first, slope), (again, _) = run(compute, x, np.array([7, 8], np.int32), times=2)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, slope)
    assert np.mean(first == 0) == pytest.approx(0.3, abs=0.03)
    other, _ = run(compute, x, np.array([7, 9], np.int32))
    assert np.mean((first == 0) == (other == 0)) == pytest.approx(0.3**2 + 0.7**2, abs=0.03)  # independent


def test_the_loss_and_the_slope_of_temporal_classification_are_tensorflows():
    steps, batch, classes = 9, 3, 5
    logits = RANDOM.standard_normal((steps, batch, classes)).astype(np.float32)
    labels = RANDOM.integers(1, classes, (batch, 4)).astype(np.int32)
    sizes, lengths = np.array([4, 2, 3], np.int32), np.array([9, 9, 8], np.int32)

    def compute(value):
        loss = ipu.nn_ops.ctc_loss_v2(labels, value, sizes, lengths, 0)
        return loss, v1.gradients(loss, value)[0]

    loss, slope = run(compute, logits)
    held = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(held)
        expected = tf.nn.ctc_loss(labels, held, sizes, lengths, blank_index=0)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(slope, tape.gradient(expected, held), atol=1e-5)


def test_a_tensor_is_printed_whenever_the_program_comes_by(capfd):
    def compute(value):
        with tf.control_dependencies([ipu.internal_ops.print_tensor(value + 1, "seen")]):
            return [tf.identity(value)]

    run(compute, np.zeros(2, np.float32), times=2)
    assert capfd.readouterr().err.count("seen: (") == 2


def test_results_come_back_in_the_structure_that_the_computation_returns():
    result = run(lambda x: {"a": x, "b": [x + 1, (x + 2,)]}, np.zeros(1, np.float32))
    assert (result["a"][0], result["b"][0][0], result["b"][1][0][0]) == (0, 1, 2)
