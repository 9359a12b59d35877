"""A recurrent layer is planned as one op forward and one backward, with what it keeps in between."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from openipu.plan import Plan

STEPS, BATCH, FEATURES, HIDDEN = 64, 16, 128, 256
PlanMaker = Callable[..., Plan]


class Classifier(nn.Module):
    """A recurrent layer, and a linear one on its last step."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(HIDDEN, 16)

    def forward(self, sequences: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.head(self.layer(sequences)[0][:, -1])
        return logits, functional.cross_entropy(logits, labels)


def plan_layer(make_plan: PlanMaker, layer: nn.RNNBase) -> Plan:
    model = Classifier(layer)
    inputs = (torch.randn(BATCH, STEPS, FEATURES), torch.randint(16, (BATCH,)))
    return make_plan(model, inputs, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize(("name", "make"), [("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn", nn.RNN)])
def test_a_layer_is_two_ops_and_most_of_the_time(
    make_plan: PlanMaker, name: str, make: Callable[..., nn.RNNBase]
) -> None:
    plan = plan_layer(make_plan, make(FEATURES, HIDDEN, batch_first=True))
    layers = [op for op in plan.ops if op.op.startswith("openipu.")]
    assert [op.op for op in layers] == [f"openipu.{name}_layer.default", f"openipu.{name}_layer_backward.default"]
    assert sum(op.cycles for op in layers) > 0.7 * plan.timing.micro_cycles
    assert plan.fit.fits


def test_gates_and_cells_live_from_forward_to_backward(make_plan: PlanMaker) -> None:
    plan = plan_layer(make_plan, nn.LSTM(FEATURES, HIDDEN, batch_first=True))
    forward, backward = (op.index for op in plan.ops if op.op.startswith("openipu.lstm_layer"))
    kept = [variable for variable in plan.variables if variable.op == forward and "scratch" not in variable.name]
    gates, *others = sorted(kept, key=lambda variable: -variable.mapping.total_bytes)
    assert gates.shape == (STEPS, BATCH, 4 * HIDDEN)
    assert gates.mapping.total_bytes == STEPS * BATCH * 4 * HIDDEN * 4
    read = [step.index for step in plan.steps if step.op == backward]
    assert gates.last_step == max(read)
    # the output, the cells and the last of each
    assert sum(variable.mapping.total_bytes for variable in others) == (2 * STEPS + 2) * BATCH * HIDDEN * 4


def test_an_lstm_step_needs_fewer_phases_than_its_unrolled_ops(make_plan: PlanMaker) -> None:
    class Unrolled(nn.Module):
        """The same maths, one cell at a time."""

        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTMCell(FEATURES, HIDDEN)

        def forward(self, sequences: torch.Tensor) -> torch.Tensor:
            state = (sequences.new_zeros(BATCH, HIDDEN), sequences.new_zeros(BATCH, HIDDEN))
            for step in sequences.unbind():
                state = self.cell(step, state)
            return state[0]

    sequences = torch.randn(8, BATCH, FEATURES)
    unrolled = make_plan(Unrolled(), (sequences,))
    layer = make_plan(nn.LSTM(FEATURES, HIDDEN), (sequences,))
    assert sum(op.cycles for op in layer.ops) < 0.7 * sum(op.cycles for op in unrolled.ops)
