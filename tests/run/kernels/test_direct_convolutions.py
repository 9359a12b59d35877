"""Convolutions with few channels by native code: the results of eager PyTorch, and weights that can change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from openipu.capture import capture_program
from openipu.graph import EngineMode, Program, RunOptions
from openipu.run import Executable
from openipu.run.engine.micro import draft_micro
from openipu.run.kernels import KernelLibrary, address_of, build
from openipu.run.kernels.catalog import CONVOLVE_DIRECTLY, DirectConvolutionArguments
from openipu.run.rewrites.images import direct_convolutions
from openipu.run.rewrites.images.direct_convolutions import Geometry, list_geometries

pytestmark = pytest.mark.slow

MNIST = Geometry(1, 28, 28, 10, (5, 5), (0, 0), True, True)
GEOMETRIES = (
    MNIST,
    Geometry(3, 9, 11, 7, (3, 3), (1, 1), False, False),  # 9 rows and 11 columns: neither fills its last block
    Geometry(2, 7, 13, 5, (1, 3), (0, 1), True, False),  # a pool leaves a row and a column over
    Geometry(4, 6, 24, 9, (2, 5), (2, 0), False, True),
)


class Net(nn.Module):
    """Norm, pool and relu in both orders, and a convolution whose result two others read."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 10, 5, bias=False), nn.BatchNorm2d(10)
        self.second, self.third = nn.Conv2d(10, 20, 5), nn.Conv2d(20, 20, 3, padding=1)
        self.classify = nn.Linear(320, 10)
        nn.init.uniform_(self.norm.running_mean, -1, 1)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(nn.functional.max_pool2d(self.norm(self.first(x)), 2))
        x = self.second(x)
        x = x + torch.relu(self.third(x))
        return self.classify(nn.functional.max_pool2d(torch.relu(x), 2).flatten(1))


@pytest.fixture(autouse=True)
def library(use_kernels: Callable[..., KernelLibrary]) -> KernelLibrary:
    """Kernels for some geometries, in the cache of all programs of this module."""
    return use_kernels(*(geometry.kernel_record for geometry in GEOMETRIES))


def capture(model: nn.Module, x: torch.Tensor) -> Program:
    return capture_program(model, (x,), {}, training=False, optimizer=None, name=type(model).__name__)


def start(model: nn.Module, x: torch.Tensor, engine: EngineMode) -> Executable:
    executable = Executable(capture(model, x), RunOptions(engine=engine))
    executable.load_weights(dict(model.named_parameters()), dict(model.named_buffers()))
    return executable


