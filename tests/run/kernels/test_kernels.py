"""Quicker kernels give the results of PyTorch's own."""

import pytest
import torch

from openipu.run.passes.quick_kernels import max_pool_2d

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
