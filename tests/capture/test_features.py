"""Parts of torch whose usual form needs values, and their form in a static graph."""

from __future__ import annotations

import re
import threading
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from openipu.capture import is_capturing, mark_loss
from openipu.errors import CaptureError
from openipu.graph import InputKind, OutputKind


def test_ctc_loss_trains_like_eager(compare_with_eager):
    class Speech(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(6, 5)

        def forward(self, x, targets, lengths, target_lengths):
            return F.ctc_loss(self.head(x).log_softmax(-1), targets, lengths, target_lengths)

    torch.manual_seed(0)
    args = (torch.randn(7, 2, 6), torch.tensor([[1, 2, 3], [4, 1, 0]]), torch.tensor([7, 6]), torch.tensor([3, 2]))
    compare_with_eager(Speech(), args, tolerance=1e-6)


@pytest.mark.parametrize("p", ["fro", 1, 2, 3.5, float("inf")])
@pytest.mark.parametrize("dim", [None, -1, (0, 1)], ids=str)
def test_norms_warn_of_nothing_and_have_the_values_of_eager(p, dim, capture_inference, run_micro, recwarn):
    def forward(x):
        return x.norm(p, dim=dim, keepdim=True), torch.norm(x, p=p, dim=dim)

    x = torch.randn(4, 3)
    expected = forward(x)
    recwarn.clear()
    results = run_micro(capture_inference(forward, x), None, x).of(OutputKind.OUTPUT)
    assert not [str(warning.message) for warning in recwarn]
    torch.testing.assert_close(tuple(results.values()), expected)


def test_bincount_has_as_many_bins_as_it_is_told(capture_inference, run_micro):
    values, weights = torch.tensor([1, 3, 1]), torch.tensor([0.5, 1.0, 2.0])

    def forward(values, weights):
        return torch.bincount(values, minlength=5), values.bincount(weights, 4)

    results = run_micro(capture_inference(forward, values, weights), None, values, weights).of(OutputKind.OUTPUT)
    expected = forward(values, weights)
    assert torch.equal(results["output_0"], expected[0])
    assert torch.equal(results["output_1"], expected[1])
    with pytest.raises(CaptureError, match="Bincount `minlength` must be specified and must be a constant"):
        capture_inference(lambda x: torch.bincount(x), values)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32])
def test_histograms_of_whole_numbers_are_whole_numbers(dtype, capture_inference, run_micro):
    values = torch.tensor([[1, 3, 1], [0, 2, 3]], dtype=dtype)

    def forward(values):
        return torch.histc(values, bins=4, min=0, max=3), values.histc(2, max=3)

    results = run_micro(capture_inference(forward, values), None, values).of(OutputKind.OUTPUT)
    # Eager PyTorch counts whole numbers on accelerators alone, where the result is whole, too.
    for found, expected in zip(results.values(), forward(values.float()), strict=True):
        assert torch.equal(found, expected.to(torch.int32 if dtype is torch.int64 else dtype))


def test_one_hot_needs_the_number_of_classes(capture_inference, run_micro):
    x = torch.tensor([1, 2])
    program = capture_inference(lambda x: F.one_hot(x, 4), x)
    assert torch.equal(run_micro(program, None, x).of(OutputKind.OUTPUT)["output_0"], F.one_hot(x, 4))
    with pytest.raises(
        CaptureError, match=re.escape("OneHot num classes must be specified and must be constant.")[:-2]
    ):
        capture_inference(lambda x: F.one_hot(x), x)


def test_distributions_are_not_checked_while_tracing_and_are_afterwards(capture_inference, run_micro, monkeypatch):
    # torch.compile turns the checks off for good in a process that has used it.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)

    def forward(x):
        return torch.distributions.Normal(x, 1.0).rsample(), torch.distributions.Bernoulli(x).sample()

    x = torch.tensor([0.25, 0.75])
    program = capture_inference(forward, x)
    torch.manual_seed(5)
    results = run_micro(program, None, x).of(OutputKind.OUTPUT)
    torch.manual_seed(5)
    expected = forward(x)
    assert torch.equal(results["output_0"], expected[0])
    assert torch.equal(results["output_1"], expected[1])
    with pytest.raises(ValueError, match="constraint"):
        torch.distributions.Bernoulli(torch.tensor(2.0))


def test_setting_data_is_recorded_as_a_copy(compare_with_eager):
    class Setter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x):
            self.seen.data = x * 2
            return mark_loss(self.weight * self.seen, "sum")

    program = compare_with_eager(Setter(), (torch.randn(3),))
    assert [entry.name for entry in program.micro.outputs_of(OutputKind.BUFFER)] == ["seen"]
    with pytest.raises(CaptureError, match="another shape"):
        capture_wrong_data(program)


def capture_wrong_data(_program) -> None:
    from openipu.capture import capture_program

    def forward(x):
        x.data = torch.zeros(5)
        return x

    capture_program(forward, (torch.ones(3),), {}, training=False, optimizer=None, name="wrong")


def test_a_list_of_tensors_is_no_data(capture_inference):
    with pytest.raises(CaptureError, match=re.escape("use torch.stack() instead")):
        capture_inference(lambda x: torch.tensor([x[0], 1.0]), torch.ones(2))


