"""Ops on matrices of blocks, against NumPy and TensorFlow on whole matrices."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tensorflow.python import ipu

import tensorflow as tf

ROWS, INNER, COLUMNS = 8, 12, 6
HIGH, DEEP, WIDE = 4, 3, 2


def call(op, tensors, shape, **options):
    outs = {"output_types": [tf.float32], "output_shapes": [tf.TensorShape(shape)]}
    attributes = json.dumps(options)
    (made,) = ipu.custom_ops.precompiled_user_op(
        tensors, "/x/libblock_sparse.so", op_name=op, outs=outs, attributes=attributes, gradient_attributes=attributes
    )
    return made


def draw_mask(generator, groups, down, across):
    """Some blocks of each group's matrix, none of its first row: 0 and 1."""
    mask = generator.integers(0, 2, (groups, down, across))
    mask[:, 0], mask[:, 1, 0] = 0, 1
    return mask


def to_text(mask):
    return "".join(map(str, mask.flatten()))


def cut(matrices, mask, size):
    """Blocks that are there, one row of numbers for each."""
    return np.stack(
        [
            matrices[group, row * size[0] : (row + 1) * size[0], column * size[1] : (column + 1) * size[1]].flatten()
            for group, row, column in np.argwhere(mask)
        ]
    )


def fill(mask, size):
    return np.kron(mask, np.ones((1, *size), "f")).astype("f")


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_matrix_times_blocks_and_its_gradients(groups, transposed):
    generator = np.random.default_rng(5)
    shape, size = ((COLUMNS, INNER), (WIDE, DEEP)) if transposed else ((INNER, COLUMNS), (DEEP, WIDE))
    mask = draw_mask(generator, groups, shape[0] // size[0], shape[1] // size[1])
    whole = generator.normal(size=(groups, *shape)).astype("f") * fill(mask, size)
    left = tf.constant(generator.normal(size=(groups, ROWS, INNER)[groups == 1 :]).astype("f"))
    stored, dense = tf.constant(cut(whole, mask, size)), tf.constant(whole)
    weights = tf.constant(generator.normal(size=(*left.shape[:-1], COLUMNS)).astype("f"))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([left, stored, dense])
        made = call(
            "BuildDSD",
            [left, stored],
            weights.shape,
            dim=[ROWS, INNER, COLUMNS],
            block_size=[HIGH, DEEP, WIDE],
            sparsity_mask=to_text(mask),
            transposed_rhs=transposed,
        )
        expected = tf.reshape(tf.matmul(left, dense, transpose_b=transposed), weights.shape)
        found, wanted = tf.reduce_sum(made * weights), tf.reduce_sum(expected * weights)
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(tape.gradient(found, left), tape.gradient(wanted, left), rtol=1e-5, atol=1e-5)
    by_block = cut(tape.gradient(wanted, dense).numpy(), mask, size)
    np.testing.assert_allclose(tape.gradient(found, stored), by_block, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2])
def test_blocks_of_a_product(groups):
    generator = np.random.default_rng(6)
    mask = draw_mask(generator, groups, ROWS // HIGH, COLUMNS // WIDE)
    left = generator.normal(size=(groups, ROWS, INNER)).astype("f")
    right = generator.normal(size=(groups, INNER, COLUMNS)).astype("f")
    made = call(
        "BuildDDS",
        [left, right],
        [int(mask.sum()), HIGH * WIDE],
        dim=[ROWS, INNER, COLUMNS],
        block_size=[HIGH, DEEP, WIDE],
        sparsity_mask=to_text(mask),
    )
    np.testing.assert_allclose(made, cut(left @ right, mask, (HIGH, WIDE)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_softmax_over_the_rows_of_blocks(kind):
    generator = np.random.default_rng(7)
    size, shape = (4, 2), (2, 8, 6)
    mask = draw_mask(generator, 2, 2, 3)
    logits = generator.normal(size=shape).astype("f") * 10
    stored = tf.constant(cut(logits, mask, size))
    there = fill(mask, size) * {0: np.copy, 1: np.tril, 2: np.triu}[kind](np.ones(shape, "f"))
    powers = np.exp(logits) * there
    expected = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-30)
    with tf.GradientTape() as tape:
        tape.watch(stored)
        made = call(
            "BuildSoftmax",
            [stored],
            stored.shape,
            dim_dense=list(shape),
            block_size=list(size),
            sparsity_mask=to_text(mask),
            subblock_mask_type=[kind],
        )
        first = made[:, 0]
    np.testing.assert_allclose(made, cut(expected, mask, size), rtol=1e-5, atol=1e-6)
    assert np.isfinite(tape.gradient(first, stored)).all()


def test_a_mask_of_another_matrix_is_refused():
    with pytest.raises(ValueError, match="needs one entry for each block"):
        call(
            "BuildDSD",
            [tf.zeros([8, 12]), tf.zeros([1, 6])],
            [8, 6],
            dim=[8, 12, 6],
            block_size=[4, 3, 2],
            sparsity_mask="10101",
        )


def test_a_softmax_with_a_kind_too_many_is_refused():
    with pytest.raises(ValueError, match="3 kinds, and there are 1 groups"):
        call(
            "BuildSoftmax",
            [tf.zeros([1, 8])],
            [1, 8],
            dim_dense=[4, 2],
            block_size=[4, 2],
            sparsity_mask="1",
            subblock_mask_type=[0, 1, 2],
        )
