"""Calls of all kernels with sizes 0 and 1, odd sizes and strided operands, compared with operators.

`python kernel_calls.py CACHE [FLAGS…]` compiles the kernels with these flags into a cache, calls them, and prints how
many calls there were: under a sanitizer, in a process of its own.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import torch

from openipu.run.kernels import KernelLibrary, KernelProvider
from openipu.run.kernels import catalog as names
from openipu.run.rewrites.fusion.gelu_kernel import compute_gelu, differentiate_gelu, differentiate_gelu_in_place
from openipu.run.rewrites.half.rounded_products import multiply_in_half
from openipu.run.rewrites.half.stochastic_rounding import (
    Rows,
    round_in_place,
    round_rows_into,
    round_stochastically,
    round_wide,
)
from openipu.run.rewrites.images.direct_convolutions import DirectConvolution, Geometry
from openipu.run.rewrites.images.norms import differentiate, normalize
from openipu.run.rewrites.images.winograd import (
    convolve_images,
    find_winograd_filter_gradient,
    find_winograd_image_gradient,
)
from openipu.run.rewrites.products.gemv import GemvProduct
from openipu.run.rewrites.products.weight_gradients import add_columns, multiply_columns
from openipu.run.rewrites.random.dropout import UNROUNDED, keep_elements, keep_in_place
from openipu.run.rewrites.recurrent.lstm_kernel import LstmLayer
from openipu.run.rewrites.recurrent.packed_recurrent import HeldLayer
from openipu.store import open_store

aten = torch.ops.aten
SEED = torch.tensor([7, 8], dtype=torch.int32)
ONE_SEED = SEED[0].clone()
GEOMETRIES = (
    Geometry(3, 9, 11, 7, (3, 3), (1, 1), False, False),
    Geometry(1, 6, 6, 5, (5, 5), (0, 0), True, True),
)
Checks = Iterator[tuple[Any, Any]]


class Memory:
    """What a kernel with weights of its own asks of the device memory."""

    def __init__(self, **parameters: torch.Tensor) -> None:
        self.parameters = parameters

    def follow(self, owner: object, tensors: object) -> None:
        """Nothing is loaded anew here."""


def call_elementwise(library: KernelLibrary) -> Checks:
    gelu, drop = library[names.GELU][names.COMPUTE_GELU], library[names.DROPOUT][names.DROP]
    rounding = library[names.STOCHASTIC_ROUNDING][names.ROUND]
    for shape in ((0,), (1,), (3, 5), (17, 33), (2, 4099), (0, 7)):
        for values in (
            torch.randn(shape),
            torch.randn(*shape[:-1], shape[-1] * 2)[..., ::2],
            torch.randn(shape).transpose(0, -1),
        ):
            gradient = torch.randn(values.shape)
            yield compute_gelu(values, gelu), aten.gelu(values, approximate="tanh")
            exact = aten.gelu_backward(gradient, values, approximate="tanh")
            yield differentiate_gelu(gradient, values, gelu), exact
            yield differentiate_gelu_in_place(gradient, values, gelu), exact
            size = list(values.shape)
            plain = round_stochastically(values, ONE_SEED, 3, size, "infinity")
            yield round_stochastically(values, ONE_SEED, 3, size, "infinity", rounding), plain
            yield round_wide(values, ONE_SEED, 3, size, "infinity", rounding), plain.float()
            yield round_in_place(values.clone(), ONE_SEED, 3, size, "infinity", rounding), plain.float()
            for sample in (UNROUNDED, 5):
                kept = (values, ONE_SEED, 3, size, 1 << 30, 1.25, sample)
                yield keep_elements(*kept, drop), keep_in_place(values.clone(), *kept[1:], drop)
    values, places = torch.randn(3, 9), torch.tensor([4, 0, 4])
    found, expected = torch.empty(3, 9).half(), torch.empty(3, 9).half()
    round_rows_into(found, values, ONE_SEED, 1, Rows(0, 3, 9, places), "nan", rounding)
    round_rows_into(expected, values, ONE_SEED, 1, Rows(0, 3, 9, places), "nan")
    yield found, expected
    both = torch.randn(2, 5, 7)
    yield (
        round_stochastically(both, SEED, 2, [5, 7], "saturate", rounding),
        round_stochastically(both, SEED, 2, [5, 7], "saturate"),
    )


def call_products(library: KernelLibrary) -> Checks:
    run = library[names.WEIGHT_GRADIENTS][names.MULTIPLY_TRANSPOSED]
    half = library[names.HALF_PRODUCTS][names.MULTIPLY_IN_HALF]
    for depth, height, width in ((0, 3, 4), (1, 1, 1), (5, 13, 33), (33, 65, 7), (600, 20, 40), (3, 0, 4)):
        left, right = torch.randn(depth, height), torch.randn(depth, width)
        wide = torch.randn(depth, width + 5)[:, :width]
        for some, other in ((left, right), (left, wide), (left.t().contiguous().t(), right)):
            yield multiply_columns(some, other, run), some.t() @ other
            for dtype in (torch.float32, torch.float16, torch.float64):
                total = torch.ones(height, width).to(dtype)
                expected = total + 0.5 * (some.t() @ other).to(dtype)
                yield add_columns(total, some, other, 0.5, run), expected
    sizes = ((1, 1, 1), (5, 33, 7), (13, 64, 33), (2, 3, 0), (7, 70, 40))
    for (rows, inputs, columns), transposed, seed in itertools.product(sizes, (False, True), (None, ONE_SEED)):
        left, right = torch.randint(-3, 4, (rows, inputs)).float(), torch.randint(-3, 4, (inputs, columns)).float() / 8
        left = left.t().contiguous().t() if transposed else left
        bias, chunk = torch.ones(columns), max(16, -(-inputs // 4))
        for some, other in ((left, right), (left.half(), right.half())):
            result = multiply_in_half(some, other, bias, chunk, seed, (0, 5, 6), "infinity", torch.float32, half)
            yield result, some.float() @ other.float() + 1  # exact in half, and so never rounded
    weight = torch.randn(37, 19)
    for transposed, bias in itertools.product((False, True), (None, torch.randn(37))):
        memory: Any = Memory(weight=weight.t().contiguous() if transposed else weight)
        product = GemvProduct(memory, "weight", transposed, library[names.GEMV][names.MULTIPLY_VECTOR])
        for row in (torch.randn(1, 19), torch.randn(1, 38)[:, ::2]):
            yield product.apply(row, bias), torch.nn.functional.linear(row, weight, bias)


def call_images(library: KernelLibrary) -> Checks:
    kernel = library[names.WINOGRAD]
    sizes = (
        (1, 16, 16, 4, 4, 1),
        (2, 32, 16, 7, 9, 1),
        (1, 16, 48, 3, 5, 0),
        (3, 16, 16, 17, 18, 1),
        (0, 16, 16, 8, 8, 1),
    )
    for count, channels, results, height, width, pad in (*sizes, (1, 5, 6, 8, 8, 1), (0, 16, 16, 8, 8, 1)):
        images, filters = torch.randn(count, channels, height, width), torch.randn(results, channels, 3, 3)
        expected = torch.conv2d(images, filters, None, 1, pad)
        gradient = torch.randn(expected.shape)
        window = [1, 1], [pad, pad], [1, 1], False, [0, 0], 1, [True, True, False]
        of_images, of_filters, _ = aten.convolution_backward(gradient, images, filters, None, *window)
        yield convolve_images(images, filters, None, pad, kernel), expected
        yield convolve_images(images[:, :, :, :], filters.mT.contiguous().mT, None, pad, kernel), expected
        yield find_winograd_image_gradient(gradient, filters, pad, kernel), of_images
        yield find_winograd_filter_gradient(gradient, images, pad, kernel), of_filters
    norms = library[names.CHANNEL_NORMS]
    for shape, last in itertools.product(((2, 16, 1, 1), (1, 32, 3, 5), (2, 5, 4, 4)), (True, False)):
        images = torch.randn(shape)
        images = images.contiguous(memory_format=torch.channels_last) if last else images
        weight, bias, mean, variance = (torch.rand(shape[1] * 2)[::2] + 0.5 for _ in range(4))
        plain = aten._native_batch_norm_legit_functional(images, weight, bias, mean, variance, True, 0.1, 1e-5)
        given = images, weight, bias, mean, variance, 0.1, 1e-5, None, False
        found = normalize(*given, norms[names.NORMALIZE])
        yield from zip(found, plain, strict=True)
        gradient = torch.randn(shape)
        exact = aten.native_batch_norm_backward(
            gradient, images, weight, None, None, plain[1], plain[2], True, 1e-5, [True] * 3
        )
        given = gradient, None, images, weight, plain[1], plain[2], 1e-5, False, False
        yield from zip(differentiate(*given, norms[names.DIFFERENTIATE_NORM]), exact, strict=True)


def call_layers(library: KernelLibrary) -> Checks:
    for steps, samples, features, width, reverse in ((1, 1, 1, 1, False), (3, 5, 7, 19, True), (2, 17, 3, 16, False)):
        memory: Any = Memory(inputs=torch.randn(4 * width, features), state=torch.randn(4 * width, width))
        layer = LstmLayer(
            memory, HeldLayer(("inputs", "state"), reverse, (steps, samples, features), width), library[names.LSTM]
        )
        first, cell, bias = torch.randn(samples, width), torch.randn(samples, width), torch.randn(4 * width)
        for source in (torch.randn(steps, samples, features), torch.randn(samples, steps, features).transpose(0, 1)):
            found = layer.apply(source, first, cell, bias)
            yield from zip(found[:1], layer._run_plainly(source, first, cell, bias)[:1], strict=True)


def call_direct_convolutions(library: KernelLibrary) -> Checks:
    for geometry in GEOMETRIES:
        record = library[geometry.kernel_record]
        convolution: Any = object.__new__(DirectConvolution)
        weight = torch.randn(geometry.results, geometry.channels, *geometry.kernel)
        block = geometry.blocks[0]
        filled = -(-geometry.results // block) * block
        packed = torch.zeros(filled, weight[0].numel())
        packed[: len(weight)] = weight.flatten(1)
        order = packed.view(-1, block, packed.shape[1]).transpose(1, 2).contiguous()
        convolution._geometry, convolution._run = geometry, record[names.CONVOLVE_DIRECTLY]
        convolution._packed = order, torch.zeros(filled)
        for count in (1, 3):
            convolution._shape = (count, *geometry.shape)
            images = torch.randn(count, geometry.channels, geometry.height, geometry.width)
            expected = torch.conv2d(images, weight, None, 1, geometry.pads)
            expected = torch.max_pool2d(expected, 2) if geometry.pool else expected
            yield convolution.apply(images), torch.relu(expected) if geometry.relu else expected


def check_kernels(library: KernelLibrary) -> int:
    """Compare all calls with operators; how many there were."""
    torch.manual_seed(0)
    number = 0
    calls = (call_elementwise, call_products, call_images, call_layers, call_direct_convolutions)
    for found, expected in itertools.chain.from_iterable(call(library) for call in calls):
        torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3, check_stride=False)
        number += 1
    return number


def list_all() -> tuple[Any, ...]:
    """All kernels, and two geometries of direct convolutions."""
    general = [kernel for kernel in names.KERNELS if kernel is not names.DIRECT_CONVOLUTION]
    return (*general, *(geometry.kernel_record for geometry in GEOMETRIES))


def main() -> None:
    directory, *flags = sys.argv[1:]
    provider = KernelProvider(open_store(directory), flags)
    library = provider.obtain(list_all())
    missing = {kernel.name: provider.explain_failure(kernel) for kernel in list_all() if kernel not in library}
    assert not missing, missing
    for threads in (1, 3):
        torch.set_num_threads(threads)
        print(check_kernels(library), "calls")


if __name__ == "__main__":
    main()
