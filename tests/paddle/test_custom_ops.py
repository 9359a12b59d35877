"""Ops of a user's own: by the name of an op of PopART's, by registration in Python, or refused with what to write."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import openipu
import paddle
from models import make_strategy, run_steps
from openipu.errors import OptionError, TranslationError
from openipu_paddle.custom_ops import extend_load
from paddle import static

FEEDS = [{"x": np.linspace(-2, 2, 12, dtype="float32").reshape(4, 3) * scale} for scale in (1.0, 0.5, -1.0)]


def model():
    """`leaky_relu` stands for an op that a library brings: a strategy says what it is called elsewhere."""
    x = static.data("x", [4, 3], "float32")
    hidden = paddle.nn.functional.leaky_relu(paddle.nn.Linear(3, 3)(x), 0.25)
    return paddle.mean(paddle.nn.Linear(3, 1)(hidden) ** 2)


def sgd():
    return paddle.optimizer.SGD(learning_rate=0.1)


def run(name, domain, version=1):
    strategy = make_strategy()
    strategy.add_custom_op(paddle_op="leaky_relu", popart_op=name, domain=domain, version=version)
    assert strategy.custom_op_names == ["leaky_relu"]
    return run_steps(model, FEEDS, optimizer=sgd, strategy=strategy, on_ipu=True)


def test_a_registered_op_computes_and_trains_as_its_functions_say():
    openipu.register_custom_op(
        "PaddleLeaky",
        "custom.ops",
        1,
        forward=lambda inputs, attributes: [torch.where(inputs[0] > 0, inputs[0], attributes["alpha"] * inputs[0])],
        backward=lambda inputs, gradients, attributes: [
            torch.where(inputs[0] > 0, gradients[0], attributes["alpha"] * gradients[0])
        ],
    )
    wanted, kept = run_steps(model, FEEDS, optimizer=sgd)
    found, held = run("PaddleLeaky", "custom.ops")
    np.testing.assert_allclose(np.ravel(found), np.ravel(wanted), rtol=1e-5)
    for name, value in kept.items():
        np.testing.assert_allclose(held[name], value, rtol=1e-4, atol=1e-6)


def test_an_op_of_poparts_is_known_by_its_name():
    def linear():
        x = static.data("x", [4, 3], "float32")
        return paddle.mean(paddle.nn.Linear(3, 1)(paddle.nn.Linear(3, 3)(x)) ** 2)

    wanted, _ = run_steps(linear, FEEDS, optimizer=sgd)
    found, _ = run("Identity", "ai.onnx", 11)
    np.testing.assert_allclose(np.ravel(found), np.ravel(wanted), rtol=1e-5)
    _, held = run("Detach", "ai.graphcore")
    _, start = run_steps(model, FEEDS[:1])
    np.testing.assert_array_equal(held["linear_0.w_0"], start["linear_0.w_0"])  # no gradient comes through
    assert not np.array_equal(held["linear_1.w_0"], start["linear_1.w_0"])


def test_an_op_that_nobody_registered_is_refused_with_the_call_to_write():
    with pytest.raises(TranslationError, match=r'register_custom_op\("Unheard", "custom.ops", 1, forward'):
        run("Unheard", "custom.ops")


def test_sources_for_popart_are_left_out_with_a_warning(tmp_path):
    (tmp_path / "cpu.cc").write_text('#include "paddle/extension.h"\n')
    (tmp_path / "ipu.cc").write_text("#include <vector>\n#include <popart/op.hpp>\n")
    load = extend_load(lambda name, sources, **more: (name, sources, more["extra_ldflags"]))
    both = [str(tmp_path / name) for name in ("cpu.cc", "ipu.cc")]
    with pytest.warns(UserWarning, match="ipu.cc is for PopART"):
        assert load("ops", both, extra_ldflags=["-lpopart", "-lpopfloat", "-lm"]) == ("ops", both[:1], ["-lm"])
    with pytest.raises(OptionError, match="register_custom_op"):
        load("ops", both[1:])


def test_a_predictor_is_told_of_custom_ops_too():
    config = paddle.inference.Config()
    config.enable_ipu()
    config.set_ipu_custom_info([["leaky_relu", "Identity", "ai.onnx", "11"]], {"pattern": True})
    assert config._ipu.custom_ops["leaky_relu"].version == 11
    with pytest.raises(OptionError, match="domain"):
        config.set_ipu_custom_info([["leaky_relu", "Identity"]])
