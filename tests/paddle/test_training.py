"""Training equals Paddle's own executor: losses, weights, statistics and optimizer state."""

from __future__ import annotations

import numpy as np
import pytest

import paddle
from models import bert, convolutions, image_feeds, lstm, lstm_feeds, run_steps, smooth, word_feeds

OPTIMIZERS = {
    "sgd": lambda: paddle.optimizer.SGD(learning_rate=0.05),
    "momentum": lambda: paddle.optimizer.Momentum(learning_rate=0.01, momentum=0.8),
    "nesterov": lambda: paddle.optimizer.Momentum(learning_rate=0.01, momentum=0.8, use_nesterov=True),
    "l2": lambda: paddle.optimizer.Momentum(learning_rate=0.01, weight_decay=paddle.regularizer.L2Decay(0.1)),
    "adam": lambda: paddle.optimizer.Adam(learning_rate=1e-3),
    "adam_l2": lambda: paddle.optimizer.Adam(learning_rate=1e-3, weight_decay=0.05),
    "adamw": lambda: paddle.optimizer.AdamW(learning_rate=1e-3, weight_decay=0.1),
    "lamb": lambda: paddle.optimizer.Lamb(learning_rate=1e-3, lamb_weight_decay=0.05),
    "rmsprop": lambda: paddle.optimizer.RMSProp(learning_rate=1e-3, rho=0.9, momentum=0.5),
    "centered": lambda: paddle.optimizer.RMSProp(learning_rate=1e-3, momentum=0.3, centered=True),
    "adamax": lambda: paddle.optimizer.Adamax(learning_rate=1e-3),
    "adagrad": lambda: paddle.optimizer.Adagrad(learning_rate=1e-2),
    "adadelta": lambda: paddle.optimizer.Adadelta(learning_rate=0.5, rho=0.9),
    "clipped": lambda: paddle.optimizer.Momentum(learning_rate=0.01, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5)),
}


def compare(model, optimizer, make_feeds=image_feeds):
    feeds = make_feeds(30)
    wanted, kept = run_steps(model, feeds, optimizer=optimizer)
    found, held = run_steps(model, feeds, optimizer=optimizer, on_ipu=True)
    np.testing.assert_allclose(np.ravel(found), np.ravel(wanted), rtol=1e-5)
    assert set(held) == set(kept)
    for variable, value in kept.items():
        np.testing.assert_allclose(held[variable], value, rtol=1e-3, atol=2e-4, err_msg=variable)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_thirty_losses_and_all_that_is_kept_equal_those_of_paddle(name):
    compare(smooth, OPTIMIZERS[name])


def test_a_classifier_of_digits_trains_as_on_paddle():
    compare(convolutions, OPTIMIZERS["adam"])


@pytest.mark.parametrize("name", ["adam", "lamb"])
def test_a_small_bert_trains_as_on_paddle(name):
    compare(bert, OPTIMIZERS[name], word_feeds)


def test_a_small_lstm_trains_as_on_paddle():
    compare(lstm, OPTIMIZERS["adam"], lstm_feeds)
