"""Training by modules, autodiff and Adam gives what PyTorch gives, however the batch and the state are spread."""

import numpy as np
import pytest
from addons_programs import Perceptron, Scheme, Transformer, make_batches, train, train_reference

BATCH, STEPS = 16, 5
TOLERANCE = {"rtol": 2e-4, "atol": 2e-5}


def check(net, scheme):
    batches = make_batches(net, BATCH, STEPS)
    trained = train(net, batches, scheme)
    expected = train_reference(net, trained.before, batches)
    np.testing.assert_allclose(trained.losses, expected.losses, **TOLERANCE)
    assert trained.after.keys() == expected.after.keys()
    for name, value in expected.after.items():
        np.testing.assert_allclose(trained.after[name], value, err_msg=name, **TOLERANCE)
        assert np.abs(value - expected.before[name]).max() > 1e-3, f"{name} was not trained"


@pytest.mark.parametrize("net", [Perceptron, Transformer])
def test_one_device(net):
    check(net, Scheme())


@pytest.mark.parametrize("net", [Perceptron, Transformer])
def test_accumulation_is_the_large_batch(net):
    check(net, Scheme(accumulation=4))


def test_recomputation_changes_nothing():
    check(Transformer, Scheme(accumulation=2, recompute=True))


def test_replicas_are_the_large_batch():
    check(Perceptron, Scheme(replicas=4))


def test_accumulation_on_replicas_is_the_large_batch():
    check(Perceptron, Scheme(accumulation=2, replicas=2))


def test_remote_state():
    check(Perceptron, Scheme(accumulation=2, state="remote"))


@pytest.mark.parametrize("net", [Perceptron, Transformer])
def test_sharded_state(net):
    check(net, Scheme(accumulation=2, replicas=2, state="sharded"))
