"""Layers with the weights of PyTorch's give what PyTorch's give."""

import numpy as np
import pytest
import torch

import popxl
import popxl_addons as addons
from popxl_addons.layers import Conv2D, Embedding, GroupNorm, LayerNorm, Linear
from popxl_addons.layers.initial_values import truncated_normal
from popxl_addons.testing_utils import TensorInput, run_module
from popxl_addons.utils import WeightsDict

RNG = np.random.default_rng(0)


def fill(layer):
    torch.manual_seed(1)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer


@pytest.mark.parametrize(
    ("layer", "reference", "shape"),
    [
        (lambda: Linear(5), torch.nn.Linear(7, 5), (3, 7)),
        (lambda: Linear(5, bias=False), torch.nn.Linear(7, 5, bias=False), (2, 3, 7)),
        (lambda: LayerNorm(), torch.nn.LayerNorm(8), (3, 8)),
        (lambda: GroupNorm(2), torch.nn.GroupNorm(2, 8), (3, 8, 5)),
        (lambda: Conv2D(6, 3, paddings=(1, 1, 1, 1)), torch.nn.Conv2d(4, 6, 3, padding=1), (2, 4, 7, 7)),
        (
            lambda: Conv2D(6, (3, 1), strides=(2, 2), groups=2, bias=False),
            torch.nn.Conv2d(4, 6, (3, 1), stride=2, groups=2, bias=False),
            (2, 4, 7, 7),
        ),
    ],
)
def test_layers_are_those_of_pytorch(layer, reference, shape):
    x = RNG.normal(size=shape).astype(np.float32)
    module = layer()
    fill(reference)
    (y,) = run_module(module, TensorInput(x), weights=lambda v: type(module).torch_mapping(v, reference))
    np.testing.assert_allclose(y, reference(torch.tensor(x)).detach(), rtol=1e-4, atol=1e-4)


def test_rows_of_an_embedding():
    table = RNG.normal(size=(32, 4)).astype(np.float32)
    tokens = np.array([[3, 0], [29, 3]], np.int32)
    layer = Embedding(popxl.float32, 30, 4)
    (y,) = run_module(layer, TensorInput(tokens), weights=lambda v: {v.weight: table})
    np.testing.assert_array_equal(y, table[tokens])


def test_normalisation_takes_matrices():
    ir = popxl.Ir()
    with ir.main_graph, pytest.raises(ValueError, match="N x C"):
        LayerNorm().create_graph(popxl.TensorSpec((2, 3, 4), popxl.float32))


def test_weights_that_do_not_fit_their_variable():
    ir = popxl.Ir()
    with ir.main_graph:
        variable = popxl.variable(np.zeros((2, 3), np.float32))
    weights = WeightsDict({variable: np.ones((2, 3), np.float32)})
    assert len(weights) == 1
    with pytest.raises(ValueError, match="shape"):
        weights[variable] = np.ones((3, 2), np.float32)
    with pytest.raises(ValueError, match="float16"):
        weights[variable] = np.ones((2, 3), np.float16)


def test_initial_values_stay_within_two_deviations():
    np.random.seed(0)
    values = truncated_normal((100, 100), 0.5)
    assert np.abs(values).max() <= 1.0
    assert 0.42 < values.std() < 0.46  # a normal cut at two deviations has 0.88 of its width


def test_labels_of_another_shape_than_the_rows():
    """One label for each row is enough, as BERT's heads have them."""
    scores = RNG.normal(size=(3, 5)).astype(np.float32)
    labels = np.array([[1], [4], [0]], np.int32)
    ir = popxl.Ir()
    with ir.main_graph:
        loss, gradient = addons.cross_entropy_with_grad(popxl.variable(scores), popxl.variable(labels))
        streams = [addons.host_store(t) for t in (loss, gradient)]
    with popxl.Session(ir, "ipu_hw") as session:
        found = session.run()
    t = torch.tensor(scores, requires_grad=True)
    expected = torch.nn.functional.cross_entropy(t, torch.tensor(labels).long().flatten())
    expected.backward()
    np.testing.assert_allclose(found[streams[0]], expected.item(), rtol=1e-5)
    np.testing.assert_allclose(found[streams[1]], t.grad, rtol=1e-4, atol=1e-6)
