"""Float8 with power-of-two scales, on the host and inside captured models."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import poptorch
from openipu.errors import InputError, OptionError
from openipu.numerics import (
    FLOAT8_143,
    FLOAT8_152,
    FLOAT16,
    cast_from_float8,
    cast_to_float8,
    choose_float8_scale,
    decode_code,
    encode_number,
    float8_matmul,
    quantise_gradient_to_float8,
    quantise_to_float8,
)

FORMATS = pytest.mark.parametrize("format", [FLOAT8_143, FLOAT8_152], ids=lambda format: format.name)


def sample(*shape, scale=1.0, seed=0):
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@FORMATS
@pytest.mark.parametrize("log2_scale", [-3, 0, 5])
@pytest.mark.parametrize("nan_on_overflow", [False, True])
def test_casts_scale_round_and_saturate_as_the_reference_does(format, log2_scale, nan_on_overflow):
    values = torch.cat([sample(300, scale=format.largest / 8), torch.tensor([1e9, -1e9, torch.inf, torch.nan, 0.0])])
    found = cast_to_float8(values, format, log2_scale, nan_on_overflow)
    assert found.dtype is format.dtype
    mode = "nan" if nan_on_overflow else "saturate"
    codes = [encode_number(value * 2.0**log2_scale, format, overflow=mode) for value in values.tolist()]
    assert found.view(torch.uint8).tolist() == codes


@FORMATS
def test_casting_back_undoes_the_scale_exactly(format):
    codes = [code for code in range(256) if code != 0x80]
    values = torch.tensor([decode_code(code, format) for code in codes]) * 0.25
    there = cast_to_float8(values, format, log2_scale=2)
    assert torch.equal(cast_from_float8(there, torch.float32, log2_scale=-2), values)
    assert torch.equal(cast_from_float8(there, log2_scale=-2), values.half())


def test_products_have_half_results_that_are_scaled_before_they_are_rounded():
    left = cast_to_float8(sample(8, 32), FLOAT8_143, 3)
    right = cast_to_float8(sample(32, 8, seed=1), FLOAT8_152, 3)
    exact = (left.float() @ right.float()) / 64
    found = float8_matmul(left, right, log2_scale=-6)
    assert found.dtype is torch.float16
    assert torch.equal(found, exact.half())
    large = cast_to_float8(torch.full((2, 2), 240.0))
    assert float8_matmul(large, large).eq(FLOAT16.largest).all()  # 115,200 is too large
    assert float8_matmul(large, large, log2_scale=-1).eq(57600.0).all()


@FORMATS
def test_the_chosen_scale_has_the_least_error(format):
    tiny = sample(500, scale=1e-4)
    scale = choose_float8_scale(tiny, format)
    assert scale > 0
    error = (quantise_to_float8(tiny, format, scale) - tiny).square().mean()
    assert error <= (quantise_to_float8(tiny, format, scale - 1) - tiny).square().mean()
    assert choose_float8_scale(sample(500, scale=1e5), format) < 0


class Quantised(torch.nn.Module):
    """A layer with float8 weights and activations, and float8 gradients where it is trained."""

    def __init__(self, half):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(16, 8)
        if half:
            self.half()

    def forward(self, x, labels=None):
        activations = quantise_to_float8(x, FLOAT8_143, 1)
        weights = quantise_to_float8(self.layer.weight, FLOAT8_143, 4)
        out = quantise_gradient_to_float8(F.linear(activations, weights, self.layer.bias), FLOAT8_152, 8)
        return out if labels is None else (out, F.cross_entropy(out.float(), labels))


class Inference(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(16, 8).half())

    def forward(self, x):
        left, right = cast_to_float8(x, FLOAT8_143, 2), cast_to_float8(self.weight, FLOAT8_152)
        return float8_matmul(left, right, log2_scale=-2), cast_from_float8(left, torch.float32, -2)


def options():
    return poptorch.Options().showCompilationProgressBar(False)


def test_a_captured_model_multiplies_float8_as_eager_pytorch_does():
    model, x = Inference(), sample(4, 16).half()
    found = poptorch.inferenceModel(model, options())(x)
    for left, right in zip(found, model(x), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("half", [False, True])
def test_a_captured_model_trains_with_straight_through_gradients(half):
    model, eager = Quantised(half), Quantised(half)
    x, labels = sample(4, 16), torch.tensor([0, 1, 2, 3])
    x = x.half() if half else x
    trainer = poptorch.trainingModel(model, options(), torch.optim.SGD(model.parameters(), lr=0.5))
    out, loss = trainer(x, labels)
    expected, eager_loss = eager(x, labels)
    torch.testing.assert_close(out, expected, rtol=1e-2, atol=1e-3)
    eager_loss.backward()
    trainer.copyWeightsToHost()
    for parameter, other in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(parameter, (other - 0.5 * other.grad).to(other.dtype), rtol=1e-2, atol=2e-3)
    assert torch.isfinite(loss)


def test_gradients_are_rounded_to_float8_numbers():
    x = sample(64).requires_grad_()
    weight = sample(64, seed=1)
    (quantise_gradient_to_float8(x, FLOAT8_152, 3) * weight).sum().backward()
    assert torch.equal(x.grad, cast_from_float8(cast_to_float8(weight, FLOAT8_152, 3), torch.float32, -3))
    assert not torch.equal(x.grad, weight)


def test_bad_arguments_are_refused():
    x = torch.ones(2, 2)
    with pytest.raises(OptionError, match="log2_scale"):
        cast_to_float8(x, FLOAT8_143, 32)
    with pytest.raises(OptionError, match="no float8 format"):
        cast_to_float8(x, FLOAT16)
    with pytest.raises(InputError, match=r"torch\.int64"):
        cast_to_float8(x.long())
    with pytest.raises(InputError, match="cast_to_float8"):
        float8_matmul(x, x)
    with pytest.raises(InputError, match="cast_from_float8 takes"):
        cast_from_float8(x)
    with pytest.raises(InputError, match="finite"):
        choose_float8_scale(torch.tensor([torch.nan]))
