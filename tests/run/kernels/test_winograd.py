"""Convolutions with 3 x 3 filters by Winograd's algorithm: what eager PyTorch computes, in blocks and in strips."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from openipu.capture import capture_program
from openipu.graph import EngineMode, RunOptions
from openipu.run import thresholds
from openipu.run.drafts.passes import apply_passes
from openipu.run.engine.kernel_choice import list_inference_kernels
from openipu.run.engine.micro import draft_micro
from openipu.run.engine.pass_list import BATCHED
from openipu.run.engine.setting import Setting
from openipu.run.kernels.catalog import WINOGRAD
from openipu.run.rewrites.images import packed_convolutions
from openipu.run.rewrites.images.winograd import (
    WinogradConvolution,
    convolve_images,
    find_winograd_filter_gradient,
    find_winograd_image_gradient,
    fits_winograd,
)
from openipu.session import compile_model

# Images, channels, results, height, width, pads: whole tiles and parts of them, one tile, several blocks of tiles.
SHAPES = [
    (1, 16, 16, 4, 4, 1),
    (1, 16, 48, 3, 5, 0),
    (2, 32, 16, 7, 9, 1),
    (3, 48, 80, 10, 6, 0),
    (2, 16, 32, 41, 39, 1),
    (1, 64, 64, 61, 33, 1),
]


@pytest.fixture
def code(use_kernels):
    return use_kernels(WINOGRAD)[WINOGRAD]


@pytest.fixture(params=[0, 1 << 20], ids=["in blocks", "in strips"])
def way(request, monkeypatch):
    """How a filter is brought into its form: all of it for blocks of tiles, or strip by strip for all tiles."""
    monkeypatch.setattr(thresholds, "WINOGRAD_FEW_WINDOWS", request.param)


@pytest.fixture(params=[1, 2, 3], ids=lambda count: f"{count} threads")
def threads(request):
    torch.set_num_threads(request.param)  # the tests' own fixture puts it right again


def make_operands(count, channels, results, height, width, pad):
    random = torch.Generator().manual_seed(channels + height)
    images = torch.randn(count, channels, height, width, generator=random)
    filters = torch.randn(results, channels, 3, 3, generator=random)
    gradient = torch.randn(count, results, height + 2 * pad - 2, width + 2 * pad - 2, generator=random)
    return images, filters, gradient


def differentiate(gradient, images, filters, pad):
    """Gradients of images and filter, by PyTorch."""
    window = ([1, 1], [pad, pad], [1, 1], False, [0, 0], 1, [True, True, False])
    return torch.ops.aten.convolution_backward(gradient, images, filters, None, *window)[:2]


def compare(found, exact, bound):
    """To some units in the last place of the largest sum of absolute products."""
    assert found.shape == exact.shape
    assert (found.double() - exact).abs().max() <= 2.0**-20 * bound.max()


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_convolution_is_computed(code, threads, way, shape):
    images, filters, _ = make_operands(*shape)
    bias, pad = torch.randn(len(filters)), shape[-1]
    exact = nn.functional.conv2d(images.double(), filters.double(), bias.double(), padding=pad)
    bound = nn.functional.conv2d(images.abs(), filters.abs(), bias.abs(), padding=pad)
    found = convolve_images(images, filters, bias, pad, code)
    assert found.is_contiguous(memory_format=torch.channels_last)
    compare(found, exact, bound)
    compare(convolve_images(images, filters, None, pad, code), exact - bias.double().view(-1, 1, 1), bound)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_are_computed(code, threads, way, shape):
    images, filters, gradient = make_operands(*shape)
    pad = shape[-1]
    exact = differentiate(gradient.double(), images.double(), filters.double(), pad)
    bound = differentiate(gradient.abs(), images.abs(), filters.abs(), pad)
    compare(find_winograd_image_gradient(gradient, filters, pad, code), exact[0], bound[0])
    compare(find_winograd_filter_gradient(gradient, images, pad, code), exact[1], bound[1])


@pytest.mark.slow
def test_the_gradient_of_a_filter_is_summed_over_several_blocks_of_tiles(code, monkeypatch):
    monkeypatch.setattr(thresholds, "WINOGRAD_GRADIENT_BYTES", 0)
    monkeypatch.setattr(thresholds, "WINOGRAD_GRADIENT_BLOCK", 7)
    images, filters, gradient = make_operands(2, 16, 32, 30, 20, 1)
    exact = differentiate(gradient.double(), images.double(), filters.double(), 1)[1]
    bound = differentiate(gradient.abs(), images.abs(), filters.abs(), 1)[1]
    compare(find_winograd_filter_gradient(gradient, images, 1, code), exact, bound)


@pytest.mark.slow
def test_memory_that_was_used_before_leaves_no_trace(code, way):
    """Scratch is shared by all convolutions of a thread, large ones and small ones."""
    large, small = make_operands(2, 64, 64, 30, 30, 1), make_operands(1, 16, 16, 9, 9, 1)
    first = convolve_images(small[0], small[1], None, 1, code)
    convolve_images(large[0] * torch.nan, large[1], None, 1, code)
    find_winograd_filter_gradient(large[2] * torch.nan, large[0], 1, code)
    assert torch.equal(convolve_images(small[0], small[1], None, 1, code), first)


@pytest.mark.parametrize(
    ("images", "filters", "strides", "pads", "dilations", "groups", "fits"),
    [
        ((4, 64, 56, 56), (64, 64, 3, 3), [1, 1], [1, 1], [1, 1], 1, True),
        ((4, 64, 56, 56), (64, 64, 3, 3), [1, 1], [0, 0], [1, 1], 1, True),
        ((4, 64, 56, 56), (64, 64, 1, 1), [1, 1], [0, 0], [1, 1], 1, False),
        ((4, 64, 56, 56), (64, 64, 3, 3), [2, 2], [1, 1], [1, 1], 1, False),
        ((4, 64, 56, 56), (64, 64, 3, 3), [1, 1], [2, 2], [2, 2], 1, False),
        ((4, 64, 56, 56), (64, 64, 3, 3), [1, 1], [1, 0], [1, 1], 1, False),
        ((4, 64, 56, 56), (64, 1, 3, 3), [1, 1], [1, 1], [1, 1], 64, False),
        ((4, 60, 56, 56), (64, 60, 3, 3), [1, 1], [1, 1], [1, 1], 1, False),  # channels fill no vectors
        ((4, 64, 56, 56), (60, 64, 3, 3), [1, 1], [1, 1], [1, 1], 1, False),
        ((4, 512, 56, 56), (512, 512, 3, 3), [1, 1], [1, 1], [1, 1], 1, False),  # 36 MiB of filter
        ((1, 64, 14, 14), (64, 64, 3, 3), [1, 1], [1, 1], [1, 1], 1, False),  # 16 tiles
        ((64, 64, 5, 5), (64, 64, 3, 3), [1, 1], [1, 1], [1, 1], 1, False),  # 25 pixels of four tiles' 64
    ],
)
def test_native_code_is_for_convolutions_that_it_pays_for(images, filters, strides, pads, dilations, groups, fits):
    assert fits_winograd(images, filters, strides, pads, dilations, groups) is fits


@pytest.mark.parametrize(
    ("images", "results", "fits"),
    [
        ((4, 512, 7, 7), 512, True),  # 16 tiles, and a filter that has 36 MiB in its form
        ((1, 64, 14, 14), 64, True),
        ((1, 64, 8, 8), 64, False),  # 4 tiles
        ((4, 512, 7, 7), 1024, False),
        ((16, 512, 14, 14), 512, False),  # too many tiles to go strip by strip
        ((4, 64, 56, 56), 64, True),
    ],
)
def test_strips_pay_for_fewer_tiles_and_larger_filters(images, results, fits):
    window = ([1, 1], [1, 1], [1, 1], 1)
    assert fits_winograd(images, (results, images[1], 3, 3), *window, in_strips=True) is fits


class Block(nn.Module):
    """Every form of a tiled convolution in inference: with norm and relu, with an addition, with neither."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.second, self.third = nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 16, 3)
        self.smooth = nn.Conv2d(16, 16, 3, padding=1)
        nn.init.uniform_(self.norm.running_mean, -1, 1)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = torch.relu(self.norm(self.first(x)))
        third = self.third(torch.relu(self.second(first) + first))
        return third, nn.functional.silu(self.smooth(third)).flatten(1)


