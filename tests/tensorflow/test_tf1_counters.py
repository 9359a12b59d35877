"""What the device keeps over the rounds of a loop: the number of the round, and values of rounds before."""

from __future__ import annotations

import numpy
import pytest
from tensorflow.python import ipu

import tensorflow as tf

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield
    ipu.config.reset_ipu_configuration()


def run(make, ipus=1):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    queue = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensors(numpy.float32(2)).repeat())
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        done = ipu.ipu_compiler.compile(lambda: make(queue, out))
    dequeue = out.dequeue()
    with v1.Session() as session:
        session.run(queue.initializer)
        session.run(done)
        session.run(done)
        return session.run(dequeue)


def count():
    return ipu.internal_ops.get_current_iteration_counter()


def test_all_stages_of_a_pipeline_see_the_number_of_their_micro_batch():
    def make(queue, out):
        stages = [lambda x: (x, count()), lambda x, first: (x, first, count())]
        return ipu.pipelining_ops.pipeline(
            stages, 4, repeat_count=3, infeed_queue=queue, outfeed_queue=out, device_mapping=[0, 0]
        )

    _, first, second = run(make)
    numpy.testing.assert_array_equal(first, numpy.tile(numpy.arange(4), 6))  # 3 updates in each of 2 calls
    numpy.testing.assert_array_equal(second, first)


@pytest.mark.parametrize("ipus", [1, 2])
def test_rounds_of_a_loop_are_counted_on_every_replica(ipus):
    found = run(lambda queue, out: ipu.loops.repeat(5, lambda x: out.enqueue((x, count())), [], queue), ipus)[1]
    expected = numpy.tile(numpy.arange(5), 2)
    numpy.testing.assert_array_equal(found, expected if ipus == 1 else numpy.stack([expected] * ipus, axis=1))


def test_where_nothing_goes_round_there_is_nothing_to_count():
    with pytest.raises(NotImplementedError, match="get_current_iteration_counter"):
        run(lambda queue, out: out.enqueue(count()))


def test_a_fifo_gives_values_of_rounds_before_and_needs_no_initializer():
    def body(number, x):
        later = ipu.internal_ops.fifo(number, 2)
        return number + 1, out_of[0].enqueue((later, x))

    out_of = []

    def make(queue, out):
        out_of.append(out)
        return ipu.loops.repeat(5, body, [tf.constant(1.0)], queue)

    later, _ = run(make)
    numpy.testing.assert_array_equal(later, [0, 0, 1, 2, 3, 4, 5, 1, 2, 3])  # the second call goes on