def test_gradients_inside_forward_can_be_trained_on(compare_with_eager):
    class Forces(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.energy = nn.Linear(3, 1)

        def forward(self, x):
            position = x.clone().requires_grad_()
            (force,) = torch.autograd.grad(self.energy(position).tanh().sum(), position, create_graph=True)
            return mark_loss(force.square(), "mean")

    torch.manual_seed(0)
    compare_with_eager(Forces(), (torch.randn(2, 3),), tolerance=1e-6)


def test_a_buffer_registered_while_tracing_does_not_stay(capture_inference):
    class Late(nn.Module):
        def forward(self, x):
            self.register_buffer("late", x * 2)
            return self.late

    model = Late()
    capture_inference(model, torch.ones(2))
    assert not dict(model.named_buffers())


def test_moving_a_module_to_the_device_it_is_on_does_nothing(capture_inference):
    class Mover(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.register_buffer("scale", torch.ones(2))

        def forward(self, x):
            self.to(x.device)
            self.linear.ipu()
            return self.linear(x.to(self.scale.device)) * self.scale

    program = capture_inference(Mover(), torch.ones(1, 2))
    assert [entry.kind for entry in program.micro.outputs] == [OutputKind.OUTPUT]


def test_capture_draws_no_random_numbers_of_the_host(capture_inference):
    def forward(x):
        noise = torch.rand(2) + torch.randn_like(x) + torch.normal(0.0, 1.0, (2,)) + torch.randperm(2)
        return F.dropout(noise.bernoulli_(0.5), 0.5) + torch.multinomial(x, 2)

    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    capture_inference(forward, torch.ones(2))
    assert torch.equal(torch.rand(3), expected)


def test_traced_tensors_do_not_stay_in_plain_attributes_and_other_changes_do(capture_inference):
    class Collector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.states = ["start"]
            self.by_name = {}
            self.calls = 0
            self.last = None

        def forward(self, x):
            self.calls += 1
            self.last = [x]
            self.states.append(x * 2)
            self.by_name["x"] = x
            return x

    model = Collector()
    states = model.states
    capture_inference(model, torch.ones(2))
    assert (model.calls, model.last, model.by_name) == (1, None, {})
    assert model.states is states
    assert states == ["start"]


def test_a_set_of_tensors_is_replaced_with_a_warning(capture_inference):
    def forward(x):
        return x, {x + 1}, SimpleNamespace(keys="none")

    with pytest.warns(UserWarning, match=r"Output 1 is a builtins.set that holds IPU tensors"):
        program = capture_inference(forward, torch.ones(2))
    assert program.output_tree.host_leaves[1] is None
    assert program.output_tree.host_leaves[2] == SimpleNamespace(keys="none")
    assert len(program.warnings) == 1


def test_a_method_of_a_module_is_captured_with_its_parameters(capture_inference):
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def encode(self, x):
            return x * self.weight

    program = capture_inference(Model().encode, torch.ones(2))
    assert [entry.name for entry in program.micro.inputs_of(InputKind.PARAMETER)] == ["weight"]


def test_a_parameter_changed_in_place_is_returned(capture_inference):
    class Clipped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            with torch.no_grad():
                self.weight.clamp_(max=0.5)
            return x * self.weight

    program = capture_inference(Clipped(), torch.ones(2))
    assert [entry.name for entry in program.micro.outputs_of(OutputKind.PARAMETER)] == ["weight"]


def test_other_threads_run_eagerly_during_a_capture(capture_inference):
    seen = {}
    other = nn.Linear(2, 2)

    def work() -> None:
        seen["capturing"] = is_capturing()
        seen["device"] = other(torch.ones(1, 2)).device.type

    def forward(x):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x + 1

    capture_inference(forward, torch.ones(1))
    assert seen == {"capturing": False, "device": "cpu"}


def test_an_output_that_shows_part_of_a_later_written_tensor_has_the_written_value(capture_inference, run_micro):
    def forward(x):
        y = x * 1
        row = y[0]
        y += 1
        return row, y

    x = torch.arange(4.0).reshape(2, 2)
    results = run_micro(capture_inference(forward, x), None, x).of(OutputKind.OUTPUT)
    expected = forward(x)
    assert torch.equal(results["output_0"], expected[0])
    assert torch.equal(results["output_1"], expected[1])


def test_training_inside_inference_mode_works(capture_training):
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return mark_loss(self.linear(x), "mean")

    model = Model()
    with torch.inference_mode():
        program = capture_training(model, torch.ones(1, 2))
    assert len(program.micro.outputs_of(OutputKind.GRADIENT)) == 2


class Tables(nn.Module):
    """A table that is looked up, and one whose rows are added up."""

    def __init__(self) -> None:
        super().__init__()
        self.single = nn.Embedding(6, 4, sparse=True)
        self.bag = nn.EmbeddingBag(6, 4, mode="sum", sparse=True)

    def forward(self, places):
        return F.mse_loss(self.single(places).mean(1), self.bag(places))


def test_a_table_with_sparse_gradients_trains_with_dense_ones(compare_with_eager):
    places = torch.tensor([[0, 1, 1], [5, 2, 3]])
    compare_with_eager(Tables(), (places,))
