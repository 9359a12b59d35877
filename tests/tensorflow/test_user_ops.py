"""Functions in the place of compiled libraries."""

import numpy as np
import pytest
from tensorflow.python import ipu

import tensorflow as tf
from openipu_tensorflow.ipu.ops.user_ops import register_user_op

call = ipu.custom_ops.precompiled_user_op


def describe(kind, *shape):
    return {"output_types": [kind], "output_shapes": [tf.TensorShape(shape)]}


def test_a_library_that_nobody_knows_is_refused_with_what_to_do():
    with pytest.raises(NotImplementedError, match=r"/a/liba.so was compiled against Poplar.*register_user_op"):
        call([tf.constant(1.0)], "/a/liba.so")


def test_a_registered_function_is_the_op_and_has_a_gradient():
    register_user_op("libdouble.so", lambda tensors, attributes, shapes: [tensors[0] * float(attributes)])
    given = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(given)
        (made,) = call([given], "/x/libdouble.so", attributes="3", outs=describe(tf.float32, 2))
    np.testing.assert_array_equal(made, [3, 6])
    np.testing.assert_array_equal(tape.gradient(made, given), [3, 3])


def test_results_that_the_program_does_not_expect_are_refused():
    register_user_op("libdouble.so", lambda tensors, attributes, shapes: [tensors[0] * float(attributes)])
    with pytest.raises(ValueError, match="belongs to this library"):
        call([tf.constant([1.0])], "libdouble.so", attributes="3", outs=describe(tf.float16, 1))


def test_rows_are_gathered_summed_and_compared_within_their_groups():
    library, kind = "custom_grouped_gather_scatter.so", tf.float32
    table = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    indices = np.array([[2, 0], [1, 1]], np.int32)
    (rows,) = call([table, indices], library, attributes="v0 gather float 2 3 2 2", outs=describe(kind, 2, 2, 2))
    np.testing.assert_array_equal(rows, np.stack([table[group][indices[group]] for group in range(2)]))
    for op, reduce in (("scatter", np.add), ("scatter_sum", np.add), ("scatter_max", np.maximum)):
        (made,) = call([rows, indices], library, attributes=f"v0 {op} float 2 3 2 2", outs=describe(kind, 2, 3, 2))
        empty = 0 if reduce is np.add else np.finfo(np.float32).min
        expected = np.full((2, 3, 2), empty, np.float32)
        for group in range(2):
            reduce.at(expected[group], indices[group], rows[group].numpy())
        np.testing.assert_array_equal(made, expected)


def test_the_centre_of_images_is_cropped():
    images = np.arange(36, dtype=np.float32).reshape(1, 6, 6, 1)
    (made,) = call([images], "libcustom_op.so", attributes=str(4 / 6), outs=describe(tf.float32, 1, 4, 4, 1))
    np.testing.assert_array_equal(made, images[:, 1:5, 1:5])


def test_columns_are_repeated_by_their_durations():
    states = np.float32([[[1, 3, 5], [2, 4, 6]]])
    library = "custom_op/length_regulator/liblengthRegulator.so"
    (made,) = call([states, np.array([[2, 0, 1]], np.int32)], library, outs=describe(tf.float32, 1, 2, 5))
    np.testing.assert_array_equal(made, np.float32([[[1, 1, 5, 0, 0], [2, 2, 6, 0, 0]]]))


def test_systems_of_equations_are_solved_whatever_their_diagonals():
    generator = np.random.default_rng(2)
    matrices = generator.normal(size=(50, 13, 13)).astype(np.float32)
    matrices[:, range(13), range(13)] = 0
    right = generator.normal(size=(50, 13, 1)).astype(np.float32)
    (made,) = call([matrices, right], "a/libmatrix_solve_ce_op.so", outs=describe(tf.float32, 50, 13, 1))
    expected = np.linalg.solve(matrices.astype(np.float64), right.astype(np.float64))
    np.testing.assert_allclose(made, expected, rtol=2e-3, atol=2e-4)


def test_an_op_that_is_registered_by_name_comes_before_that_of_its_library():
    register_user_op("libseveral", lambda tensors, attributes, shapes: [tensors[0]])
    register_user_op("libseveral", lambda tensors, attributes, shapes: [-tensors[0]], op_name="Negate")
    outs = describe(tf.float32, 1)
    assert call([tf.constant([2.0])], "libseveral.so", outs=outs)[0].numpy() == [2]
    assert call([tf.constant([2.0])], "libseveral.so", op_name="Negate", outs=outs)[0].numpy() == [-2]