def check(executable: Executable, model: nn.Module, x: torch.Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(executable.run([x]).outputs[0], model(x), rtol=1e-5, atol=1e-5)


def compute_eagerly(geometry: Geometry, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    found = nn.functional.conv2d(x, weight, bias, padding=geometry.pads)
    found = nn.functional.max_pool2d(found, 2) if geometry.pool else found
    return torch.relu(found) if geometry.relu else found


def pack(geometry: Geometry, weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Number by number: block, input channel and place in the window, channel of the block."""
    block = geometry.blocks[0]
    blocks = -(-geometry.results // block)
    weights, biases = torch.zeros(blocks, weight[0].numel(), block), torch.zeros(blocks * block)
    for result in range(geometry.results):
        weights[result // block, :, result % block] = weight[result].reshape(-1)
        biases[result] = bias[result]
    return weights, biases


@pytest.mark.parametrize("threads", [1, 2])
def test_the_kernel_computes_what_pytorch_does(library: KernelLibrary, threads: int) -> None:
    torch.manual_seed(0)
    for geometry in GEOMETRIES:
        x = torch.randn(3, geometry.channels, geometry.height, geometry.width)
        x[1, 0, 3, 4] = torch.nan
        weight = torch.randn(geometry.results, geometry.channels, *geometry.kernel)
        bias = torch.randn(geometry.results)
        wanted = compute_eagerly(geometry, x, weight, bias)
        found = torch.full_like(wanted, 1e9)
        weights, biases = pack(geometry, weight, bias)
        addresses = [address_of(tensor, tensor.numel()) for tensor in (x, weights, biases, found)]
        library[geometry.kernel_record][CONVOLVE_DIRECTLY](DirectConvolutionArguments(*addresses, len(x), threads))
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5, equal_nan=True)
        assert wanted.isnan().any()


def test_kernels_have_the_results_of_eager_pytorch_and_take_new_weights() -> None:
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(3, 1, 28, 28)
    executable = start(model, x, EngineMode.KERNELS)
    check(executable, model, x)
    assert executable.engine_mode is EngineMode.KERNELS
    with torch.no_grad():
        for value in [*model.parameters(), *model.buffers()]:
            if value.is_floating_point():
                value.mul_(1.5)
    executable.load_weights(dict(model.named_parameters()), dict(model.named_buffers()))
    check(executable, model, x)


def test_the_next_program_finds_the_code_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Net().eval(), torch.randn(3, 1, 28, 28)
    check(start(model, x, EngineMode.KERNELS), model, x)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(build.KernelBuild, "__init__", refuse)
    x = torch.randn(5, 1, 28, 28)  # of another number of images, too
    for engine in (EngineMode.KERNELS, EngineMode.AUTO):
        executable = start(model, x, engine)
        check(executable, model, x)
        assert executable.engine_mode is EngineMode.KERNELS


def test_code_is_written_where_more_of_each_vector_is_in_use() -> None:
    assert MNIST.computed == (24, 24)
    assert MNIST.is_worth_compiling  # 24 of 24 columns and 10 of 10 channels against 10 of 16
    assert not replace(MNIST, results=16).is_worth_compiling  # 16 of 16
    assert replace(MNIST, results=17).is_worth_compiling  # 17 of 18, against 17 of 32
    narrow = replace(MNIST, width=13)  # 8 columns of 9 are pooled
    assert narrow.computed == (24, 8)
    assert narrow.is_worth_compiling
    assert not replace(narrow, width=15, pool=False).is_worth_compiling  # 11 of 16 columns against 10 of 16
    assert replace(MNIST, channels=41).is_worth_compiling  # 41 x 28 x 28 x 4 B = 128,576 B, below 128 KiB
    assert not replace(MNIST, channels=42).is_worth_compiling
    assert not replace(MNIST, pads=(200, 200)).is_worth_compiling
    assert not replace(MNIST, height=5, kernel=(5, 5)).is_worth_compiling  # one row: a pool leaves nothing


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Conv2d(3, 16, 3), nn.Conv2d(16, 32, 3)),
        nn.Conv2d(3, 10, 3, stride=2),
        nn.Conv2d(3, 10, 3, dilation=2),
        nn.Conv2d(4, 10, 3, groups=2),
        nn.ConvTranspose2d(3, 10, 3),
        # 4 x 8 x 9 of the work pay, of 4 x 8 x 9 + 8 x 64 x 9: less than half
        nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 64, 3, padding=1)),
    ],
    ids=["full vectors", "strides", "dilations", "groups", "transposed", "little of the work"],
)
def test_other_convolutions_stay_with_onednn(model: nn.Module) -> None:
    channels = next(model.parameters()).shape[1] if not isinstance(model, nn.ConvTranspose2d) else 3
    x = torch.randn(2, channels * getattr(model, "groups", 1), 24, 24)
    assert list_geometries(draft_micro(capture(model.eval(), x), RunOptions())) == ()


def test_norm_pool_and_relu_are_part_of_the_call() -> None:
    found = list_geometries(draft_micro(capture(Net().eval(), torch.randn(3, 1, 28, 28)), RunOptions()))
    assert found == (
        MNIST,
        Geometry(10, 12, 12, 20, (5, 5), (0, 0), False, False),  # two read it
        Geometry(20, 8, 8, 20, (3, 3), (1, 1), False, True),
    )
    assert direct_convolutions.PIXELS == 8


@pytest.mark.parametrize("capability", ["DEFAULT", "AVX2", "AVX512"])
def test_every_number_of_channels_has_blocks_that_fit_into_registers(
    monkeypatch: pytest.MonkeyPatch, capability: str
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    for results in range(1, 40):
        for pool in (False, True):
            channels, rows = replace(MNIST, results=results, pool=pool).blocks
            assert channels * rows <= (20 if pool and capability == "AVX512" else 12)
