"""Training equals Paddle's own executor: losses, weights, statistics and optimizer state."""

from __future__ import annotations

import numpy as np
import pytest

from models import MODELS, OPTIMIZERS, image_feeds, measure_kept, run_steps, smooth

# Where no rounding error turns a ReLU or a maximum around; tests/conformance/run_paddle_training.py has more of them
START, ORDER = 8, 1


def compare(model, optimizer, feeds):
    wanted, kept = run_steps(model, feeds, optimizer=optimizer, seed=START)
    found, held = run_steps(model, feeds, optimizer=optimizer, seed=START, on_ipu=True)
    np.testing.assert_allclose(np.ravel(found), np.ravel(wanted), rtol=1e-5)
    assert len(set(np.ravel(wanted))) == len(feeds)
    far = {name: share for name, share in measure_kept(held, kept).items() if share > 1}
    assert not far


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("network", MODELS)
def test_thirty_losses_and_all_that_is_kept_equal_those_of_paddle(network, name):
    model, feeds = MODELS[network]
    compare(model, OPTIMIZERS[name], feeds(30, ORDER))


def test_a_network_of_strided_convolutions_and_mean_pools_trains_as_on_paddle():
    compare(smooth, OPTIMIZERS["nesterov"], image_feeds(30))
