"""Inside forward, tensors live on "ipu:0", and the usual ways to speak of a device work."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from openipu.capture import is_capturing
from openipu.graph import OutputKind


def capture_and_run(capture_inference, run_micro, function, *args):
    program = capture_inference(function, *args)
    return program, run_micro(program, None, *args).of(OutputKind.OUTPUT)["output_0"]


def test_tensors_say_that_they_are_on_the_ipu(capture_inference):
    seen = {}

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.register_buffer("table", torch.ones(2))

        def forward(self, x):
            for name, tensor in {"x": x, "weight": self.linear.weight, "table": self.table, "y": x + 1}.items():
                seen[name] = (tensor.device, tensor.is_ipu, tensor.is_cpu, tensor.is_meta, tensor.get_device())
            seen["capturing"] = is_capturing()
            seen["text"] = f"{x}"
            return x

    capture_inference(Model(), torch.ones(2))
    ipu = (torch.device("ipu:0"), True, False, False, 0)
    assert [seen[name] for name in ("x", "weight", "table", "y")] == [ipu] * 4
    assert seen["capturing"]
    assert not is_capturing()
    assert seen["text"] == "tensor(..., device='ipu:0', size=(2,), dtype=torch.float32)"


X = (3.0, -1.0, 2.0)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x + torch.arange(3), [3.0, 0.0, 4.0]),
        (lambda x: x + torch.arange(3, device="ipu"), [3.0, 0.0, 4.0]),
        (lambda x: x + torch.ones(3, device=x.device) * 2, [5.0, 1.0, 4.0]),
        (lambda x: x + torch.tensor([1.0, 2.0, 3.0]), [4.0, 1.0, 5.0]),
        (lambda x: x + torch.tensor([1.0, 2.0, 3.0], device="ipu:0"), [4.0, 1.0, 5.0]),
        (lambda x: x + x.new_tensor([1, 2, 3]), [4.0, 1.0, 5.0]),
        (lambda x: x + x.new_ones(3), [4.0, 0.0, 3.0]),
        (lambda x: x + torch.tensor([1.0, 2.0, 3.0], device="cpu").to("ipu"), [4.0, 1.0, 5.0]),
        (lambda x: x + torch.tensor([1, 2, 3], device="cpu").to(x), [4.0, 1.0, 5.0]),
        (lambda x: x + torch.tensor([1, 2, 3], device="cpu").ipu(), [4.0, 1.0, 5.0]),
        (lambda x: x + torch.ones_like(torch.empty(3, device="cpu")), [4.0, 0.0, 3.0]),
        (lambda x: x.to("ipu") + torch.eye(3)[0], [4.0, -1.0, 2.0]),
        (lambda x: x.to(torch.device("ipu", 0)).ipu() + torch.linspace(0, 1, 3), [3.0, -0.5, 3.0]),
        (lambda x: x + torch.tensor(4.0, device="cpu"), [7.0, 3.0, 6.0]),
        (lambda x: x[[2, 0, 1]], [2.0, 3.0, -1.0]),
        (lambda x: x[torch.tensor([0, 2])], [3.0, 2.0]),
        (lambda x: x[x.argmax()], 3.0),
        (lambda x: x[None, x.argmax() - 1], [2.0]),
        (lambda x: torch.stack([x, -x])[..., x.argmin()], [-1.0, 1.0]),
        (lambda x: torch.stack([x, -x])[x.argmin(), [0, 2]], [-3.0, -2.0]),
        (lambda x: torch.where(x > 0, x, torch.full_like(x, 7)), [3.0, 7.0, 2.0]),
        (lambda x: torch.zeros(3).masked_fill_(x > 0, 5), [5.0, 0.0, 5.0]),
    ],
)
def test_constants_factories_and_indices_give_the_values_of_eager_torch(
    function, expected, capture_inference, run_micro
):
    _, result = capture_and_run(capture_inference, run_micro, function, torch.tensor(X))
    assert result.tolist() == expected


def test_a_tensor_made_from_a_tensor_is_a_copy(capture_inference, run_micro):
    def forward(x):
        copied = torch.tensor(x, dtype=torch.float16)
        copied += 1
        return x

    _, result = capture_and_run(capture_inference, run_micro, forward, torch.tensor(X))
    assert result.tolist() == list(X)


def test_a_factory_without_a_device_is_redirected_with_a_warning(capture_inference):
    program = capture_inference(lambda x: x + torch.zeros(3), torch.ones(3))
    assert any("No device set in torch.zeros(): forcing to IPU." in warning for warning in program.warnings)
    assert any(f"at {__file__}:" in warning for warning in program.warnings)


def test_ops_on_host_tensors_alone_run_while_tracing(capture_inference, run_micro):
    counter = torch.zeros(1, device="cpu")

    def forward(x):
        counter.add_(1)
        return x + counter.to("ipu")

    program, result = capture_and_run(capture_inference, run_micro, forward, torch.ones(1))
    assert counter.item() == 1
    assert result.item() == 2
    assert [tensor.item() for tensor in program.constants.values()] == [1]


def test_writing_at_a_row_held_in_a_tensor(capture_inference, run_micro):
    def forward(x, row, value):
        y = x.clone()
        y[:, row] = value
        y[row - 1] = 9
        return y

    args = (torch.zeros(3, 3), torch.tensor(2), torch.tensor([1.0, 2.0, 3.0]))
    _, result = capture_and_run(capture_inference, run_micro, forward, *args)
    assert torch.equal(result, forward(*args))


def test_long_inputs_stay_long(capture_inference):
    program = capture_inference(lambda x: x * 2, torch.tensor([1, 2]))
    assert program.micro.inputs[0].dtype is torch.int64
    assert program.micro.outputs[0].dtype is torch.int64


def test_capture_works_inside_inference_mode(capture_inference):
    with torch.inference_mode():
        program = capture_inference(nn.Linear(2, 2), torch.ones(1, 2))
    assert program.micro.outputs[0].shape == (1, 2)


def test_a_returned_input_is_an_output(capture_inference, run_micro):
    x = torch.tensor([5.0])
    _, result = capture_and_run(capture_inference, run_micro, lambda x: x, x)
    assert torch.equal(result, x)
