"""A return mode for each output, whose period counts micro-batches; and reductions of their own over replicas."""

import copy

import pytest
import torch
from torch import nn

from openipu.errors import OptionError
from openipu.graph import OutputChoice, OutputKind, OutputMode, Reduction, RunOptions
from openipu.run import Executable

ALL, FINAL, EVERY_N, SUM = OutputMode.ALL, OutputMode.FINAL, OutputMode.EVERY_N, OutputMode.SUM
CHOICES = (OutputChoice(0, ALL), OutputChoice(1, FINAL), OutputChoice(2, SUM), OutputChoice(3, EVERY_N, 2))


def run_inference(build_program, batches, **options):
    """Micro-batch k holds one row of two numbers, [k, k]; it comes back four times, and as a scalar."""
    program = build_program(
        lambda x: (x * 1, x * 1, x * 1, x * 1, x.sum()),
        inputs={"x": torch.zeros(1, 2)},
        returns=[(OutputKind.OUTPUT, name) for name in ("a", "b", "c", "d", "total")],
    )
    executable = Executable(program, RunOptions(**options))
    whole = torch.arange(float(batches)).view(-1, 1).expand(-1, 2).contiguous()
    return executable.run([whole])


@pytest.mark.parametrize("batching", [True, False])
def test_each_output_comes_back_by_its_own_mode(build_program, batching):
    options = {"device_iterations": 4, "replicas": 2, "output_mode": FINAL, "output_choices": CHOICES}
    every, last, summed, second, total = run_inference(build_program, 8, batching=batching, **options).outputs
    assert every[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert last[:, 0].tolist() == [6, 7]
    assert summed[:, 0].tolist() == [0 + 2 + 4 + 6, 1 + 3 + 5 + 7]
    assert second[:, 0].tolist() == [2, 3, 6, 7]
    assert total.tolist() == [12, 14]  # has no choice of its own: final, two columns each


class Rows(nn.Module):
    """The loss, and the input four times."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x):
        scaled = x * self.weight
        return nn.functional.mse_loss(scaled, torch.zeros_like(x)), x * 1, x * 1, x * 1, x * 1


@pytest.mark.parametrize("batching", [True, False])
def test_in_training_every_nth_counts_accumulation_steps_too(start_training, batching):
    choices = tuple(OutputChoice(choice.leaf + 1, choice.mode, choice.period) for choice in CHOICES)
    model = Rows()
    settings = RunOptions(
        training=True,
        device_iterations=2,
        gradient_accumulation=2,
        output_choices=choices,
        batching=batching,
    )
    whole = torch.arange(4.0).view(-1, 1).expand(-1, 2).contiguous()
    trained = start_training(model, torch.optim.SGD(model.parameters(), lr=0.0), [whole], settings)
    result = trained.executable.run([whole])
    loss, every, last, summed, second = result.outputs
    assert loss.tolist() == [0, 1, 4, 9]  # the mode of all others: every one
    assert every[:, 0].tolist() == [0, 1, 2, 3]
    assert last[:, 0].tolist() == [3]
    assert summed[:, 0].tolist() == [6]
    assert second[:, 0].tolist() == [1, 3]  # the second step of each device iteration
    assert [entry.stored for entry in result.times] == [True] * 4


def test_a_micro_batch_is_stored_where_any_output_wants_it(build_program):
    choices = (*(OutputChoice(leaf, FINAL) for leaf in (0, 1, 2, 4)), OutputChoice(3, EVERY_N, 2))
    result = run_inference(build_program, 4, device_iterations=4, output_choices=choices)
    assert [entry.stored for entry in result.times] == [False, True, False, True]


def test_a_period_that_does_not_divide_the_call_leaves_its_rest_out(build_program):
    result = run_inference(build_program, 5, device_iterations=5, output_choices=(OutputChoice(0, EVERY_N, 2),))
    assert result.outputs[0][:, 0].tolist() == [1, 3]


@pytest.mark.parametrize(
    ("choice", "words"),
    [(OutputChoice(7), "no output 7"), (OutputChoice(1, EVERY_N, 5), "every 5 micro-batches, but a call has 4")],
)
def test_a_choice_that_cannot_be_met_is_refused(build_program, choice, words):
    with pytest.raises(OptionError, match=words):
        run_inference(build_program, 4, device_iterations=4, output_choices=(choice,))


def test_a_period_is_a_positive_number_and_an_output_has_one_mode():
    with pytest.raises(OptionError, match="at least 1, not 0"):
        OutputChoice(0, EVERY_N, 0)
    with pytest.raises(OptionError, match="more than one mode"):
        RunOptions(output_choices=(OutputChoice(0, ALL), OutputChoice(0, FINAL)))


MEAN, ADD, RUNNING = Reduction.MEAN, Reduction.SUM, Reduction.RUNNING_MEAN


@pytest.mark.parametrize("batching", [True, False])
@pytest.mark.parametrize(
    ("reduction", "across", "weight"),
    [
        (MEAN, None, 1 / 6),  # 3 accumulation steps x 2 replicas
        (ADD, None, 1.0),
        (MEAN, ADD, 1 / 3),
        (RUNNING, ADD, 1 / 3),
        (ADD, MEAN, 1 / 2),
        (RUNNING, None, 1 / 6),
    ],
)
def test_accumulation_and_replicas_are_reduced_apart(start_training, reduction, across, weight, batching):
    options = RunOptions(
        training=True,
        gradient_accumulation=3,
        replicas=2,
        reduction=reduction,
        replica_reduction=across,
        batching=batching,
    )
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 1))

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return nn.functional.mse_loss(self.model(x), torch.zeros_like(x[:, :1]))

    eager = copy.deepcopy(model)
    data = torch.randn(12, 4)
    trained = start_training(Loss(), torch.optim.SGD(model.parameters(), lr=0.1), [data], options)
    trained.executable.run([data])
    sum(eager(part).square().mean() for part in data.split(2)).backward()
    expected = eager[0].weight - 0.1 * weight * eager[0].weight.grad
    torch.testing.assert_close(trained.read_weights()["model.0.weight"], expected.detach())
