"""What users get wrong, end to end: the original's error class and words, then what to do; nothing hangs."""

from __future__ import annotations

import os
import subprocess
import sys

import keras
import numpy as np
import pytest

import tensorflow as tf
from openipu_tensorflow.ipu import config, ipu_compiler, ipu_infeed_queue, ipu_outfeed_queue, loops, scopes
from openipu_tensorflow.ipu.ipu_strategy import IPUStrategy

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def _configured():
    made = config.IPUConfig()
    made.auto_select_ipus = 1
    made.configure_ipu_system()
    yield
    config.reset_ipu_configuration()


def make_model():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse", steps_per_execution=2)
    return model


def make_data(count):
    return tf.data.Dataset.from_tensors((np.ones(4, "f"), np.ones(2, "f"))).repeat(count)


def test_a_data_set_that_ends_before_its_steps_says_so():
    """Its size is not known, so that only running shows it."""
    data = make_data(20).filter(lambda x, y: True).batch(2, drop_remainder=True)
    with IPUStrategy().scope():
        model = make_model()
        with pytest.warns(UserWarning, match="Your input ran out of data; interrupting training"):
            history = model.fit(data, steps_per_epoch=100, verbose=0)
    assert len(history.history["loss"]) == 1


def test_data_with_an_open_shape_are_refused_with_the_way_out():
    with IPUStrategy().scope(), pytest.raises(ValueError, match=r"drop_remainder=True"):
        make_model().fit(make_data(7).batch(2), verbose=0)
    with pytest.raises(ValueError, match=r"drop_remainder=True"):
        ipu_infeed_queue.IPUInfeedQueue(make_data(7).batch(2))


def test_an_infeed_that_ends_early_leaves_the_session_usable():
    with tf.Graph().as_default():
        infeed = ipu_infeed_queue.IPUInfeedQueue(make_data(6).batch(2, drop_remainder=True))
        outfeed = ipu_outfeed_queue.IPUOutfeedQueue()

        def step(x, y):
            return outfeed.enqueue(tf.reduce_sum(x) + tf.reduce_sum(y))

        with scopes.ipu_scope("/device:IPU:0"):
            run = ipu_compiler.compile(lambda: loops.repeat(2, step, [], infeed))
        sums = outfeed.dequeue()
        begin = infeed.initializer
        with v1.Session() as session:
            session.run(begin)
            session.run(run)
            assert session.run(sums).tolist() == [12, 12]
            with pytest.raises(tf.errors.OutOfRangeError, match=r"End of sequence.*\.repeat\(\)"):
                session.run(run)
            session.run(begin)
            session.run(run)
            assert session.run(sums).tolist() == [12, 12]


def test_an_outfeed_is_not_read_before_anything_was_enqueued():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="not been enqueued"):
        ipu_outfeed_queue.IPUOutfeedQueue().dequeue()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--use_sythetic_data", "unknown flag '--use_sythetic_data'. Did you mean --use_synthetic_data"),
        ("--ipu_model_tiles=many", "no whole number"),
        ("--synthetic_data_initializer=random", "needs --use_synthetic_data"),
        ("--synthetic_data_categories=infeed,weights", "unknown synthetic data category 'weights'"),
    ],
)
def test_flags_that_are_wrong_stop_the_configuration(flags, words, monkeypatch):
    config.reset_ipu_configuration()
    monkeypatch.setenv("TF_POPLAR_FLAGS", flags)
    with pytest.raises(ValueError, match="TF_POPLAR_FLAGS") as caught:
        config.IPUConfig().configure_ipu_system()
    assert words in str(caught.value)


def test_a_script_with_a_wrong_flag_ends_with_one_line_that_names_it():
    script = "from tensorflow.python import ipu; ipu.config.IPUConfig().configure_ipu_system()"
    environment = {**os.environ, "TF_POPLAR_FLAGS": "--no_such_flag"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, env=environment, check=False
    )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("ValueError: TF_POPLAR_FLAGS: unknown flag '--no_such_flag'")


@pytest.mark.parametrize(("name", "wrong"), [("auto_select_ipus", "1"), ("allow_recompute", 1), ("select_ipus", 1.5)])
def test_options_of_the_wrong_type_are_refused_where_they_are_set(name, wrong):
    with pytest.raises(TypeError, match=f"Trying to set {name} to {wrong!r}, but it must be of type"):
        setattr(config.IPUConfig(), name, wrong)


@pytest.mark.parametrize(
    ("name", "function", "values", "problem"),
    [
        ("inv", lambda x: tf.cast(x, tf.int32), [np.nan], "makes a whole number of a NaN"),
        ("div0", lambda x: 1 / x, [0.0], "divides by zero"),
        ("oflo", lambda x: x * x, [10000.0], "overflows"),
    ],
)
def test_arithmetic_that_is_to_stop_the_program_stops_it_with_the_original_s_class(name, function, values, problem):
    config.reset_ipu_configuration()
    made = config.IPUConfig()
    setattr(made.floating_point_behaviour, name, True)
    made.configure_ipu_system()
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float16, [1])
        with scopes.ipu_scope("/device:IPU:0"):
            (found,) = ipu_compiler.compile(function, [x])
        with pytest.raises(tf.errors.InternalError, match=f"Tiles in excepted state.*{problem}"):
            session.run(found, {x: values})
