"""Parameters with the same update are found without touching the graph, however many there are."""

import pytest
import torch
from torch import nn
from torch.optim import SGD, AdamW

from openipu.capture import capture_program, describe_optimizer
from openipu.run.update.groups import group_alike
from openipu.run.update.rules import plan_update


class Tower(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(4, 4) for _ in range(layers)))
        self.last = nn.Linear(4, 2)

    def forward(self, x, y):
        return nn.functional.mse_loss(self.last(self.layers(x)), y)


def capture(make_optimizer, layers=2, **extra):
    model = Tower(layers)
    optimizer = make_optimizer(model)
    spec = describe_optimizer(optimizer, {id(value): name for name, value in model.named_parameters()})
    for name, value in extra.items():
        object.__setattr__(spec, name, value)
    batch = (torch.rand(3, 4), torch.rand(3, 2))
    return capture_program(model, batch, {}, training=True, optimizer=spec, name="tower"), model


def make_adam(model):
    return AdamW(model.parameters(), 1e-3)


def make_two_groups(model):
    return SGD(
        [{"params": model.layers.parameters(), "lr": 0.1}, {"params": model.last.parameters(), "lr": 0.2}], momentum=0.9
    )


def test_parameters_of_all_shapes_share_a_rule():
    program, model = capture(make_adam)
    assert group_alike(program.update, program.state_slots) == [tuple(dict(model.named_parameters()))]


def test_other_hyper_parameters_are_another_group():
    program, _ = capture(make_two_groups)
    first, second = group_alike(program.update, program.state_slots)
    assert all(name.startswith("layers.") for name in first)
    assert second == ("last.weight", "last.bias")


@pytest.mark.parametrize("make_optimizer", [make_adam, make_two_groups])
def test_groups_are_the_families_of_the_plan(make_optimizer):
    program, _ = capture(make_optimizer)
    families = [family.parameters for family in plan_update(program).families]
    assert families == group_alike(program.update, program.state_slots)


@pytest.mark.parametrize("make_optimizer", [make_adam, make_two_groups])
def test_the_plan_holds_one_update_of_each_family_however_many_layers_there_are(make_optimizer):
    sizes = {
        layers: len(
            [
                node
                for node in plan_update(capture(make_optimizer, layers)[0]).draft.graph.nodes
                if node.op == "call_function"
            ]
        )
        for layers in (2, 12)
    }
    assert sizes[2] == sizes[12]


def test_a_norm_over_all_gradients_is_shared_and_stays_in_the_plan():
    program, model = capture(make_adam, max_grad_norm=1.0)
    assert group_alike(program.update, program.state_slots) == [tuple(dict(model.named_parameters()))]
    plan = plan_update(program)
    gradients = [entry.name for entry in plan.draft.inputs if entry.kind == "gradient"]
    assert sorted(gradients) == sorted(dict(model.named_parameters()))


def test_the_captured_graph_is_left_as_it_was():
    program, _ = capture(make_adam)
    before = str(program.update.module.graph)
    plan_update(program)
    assert str(program.update.module.graph) == before
