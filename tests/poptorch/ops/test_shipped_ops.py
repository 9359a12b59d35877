"""Custom ops that are there without registration."""

import pytest
import torch

import openipu
import poptorch
from openipu.capture.constructs import custom_ops
from openipu.graph import Phase
from openipu.machine import Provenance
from openipu.ops.cost import Family

NEWER = {"fwd_grain_size": 16, "bwd_grain_size": 16, "debug_str": "here"}
REMAPPED = {
    "older": {"grain_size": 8},
    "newer": NEWER,
    "on the spot": {**NEWER, "fwd_clone_layout": 1, "bwd_clone_layout": 1},
    "after a product": {**NEWER, "fwd_after_matmul": 1, "bwd_after_matmul": 0},
}


class Remapped(torch.nn.Module):
    def __init__(self, attributes):
        super().__init__()
        torch.manual_seed(1)
        self.attributes = attributes
        self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 8)

    def forward(self, x):
        hidden = self.first(x)
        if self.attributes is not None:
            (hidden,) = poptorch.custom_op(
                [hidden], "RemapCE", "ai.graphcore", 1, example_outputs=[hidden], attributes=self.attributes
            )
        return poptorch.identity_loss(self.second(hidden).tanh(), "sum")


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def train(attributes):
    model = Remapped(attributes)
    training = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))
    losses = [training(x).item() for x in torch.linspace(-1, 1, 4 * 3 * 16).view(4, 3, 16)]
    return training, model.state_dict(), losses


@pytest.mark.parametrize("case", REMAPPED)
def test_a_remapped_tensor_keeps_its_values_and_so_does_its_gradient(case):
    _, expected, expected_losses = train(None)
    _, found, losses = train(REMAPPED[case])
    assert losses == expected_losses
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    eager = Remapped(REMAPPED[case])(torch.ones(3, 16))
    assert torch.equal(eager, Remapped(None)(torch.ones(3, 16)))


@pytest.mark.parametrize(("case", "forward", "backward"), [("older", 1, 1), ("newer", 1, 1), ("after a product", 2, 1)])
def test_each_move_of_a_remapped_tensor_has_a_cost_that_is_no_guess(case, forward, backward):
    plan = train(REMAPPED[case])[0]._compiled.plan
    plain = train(None)[0]._compiled.plan
    moves = [op for op in plan.ops if op.family is Family.LAYOUT and op.op.startswith("aten.clone")]
    assert [op.phase for op in moves].count(Phase.FORWARD) == forward
    assert [op.phase for op in moves].count(Phase.BACKWARD) == backward
    assert all(op.provenance is not Provenance.GUESSED for op in moves)
    assert plan.timing.call_cycles > plain.timing.call_cycles


def test_a_registration_of_ones_own_comes_first(monkeypatch):
    monkeypatch.setattr(custom_ops, "_registered", {})
    openipu.register_custom_op("RemapCE", "ai.graphcore", forward=lambda inputs, attributes: [inputs[0] + 1])

    class Model(torch.nn.Module):
        def forward(self, x):
            return poptorch.custom_op([x], "RemapCE", "ai.graphcore", 1, [x], {"grain_size": 8})[0]

    assert poptorch.inferenceModel(Model(), quiet())(torch.zeros(2)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("inputs", "attributes", "words"), [
    ([torch.ones(2)] * 2, {"grain_size": 8}, "RemapCE takes one tensor, not 2"),
    ([torch.ones(2)], {"fwd_grain_size": 0}, "a fwd_grain_size of at least 1, not 0"),
])  # fmt: skip
def test_what_cannot_be_remapped_is_refused(inputs, attributes, words):
    with pytest.raises(poptorch.Error, match=words):
        poptorch.custom_op(inputs, "RemapCE", "ai.graphcore", 1, [torch.ones(2)], attributes)


class Recognizer(torch.nn.Module):
    def __init__(self, by_name):
        super().__init__()
        torch.manual_seed(0)
        self.by_name, self.layer = by_name, torch.nn.Linear(4, 5)

    def forward(self, x, labels, lengths, label_lengths):
        logarithms = self.layer(x).log_softmax(-1)
        operands = (logarithms, labels, lengths, label_lengths)
        if self.by_name:
            attributes = {"reduction": "Sum", "blank": 0}
            examples = [torch.zeros(()), logarithms]
            loss, gradient = poptorch.custom_op(list(operands), "Ctc", "ai.graphcore", 1, examples, attributes)
        else:
            loss = torch.nn.functional.ctc_loss(*operands, reduction="sum")
            gradient = loss
        return poptorch.identity_loss(loss, "none"), gradient


def test_the_loss_of_sequences_by_its_name_trains_as_pytorchs_does():
    x = torch.linspace(-1, 1, 12 * 3 * 4).view(12, 3, 4)
    labels = (
        x,
        torch.tensor([[1, 2, 3, 4], [2, 2, 1, 0], [4, 1, 0, 0]]),
        torch.full((3,), 12),
        torch.tensor([4, 3, 2]),
    )
    weights, losses = [], []
    for by_name in (False, True):
        model = Recognizer(by_name)
        training = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))
        losses.append([training(*labels)[0].item() for _ in range(3)])
        weights.append(model.layer.weight.detach().clone())
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    assert torch.allclose(weights[0], weights[1], rtol=1e-6)
    assert training(*labels)[1].shape == (12, 3, 5)


def test_the_loss_of_sequences_refuses_a_reduction_that_it_has_not():
    with pytest.raises(poptorch.Error, match="reductions Sum, Mean, NoReduction, not 'Most'"):
        poptorch.custom_op([torch.ones(1)] * 4, "Ctc", "ai.graphcore", 1, [torch.ones(1)], {"reduction": "Most"})


def test_a_copied_tensor_is_moved_once_and_its_gradient_is_not():
    class Copied(Remapped):
        def forward(self, x):
            (hidden,) = poptorch.custom_op([self.first(x)], "CopyTensor", "ai.graphcore", 1, [x])
            return poptorch.identity_loss(self.second(hidden).tanh(), "sum")

    model = Copied(None)
    training = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))
    losses = [training(x).item() for x in torch.linspace(-1, 1, 4 * 3 * 16).view(4, 3, 16)]
    assert losses == train(None)[2]
    moves = [op.phase for op in training._compiled.plan.ops if op.op.startswith("aten.clone")]
    assert moves == [Phase.FORWARD]
