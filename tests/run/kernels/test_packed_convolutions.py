"""Convolutions of inference with packed weights: the results of eager PyTorch, and weights that can change."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from openipu.graph import EngineMode, RunOptions
from openipu.run.engine import pass_list
from openipu.run.engine.setting import Setting
from openipu.run.rewrites.images import packed_convolutions
from openipu.session import Compiled, compile_model


class Residual(nn.Module):
    """Convolution, norm, addition, relu: one call each."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(4, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.second, self.other = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        nn.init.uniform_(self.norm.running_mean, -1, 1)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)
        nn.init.uniform_(self.norm.weight, 0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.norm(self.first(x)))) + self.other(x))


class Smooth(nn.Module):
    """Sums with every activation that a convolution alone can take in."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        functions = (torch.sigmoid, nn.functional.silu, nn.functional.hardswish, torch.relu)
        for layer, function in zip(self.layers, functions, strict=True):
            x = function(layer(x) + x)
        return x


class Tail(nn.Module):
    """What follows reads pixels in rows: a view, a sum over channels, a second result."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 12, 3, padding=1, groups=2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        y = nn.functional.silu(self.conv(x))
        return y.flatten(1), y.cumsum(1), y


class Pooled(nn.Module):
    """Pools with and without pads, whose relu comes behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 10, 3), nn.Conv2d(10, 20, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(nn.functional.max_pool2d(self.first(x), 2))
        return torch.relu(nn.functional.max_pool2d(self.second(x), 3, 2, 1)).mean((2, 3))


class Places(nn.Module):
    """The places of a pool are read as well."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 10, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return nn.functional.max_pool2d(self.conv(x), 2, return_indices=True)


class Sums(nn.Module):
    """One sum in each place where the memory of what is added may be taken, or must not be."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        one, two, three, four, five, six, seven, eight = self.layers
        x = one(x) + x  # the caller's
        first = torch.relu(two(x))
        x = three(torch.relu(four(first))) + first  # read by `four` before: may be taken
        second = five(x)
        x = six(second) + second  # read by the same convolution
        third = seven(x)
        x = eight(torch.tanh(x)) + third  # returned
        return x, third


class LateReader(nn.Module):
    """What is added is read once more behind the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, two, three, four = self.layers
        kept = one(x)
        total = three(two(x)) + kept
        return four(kept) * total


class Mixed(nn.Module):
    """What is added has other formats."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, other in zip(self.layers, (x > 0, (3 * x).int(), x.half()), strict=True):
            x = torch.relu(layer(x) + other)
        return x


MODELS = {
    "mixed formats": Mixed,
    "sums": Sums,
    "late reader": LateReader,
    "residual": Residual,
    "smooth": Smooth,
    "tail": Tail,
    "pooled": Pooled,
    "places": Places,
}


def compile_inference(model: nn.Module, x: torch.Tensor) -> Compiled:
    options = RunOptions(engine=EngineMode.OPERATORS)
    compiled = compile_model(model, [x], options=options, show_progress=False)
    compiled.executable.load_weights(dict(model.named_parameters()), dict(model.named_buffers()))
    return compiled


def check(compiled: Compiled, model: nn.Module, x: torch.Tensor) -> None:
    with torch.no_grad():
        wanted = model(x)
    expected = wanted if isinstance(wanted, tuple) else (wanted,)
    for found, entry in zip(compiled.executable.run([x]).outputs, expected, strict=True):
        assert found.is_contiguous()
        torch.testing.assert_close(found, entry.to(found.dtype), rtol=1e-4, atol=1e-5)


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[packed_convolutions.Convolution]:
    """What was packed, in order."""
    found: list[packed_convolutions.Convolution] = []

    class Noted(packed_convolutions.PackedConvolution):
        def __init__(self, memory, plan, shape):
            found.append(plan)
            super().__init__(memory, plan, shape)

    monkeypatch.setattr(packed_convolutions, "PackedConvolution", Noted)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_the_results_are_those_of_eager_pytorch(name: str, packed: list[packed_convolutions.Convolution]) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    x = torch.randn(2, 4, 33, 30)
    before = x.clone()
    check(compile_inference(model, x), model, x)
    assert packed
    assert torch.equal(x, before)


@pytest.mark.parametrize("name", ["mixed formats", "residual", "smooth", "pooled"])
def test_what_is_not_a_number_stays_so(name: str, packed: list[packed_convolutions.Convolution]) -> None:
    torch.manual_seed(0)
    model, x = MODELS[name]().eval(), torch.randn(2, 4, 33, 30)
    x[0, 1, 7, 9] = torch.nan
    (found,) = compile_inference(model, x).executable.run([x]).outputs
    with torch.no_grad():
        expected = model(x)
    assert packed
    assert expected.isnan().any()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_norm_addition_and_activation_are_part_of_the_call(packed: list[packed_convolutions.Convolution]) -> None:
    model = Residual().eval()
    compile_inference(model, torch.randn(2, 4, 32, 32)).executable.run([torch.randn(2, 4, 32, 32)])
    assert sorted((plan.norm is not None, plan.other is not None, plan.activation) for plan in packed) == [
        (False, False, "none"),
        (False, True, "relu"),
        (True, False, "relu"),
    ]


@pytest.mark.parametrize(("model", "count"), [(Residual, 1), (Sums, 1), (LateReader, 0)])
def test_a_sum_takes_memory_that_nobody_reads_again(
    model: type[nn.Module], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[packed_convolutions.PackedConvolution] = []

    class Noted(packed_convolutions.PackedConvolution):
        def __init__(self, memory, plan, shape):
            super().__init__(memory, plan, shape)
            made.append(self)

    monkeypatch.setattr(packed_convolutions, "PackedConvolution", Noted)
    compiled = compile_inference(model().eval(), torch.randn(2, 4, 32, 32))
    assert compiled.executable.engine_mode is EngineMode.OPERATORS
    assert sum(kernel.overwrites for kernel in made) == count


def test_newly_loaded_weights_and_statistics_are_packed_again() -> None:
    torch.manual_seed(0)
    model, x = Residual().eval(), torch.randn(2, 4, 32, 32)
    compiled = compile_inference(model, x)
    check(compiled, model, x)
    other = Residual().eval()
    compiled.executable.load_weights(dict(other.named_parameters()), dict(other.named_buffers()))
    check(compiled, other, x)


def test_a_training_program_packs_nothing() -> None:
    (entry,) = [entry for entry in pass_list.BOUND if entry.name == "pack convolutions of inference"]
    setting = Setting(None, RunOptions(training=True))  # type: ignore[arg-type]
    assert not entry.when(setting)


def test_half_weights_are_packed_wide(packed: list[packed_convolutions.Convolution]) -> None:
    torch.manual_seed(0)
    model = nn.Conv2d(16, 32, 3, padding=1).half().eval()
    x = torch.randn(2, 16, 32, 32).half()
    compiled = compile_inference(model, x)
    (found,) = compiled.executable.run([x]).outputs
    with torch.no_grad():
        expected = model.float()(x.float())
    torch.testing.assert_close(found.float(), expected, rtol=2e-3, atol=2e-3)
    assert len(packed) == 1
