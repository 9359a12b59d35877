"""Outputs: which micro-batches come back, in which shape, in which container."""

from collections import OrderedDict, namedtuple

import pytest
import torch

import poptorch

Point = namedtuple("Point", ["x", "y"])
ALL, FINAL, EVERY_N, SUM = (getattr(poptorch.OutputMode, name) for name in ("All", "Final", "EveryN", "Sum"))
MICRO = 2


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def select(values, mode, period, iterations, accumulation, replicas):
    """The values [D, G, R, ...] that an output mode returns, by its definition."""
    values = values.reshape(iterations, accumulation, replicas, *values.shape[1:])
    if mode is FINAL:
        return values[-1, -1]
    if mode is SUM:
        return values.sum((0, 1))
    if mode is EVERY_N:
        values = values[period - 1 :: period]
    return values.flatten(0, 2)


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("iterations", [1, 4])
@pytest.mark.parametrize(("mode", "period"), [(ALL, 1), (FINAL, 1), (EVERY_N, 2), (SUM, 1)])
def test_inference_returns_what_the_mode_says(mode, period, iterations, replicas):
    if mode is EVERY_N and iterations == 1:
        period = 1
    options = quiet().deviceIterations(iterations).replicationFactor(replicas).outputMode(mode, period)
    count = iterations * replicas
    x = torch.arange(count * MICRO * 3.0).reshape(count * MICRO, 3)
    rows, total = poptorch.inferenceModel(lambda x: (x * 2, x.sum()), options)(x)
    micro = x.reshape(count, MICRO, 3)
    expected_rows = select(micro * 2, mode, period, iterations, 1, replicas)
    expected_total = select(micro.sum((1, 2)), mode, period, iterations, 1, replicas)
    assert torch.equal(rows, expected_rows.flatten(0, 1))
    if len(expected_total) == 1:
        assert total.shape == ()
        assert total == expected_total[0]
    else:
        assert torch.equal(total, expected_total)


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        y = x * self.weight
        return y, poptorch.identity_loss(y, "mean")


@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize(("mode", "period"), [(ALL, 1), (FINAL, 1), (EVERY_N, 2), (SUM, 1), (None, 1)])
def test_training_returns_what_the_mode_says(mode, period, replicas, accumulation):
    iterations = 2
    options = quiet().deviceIterations(iterations).replicationFactor(replicas)
    if mode is not None:
        options.outputMode(mode, period)
    options.Training.gradientAccumulation(accumulation)
    model = Scale()
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.0))
    count = iterations * accumulation * replicas
    x = torch.arange(count * MICRO * 1.0).reshape(count * MICRO, 1)
    y, loss = training(x)
    micro = x.reshape(count, MICRO, 1)
    chosen = FINAL if mode is None else mode
    expected_y = select(micro, chosen, period, iterations, accumulation, replicas).flatten(0, 1)
    expected_loss = select(micro.mean((1, 2)), chosen, period, iterations, accumulation, replicas)
    assert torch.allclose(y, expected_y)
    assert loss.shape == (() if len(expected_loss) == 1 else expected_loss.shape)
    assert torch.allclose(loss.flatten(), expected_loss)


def test_containers_are_kept():
    def forward(x):
        return [x, (x + 1, {"a": x + 2}), Point(x + 3, None), OrderedDict(b=x + 4), "text", 7]

    result = poptorch.inferenceModel(forward, quiet())(torch.zeros(1))
    assert isinstance(result, list)
    assert isinstance(result[1], tuple)
    assert isinstance(result[1][1], dict)
    assert isinstance(result[2], Point)
    assert isinstance(result[3], OrderedDict)
    assert result[2].y is None
    assert result[4:] == ["text", 7]
    assert [result[0], result[1][0], result[1][1]["a"], result[2].x, result[3]["b"]] == [0, 1, 2, 3, 4]


def test_nothing_returned_is_none():
    assert poptorch.inferenceModel(lambda x: None, quiet())(torch.zeros(1)) is None


def test_outputs_refuse_backward():
    output = poptorch.inferenceModel(lambda x: x.sum(), quiet())(torch.ones(2))
    with pytest.raises(
        poptorch.Error, match=r"backward\(\) cannot be called explicitly on outputs of a PopTorch model"
    ):
        output.backward()


def test_outputs_of_one_call_survive_the_next():
    model = poptorch.inferenceModel(lambda x: x * 2, quiet())
    first = model(torch.ones(2))
    model(torch.zeros(2))
    assert torch.equal(first, torch.full((2,), 2.0))
