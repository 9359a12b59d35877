"""In place on what autograd saved: gradients are those of the formula without in-place ops."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from openipu.graph import OutputKind

# What eager refuses, and the same without in-place ops, which it accepts.
PAIRS = {
    "relu, then scaled": (lambda h: torch.relu(h).mul_(0.5), lambda h: torch.relu(h) * 0.5),
    "sigmoid, then shifted": (lambda h: torch.sigmoid(h).add_(1), lambda h: torch.sigmoid(h) + 1),
    "tanh, written twice": (lambda h: torch.tanh(h).mul_(3).add_(1), lambda h: torch.tanh(h) * 3 + 1),
    "an operand of a product": (lambda h: write_operand(h), lambda h: h * h.exp() + (h + 1)),
    "exp, one row set": (lambda h: set_row(torch.exp(h)), lambda h: torch.cat([torch.ones(1, 4), torch.exp(h)[1:]])),
    "softmax, masked": (
        lambda h: torch.softmax(h, 1).masked_fill_(h > 0, 0.1),
        lambda h: torch.softmax(h, 1).masked_fill(h > 0, 0.1),
    ),
    "through a transposed view": (
        lambda h: write_transposed(torch.tanh(h)),
        lambda h: (torch.tanh(h).t() * torch.arange(4.0)[:, None]).t(),
    ),
}


def write_operand(h):
    h = h + 0
    product = h * h.exp()
    return product + h.add_(1)


def set_row(y):
    y[0] = 1
    return y


def write_transposed(y):
    y.t().mul_(torch.arange(4.0).to(y.device)[:, None])
    return y


class Net(nn.Module):
    def __init__(self, middle) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.middle = nn.Linear(4, 4), nn.Linear(4, 2), middle

    def forward(self, x):
        return F.mse_loss(self.second(self.middle(self.first(x))), torch.zeros(3, 2).to(x.device))


def differentiate(model, x):
    model(x).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("case", PAIRS)
def test_a_gradient_is_computed_from_the_value_at_the_time_it_was_saved(case, capture_training, run_micro):
    in_place, plain = PAIRS[case]
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        differentiate(Net(in_place), x)
    model = Net(in_place)
    results = run_micro(capture_training(model, x), model, x)
    expected = differentiate(Net(plain), x)
    found = results.of(OutputKind.GRADIENT)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, msg=lambda text, name=name: f"{name}: {text}")


def test_relu_and_an_in_place_dropout_keep_the_masks_and_gradients_of_the_plain_pair(capture_training, run_micro):
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    outcomes = []
    for inplace in (True, False):
        model = Net(lambda h, inplace=inplace: F.dropout(torch.relu(h), 0.5, inplace=inplace))
        program = capture_training(model, x)
        torch.manual_seed(2)
        outcomes.append(run_micro(program, model, x).of(OutputKind.GRADIENT))
    assert any(value.abs().sum() > 0 for value in outcomes[0].values())
    for name, value in outcomes[0].items():
        torch.testing.assert_close(value, outcomes[1][name])


def test_holding_a_saved_value_costs_no_op(capture_training):
    x = torch.randn(3, 4)
    counts = [
        sum(node.op == "call_function" for node in capture_training(Net(middle), x).micro.module.graph.nodes)
        for middle in PAIRS["relu, then scaled"]
    ]
    assert counts[0] == counts[1]


def test_transforms_of_torch_func_still_run_inside_forward(compare_with_eager):
    def middle(h):
        return h + torch.func.grad(lambda z: z.pow(3).sum())(h)

    compare_with_eager(Net(middle), (torch.randn(3, 4, generator=torch.Generator().manual_seed(1)),))
