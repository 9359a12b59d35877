"""Wrong feeds, fetches, devices and ops: the exact class of error, a message that names the place, nothing lost."""

from __future__ import annotations

import numpy as np
import pytest

import paddle
from models import build, make_strategy
from openipu.errors import InputError, OptionError, TranslationError
from paddle import inference, static

X, Y = np.ones((2, 3), "float32"), np.zeros((2, 1), "int64")


def classify():
    x, y = static.data("x", [2, 3], "float32"), static.data("y", [2, 1], "int64")
    return paddle.mean(paddle.nn.functional.cross_entropy(paddle.nn.Linear(3, 2)(x), y))


@pytest.fixture(scope="module")
def compiled():
    """A run of a compiled program: feeds in, losses out."""
    scope = static.Scope()
    main, startup, loss = build(classify, lambda: paddle.optimizer.SGD(learning_rate=0.0))
    executor = static.Executor(paddle.CPUPlace())
    with static.scope_guard(scope):
        executor.run(startup)
        compiler = static.IpuCompiledProgram(main, scope=scope, ipu_strategy=make_strategy())
        program = compiler.compile(["x", "y"], [loss])
    return lambda feed, fetch=None: executor.run(program, feed=feed, fetch_list=[loss] if fetch is None else fetch)


@pytest.mark.parametrize(
    ("feed", "words"),
    [
        ({"x": X}, "'y'"),
        ({"x": X, "y": Y, "z": X}, "'z'"),
        ({"x": X[:, :2], "y": Y}, "x"),
        ({"x": X[:1], "y": Y}, "x"),
        ({"x": X[:0], "y": Y[:0]}, "x"),
        ({"x": X, "y": Y.astype("float32")}, "'y' is float32"),
        ({"x": X.astype(object), "y": Y}, "'x'"),
        ({"x": np.array([["a", "b", "c"]] * 2), "y": Y}, "'x'"),
        ({"x": [[1.0], [1.0, 2.0]], "y": Y}, "'x'"),
        ({"x": None, "y": Y}, "'x'"),
        ([{"x": X, "y": Y}] * 2, "one dictionary"),
        ({}, "'x'"),
    ],
)
def test_a_wrong_feed_is_named_and_the_program_goes_on(compiled, feed, words):
    (before,) = compiled({"x": X, "y": Y})
    with pytest.raises(InputError, match=words):
        compiled(feed)
    (after,) = compiled({"x": X, "y": Y})
    np.testing.assert_array_equal(before, after)


def test_what_was_not_compiled_cannot_be_fetched(compiled):
    with pytest.raises(InputError, match="is not fetched"):
        compiled({"x": X, "y": Y}, ["linear_0.tmp_0"])
    with pytest.raises(InputError, match="neither a variable"):
        compiled({"x": X, "y": Y}, [3])


def test_feeds_and_fetches_that_a_program_has_not_are_refused_when_it_is_compiled():
    main, _, loss = build(classify, lambda: paddle.optimizer.SGD(learning_rate=0.1))
    compiler = static.IpuCompiledProgram(main, scope=static.Scope(), ipu_strategy=make_strategy())
    with pytest.raises(TranslationError, match="'image'"):
        compiler.compile(["image", "y"], [loss])
    with pytest.raises(TranslationError, match="'nothing'"):
        compiler.compile(["x", "y"], ["nothing"])
    with pytest.raises(TypeError, match="expected Program"):
        static.IpuCompiledProgram("program")


@pytest.mark.parametrize("number", [64, 10**9, -1, "0", 1.5])
def test_a_place_on_an_ipu_that_is_not_there_is_refused(number):
    with pytest.raises(OptionError, match="the IPUs are 0 to 63"):
        paddle.IPUPlace(number)


@pytest.mark.parametrize("name", ["ipu:64", "ipu:99999999999999999999"])
def test_a_device_that_is_not_there_is_refused(name):
    with pytest.raises(OptionError, match="which is not there"):
        paddle.set_device(name)
    with pytest.raises(ValueError, match="device"):
        paddle.set_device("ipu:x")


def test_an_op_without_a_rule_is_refused_by_name():
    def unusual():
        x = static.data("x", [2, 3, 3], "float32")
        return paddle.mean(paddle.linalg.inv(x))

    main, startup, loss = build(unusual)
    scope = static.Scope()
    with static.scope_guard(scope):
        static.Executor(paddle.CPUPlace()).run(startup)
        compiler = static.IpuCompiledProgram(main, scope=scope, ipu_strategy=make_strategy(training=False))
        with pytest.raises(TranslationError, match=r"inverse.*is unknown"):
            compiler.compile(["x"], [loss])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ipu_device_num": 0}, "at least 1"),
        ({"ipu_micro_batch_size": -1}, "at least 1"),
        ({"ipu_device_num": 4, "ipu_enable_pipelining": True, "ipu_batches_per_step": 2}, "batches per step"),
        ({"ipu_device_num": "two"}, "ipu_device_num"),
    ],
)
def test_wrong_options_of_a_predictor_are_refused(options, words):
    def predict():
        config = inference.Config()
        config.enable_ipu(**options)
        inference.create_predictor(config)

    with pytest.raises(OptionError, match=words):
        predict()
