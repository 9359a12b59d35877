"""Embeddings in the memory of the host: rows that a program asks for, and what its gradients leave in them."""

from __future__ import annotations

import numpy as np
import pytest
from tensorflow.python import ipu

import tensorflow as tf
from openipu.errors import InputError

v1 = tf.compat.v1


@pytest.mark.parametrize(("factor", "rounds"), [(1, 2), (2, 2)])
def test_rows_are_read_and_trained_on_the_host(factor, rounds):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with tf.Graph().as_default(), v1.Session() as session:
        spec = ipu.embedding_ops.HostEmbeddingSGDGAOptimizerSpec(0.5, factor)
        table = ipu.embedding_ops.create_host_embedding(
            "table", [4, 2], tf.float32, optimizer_spec=spec, initializer=v1.ones_initializer()
        )

        def body(total):
            rows = table.lookup(tf.constant([1, 3, 1]))
            train = v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.square(rows)) / 2)
            return total + tf.reduce_sum(rows), train

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            made = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(rounds, body, [tf.constant(0.0)]))
        session.run(v1.global_variables_initializer())
        with table.register(session):
            total = session.run(made)[0]
        left = session.run(table.get_embedding_tensor())
        with pytest.raises(InputError, match="nobody holds it"):
            session.run(made)
    expected, seen = np.ones((4, 2)), 0.0
    waiting = np.zeros((4, 2))
    for number in range(rounds):
        seen += expected[[1, 3, 1]].sum()
        np.add.at(waiting, [1, 3, 1], -0.5 * expected[[1, 3, 1]])
        if (number + 1) % factor == 0:
            expected, waiting = expected + waiting, np.zeros((4, 2))
    np.testing.assert_allclose(left, expected)
    assert total == pytest.approx(seen)