@pytest.fixture
def block():
    torch.manual_seed(0)
    return Block().eval(), torch.randn(2, 32, 30, 30)


def compile_block(model, x, code):
    """A program of inference, in which native code is there or not."""
    with pytest.MonkeyPatch.context() as patch:
        original = packed_convolutions.pack_convolutions
        patch.setattr(
            "openipu.run.engine.pass_list.pack_convolutions", lambda draft, memory: original(draft, memory, code)
        )
        compiled = compile_model(model, [x], options=RunOptions(engine=EngineMode.OPERATORS), show_progress=False)
        compiled.executable.load_weights(dict(model.named_parameters()), dict(model.named_buffers()))
        compiled.executable.run([x])
    return compiled


@pytest.mark.slow
def test_inference_gives_the_results_of_eager(code, block, monkeypatch):
    model, x = block
    made = []
    original = WinogradConvolution.__init__
    monkeypatch.setattr(
        WinogradConvolution, "__init__", lambda self, *given: (original(self, *given), made.append(self), None)[-1]
    )
    compiled = compile_block(model, x, code)
    assert len(made) == 3, "the one with another activation than relu is oneDNN's"
    for _ in range(2):
        for found, expected in zip(compiled.executable.run([x]).outputs, model(x), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_new_weights_are_followed(code, block):
    model, x = block
    compiled = compile_block(model, x, code)
    with torch.no_grad():
        for value in (*model.parameters(), model.norm.running_mean):
            value.add_(0.1)
    compiled.executable.load_weights(dict(model.named_parameters()), dict(model.named_buffers()))
    for found, expected in zip(compiled.executable.run([x]).outputs, model(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


class Mostly(nn.Module):
    """Few 3 x 3 filters, and many products."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.filters, self.layer = nn.Conv2d(16, 16, 3, padding=1), nn.Linear(30 * 30, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.filters(x).flatten(2))


@pytest.mark.parametrize(("width", "pays"), [(1000, True), (1200, False)])
def test_products_count_as_work_too(monkeypatch, width, pays):
    # The filters: 9 * 16 * 16 multiplications for each of 900 pixels; the layer: 16 * width for each. A seventh of the
    # latter is 2,304 with a width of 1,008.
    monkeypatch.setattr(thresholds, "WINOGRAD_COMPILATION_WORK", 0)
    monkeypatch.setattr(thresholds, "WINOGRAD_WORK", 0)
    seen = list_wanted(Mostly(width).eval(), torch.randn(2, 16, 30, 30))
    assert (WINOGRAD in seen) is pays


def list_wanted(model, x):
    """The kernels that a program asks for."""
    program = capture_program(model, (x,), {}, training=False, optimizer=None, name="model")
    draft = draft_micro(program, RunOptions())
    apply_passes(BATCHED, draft, Setting(program, RunOptions()))
    return list_inference_kernels(draft)


def test_a_program_asks_for_native_code_where_that_pays(block, monkeypatch):
    for least, wanted in ((1 << 24, True), (1 << 40, False)):
        monkeypatch.setattr(thresholds, "WINOGRAD_COMPILATION_WORK", least)
        assert list_wanted(*block).count(WINOGRAD) == wanted
