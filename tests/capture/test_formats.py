"""Number formats: what an IPU has not is narrowed, and layers compute in the format of their activations."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from openipu.errors import CaptureError
from openipu.graph import InputKind, OutputKind


def list_dtypes(program):
    return [entry.dtype for entry in program.micro.outputs_of(OutputKind.OUTPUT)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_casts_constants_and_factories_in_wide_formats_give_float32(capture_inference, run_micro, dtype):
    def forward(x):
        constant = torch.tensor([1.0, 2.0], dtype=dtype)
        return x.to(dtype) + constant, torch.ones(2, dtype=dtype), x.sum(dtype=dtype)

    program = capture_inference(forward, torch.ones(2))
    assert list_dtypes(program) == [torch.float32] * 3
    assert run_micro(program, None, torch.ones(2)).values[(OutputKind.OUTPUT, "output_0")].tolist() == [2.0, 3.0]


def test_parameters_and_buffers_of_a_double_model_are_held_as_float32(capture_training):
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.BatchNorm1d(3)

        def forward(self, x):
            return F.mse_loss(self.inner(x), x)

    program = capture_training(Model().double(), torch.ones(2, 3, dtype=torch.float64))
    held = {entry.dtype for entry in program.micro.inputs if entry.dtype.is_floating_point}
    assert held == {torch.float32}
    assert {entry.dtype for entry in program.micro.outputs_of(OutputKind.GRADIENT)} == {torch.float32}


def test_a_host_tensor_in_float64_stays_what_it_is(capture_inference):
    seen = []

    def forward(x):
        seen.append((torch.zeros(2, device="cpu").double() + 1).dtype)
        return x

    capture_inference(forward, torch.ones(2))
    assert seen == [torch.float64]


LAYERS = {
    "linear": (lambda: nn.Linear(4, 3), (2, 4)),
    "linear of a vector": (lambda: nn.Linear(4, 3), (4,)),
    "convolution": (lambda: nn.Conv1d(4, 3, 2), (2, 4, 5)),
    "transposed convolution": (lambda: nn.ConvTranspose2d(4, 3, 2), (2, 4, 5, 5)),
    "layer norm": (lambda: nn.LayerNorm(4), (2, 4)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (2, 4)),
    "batch norm": (lambda: nn.BatchNorm1d(4, track_running_stats=False), (2, 4)),
    "prelu": (nn.PReLU, (2, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(("activations", "weights"), [(torch.half, torch.float), (torch.float, torch.half)])
def test_a_layer_computes_in_the_format_of_its_activations(capture_inference, run_micro, name, activations, weights):
    make, shape = LAYERS[name]
    model, x = make().to(weights), torch.ones(shape, dtype=activations)
    program = capture_inference(model, x)
    run_micro(program, model, x)
    assert set(list_dtypes(program)) == {activations}
    assert {entry.dtype for entry in program.micro.inputs_of(InputKind.PARAMETER)} == {weights}


def test_float32_weights_get_float32_gradients_from_half_activations(capture_training, run_micro):
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 3)

        def forward(self, x):
            y = self.inner(x)
            return y, F.mse_loss(y, torch.zeros_like(y))

    model = Model()
    x = torch.ones(2, 4, dtype=torch.half)
    program = capture_training(model, x)
    found = run_micro(program, model, x).of(OutputKind.GRADIENT)["inner.weight"]
    F.mse_loss(model.inner(x.float()), torch.zeros(2, 3)).backward()
    assert found.dtype is torch.float32
    torch.testing.assert_close(found, model.inner.weight.grad, rtol=2e-2, atol=1e-3)


def test_an_input_without_elements_is_refused_by_name(capture_inference):
    with pytest.raises(CaptureError, match=r"Zero-sized tensors are unsupported \(Got shape \[0, 2\]\).*images"):
        capture_inference(lambda images: images * 2, torch.ones(0, 2))


def test_powers_in_place_are_powers_of_the_tensor(capture_inference, run_micro):
    def forward(x):
        y = x + 1
        y.pow_(3)
        return y.pow_(x)

    program = capture_inference(forward, torch.ones(2))
    assert run_micro(program, None, torch.ones(2)).values[(OutputKind.OUTPUT, "output_0")].tolist() == [8.0, 8.0]
