"""Quicker kernels give the results of PyTorch's own."""

import pytest
import torch

from openipu.run.drafts.operators import (
    batch_norm,
    batch_norm_with_statistics,
    max_pool_2d,
    pool_values,
    safe_softmax,
)

aten = torch.ops.aten


def make_images(channels, size=9):
    generator = torch.Generator().manual_seed(channels)
    images = torch.randn(2, channels, size, size, generator=generator).round()  # rounded: many equal values
    images[0, 0, 1, 1] = float("nan")
    images[1, 0] = -float("inf")
    return images


@pytest.mark.parametrize("channels", [1, 7, 8, 20])
@pytest.mark.parametrize(
    "arguments",
    [([2, 2], [2, 2]), ([3, 3], [2, 2], [1, 1]), ([3, 2], [], [1, 0]), ([2, 2], [2, 2], [0, 0], [2, 2], True)],
    ids=["plain", "padded", "stride of the kernel", "dilated, ceil mode"],
)
def test_max_pooling_takes_the_same_values_from_the_same_places(channels, arguments):
    images = make_images(channels)
    values, indices = aten.max_pool2d_with_indices(images, *arguments)
    own_values, own_indices = max_pool_2d(images, *arguments)
    torch.testing.assert_close(own_values, values, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(own_indices, indices)
    assert own_values.stride() == values.stride()


@pytest.mark.parametrize("channels", [3, 20])
@pytest.mark.parametrize("rest", [([2, 2],), ([2, 2], [0, 0], [2, 2]), ([2, 2], [0], [1], True)], ids=str)
def test_values_alone_are_those_of_the_operator(channels, rest):
    images = make_images(channels)
    (values,) = pool_values(images, [2, 2], *rest)
    expected, _ = aten.max_pool2d_with_indices(images, [2, 2], *rest)
    torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("channels", [7, 16])
def test_gradients_of_max_pooling_go_to_the_same_places(channels):
    images = make_images(channels, size=8)
    rest = ([2, 2], [2, 2], [0, 0], [1, 1], False)
    values, indices = aten.max_pool2d_with_indices(images, *rest)
    _, own_indices = max_pool_2d(images, *rest)
    gradient = torch.randn_like(values)
    backward = aten.max_pool2d_with_indices_backward
    assert torch.equal(backward(gradient, images, *rest, own_indices), backward(gradient, images, *rest, indices))


def test_an_image_without_a_batch_is_pooled_too():
    image = make_images(8)[0]
    assert torch.equal(max_pool_2d(image, [2, 2])[1], aten.max_pool2d_with_indices(image, [2, 2])[1])


def test_a_tensor_that_is_channels_last_stays_so():
    images = make_images(8).contiguous(memory_format=torch.channels_last)
    values, _ = max_pool_2d(images, [2, 2])
    assert values.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dim", [-1, 0, 1])
@pytest.mark.parametrize("dtype", [None, torch.float64])
def test_a_softmax_has_zeros_in_rows_of_minus_infinities_and_nowhere_else(dim: int, dtype: torch.dtype | None) -> None:
    """Against PyTorch's own, with rows that hold every mix of numbers that are none."""
    infinity, nothing = float("inf"), float("nan")
    torch.manual_seed(0)
    scores = torch.randn(6, 5, 4)
    scores[0, 0] = scores[1, :, 2] = scores[:, 3, 3] = -infinity
    scores[2, 1, 0], scores[3, 2, 1] = nothing, infinity
    scores[4, 1] = torch.tensor([-infinity, nothing, -infinity, -infinity])
    for values in (scores, torch.randn(6, 5, 4), torch.full((2, 3, 1), -infinity), torch.randn(3, 4, 0)):
        expected = aten._safe_softmax(values, dim, dtype)
        assert torch.equal(torch.nan_to_num(safe_softmax(values, dim, dtype), 7.0), torch.nan_to_num(expected, 7.0))
        assert safe_softmax(values, dim, dtype).dtype is expected.dtype


NORMALISED = [(4, 6, 12, 13), (1, 3, 16, 16), (2, 64, 28, 28)]


@pytest.mark.parametrize("shape", NORMALISED, ids=str)
@pytest.mark.parametrize("affine", [True, False], ids=["weights", "no weights"])
def test_a_batch_norm_is_as_near_to_the_exact_one_as_the_usual_kernel(shape, affine):
    """Against float64: at most four times the usual kernel's distance, and a few units in the last place."""
    torch.manual_seed(0)
    channels = shape[1]
    images = torch.randn(shape) * 3 + torch.randn(1, channels, 1, 1) * 5
    weight, bias = (torch.rand(channels), torch.rand(channels)) if affine else (None, None)
    mean, variance = torch.randn(channels), torch.rand(channels)
    exact = aten._native_batch_norm_legit_functional(
        *(None if value is None else value.double() for value in (images, weight, bias, mean, variance)),
        True,
        0.1,
        1e-5,
    )
    rest = (weight, bias, mean, variance, True, 0.1, 1e-5)
    usual = aten._native_batch_norm_legit_functional(images, *rest)
    before = images.clone(), mean.clone(), variance.clone()
    for found, expected, reference in zip(batch_norm_with_statistics(images, *rest), usual, exact, strict=True):
        assert found.dtype is torch.float32
        assert found.shape == expected.shape
        distance, allowed = (found - reference).abs().max(), (expected - reference).abs().max()
        assert distance <= 4 * allowed + 4 * torch.finfo(torch.float32).eps * reference.abs().max()
    for kept, value in zip(before, (images, mean, variance), strict=True):
        assert torch.equal(kept, value)
    without = batch_norm(images, weight, bias, None, None, True, 0.1, 1e-5)
    for found, expected in zip(without, usual, strict=False):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(4, 6, 5, 5),
        lambda: torch.randn(4, 6, 16, 16).contiguous(memory_format=torch.channels_last),
        lambda: torch.randn(4, 6, 200),
        lambda: torch.randn(4, 6, 16, 16).double(),
    ],
    ids=["small planes", "channels last", "sequences", "float64"],
)
def test_other_batch_norms_are_left_to_the_usual_kernel(make):
    images = make()
    values = [torch.rand(6, dtype=images.dtype) for _ in range(4)]
    for training in (True, False):
        expected = aten._native_batch_norm_legit_functional(images, *values, training, 0.1, 1e-5)
        found = batch_norm_with_statistics(images, *values, training, 0.1, 1e-5)
        assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def test_planes_of_one_number_have_no_deviation_and_what_is_not_finite_stays_so():
    images = torch.zeros(2, 3, 12, 12)  # of any other number, the rounding of a product would be left
    images[0, 1, 0, 0], images[1, 2, 3, 3] = float("inf"), float("nan")
    values = [torch.zeros(3), torch.ones(3)]
    expected = aten._native_batch_norm_legit_functional(images, None, None, *values, True, 0.1, 1e-5)
    found = batch_norm_with_statistics(images, None, None, *values, True, 0.1, 1e-5)
    for own, usual in zip(found, expected, strict=True):
        assert torch.equal(own.isfinite(), usual.isfinite())
        torch.testing.assert_close(own[own.isfinite()], usual[usual.isfinite()])
