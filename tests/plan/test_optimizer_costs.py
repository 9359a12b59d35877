"""What the update of each optimizer costs: its state on the tiles, and cycles of element-wise steps over it."""

import pytest
import torch
from torch import nn

from openipu.capture import describe_groups
from openipu.graph import ClipGroup, OptimizerKind, OptimizerSpec, Phase, RunOptions
from openipu.machine import resolve_system
from openipu.plan import VariableKind
from openipu.session import plan_model

WIDTH = 256
PARAMETERS = WIDTH * WIDTH
BASE = {"lr": 0.1, "eps": 1e-6}
SETTINGS = {  # kind -> settings, copies of the weights that are state, counts of steps
    OptimizerKind.SGD: ({**BASE, "momentum": 0.9, "weight_decay": 0.1, "ahead": True, "always_dampened": True}, 1, 0),
    OptimizerKind.ADAMAX: ({**BASE, "betas": (0.9, 0.99)}, 2, 1),
    OptimizerKind.ADAGRAD: (BASE, 1, 0),
    OptimizerKind.ADADELTA: ({**BASE, "alpha": 0.9}, 2, 0),
    OptimizerKind.RMSPROP: ({**BASE, "alpha": 0.9, "centered": True, "momentum": 0.5, "use_tf_variant": True}, 3, 0),
    OptimizerKind.LAMB: ({**BASE, "betas": (0.9, 0.99), "max_weight_norm": 10.0, "l2_penalty": True}, 2, 1),
}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return nn.functional.mse_loss(self.layer(x), x)


def make_plan(kind, settings, **changes):
    spec = OptimizerSpec(kind, describe_groups(kind, [["layer.weight"]], [settings]), **changes)
    system = resolve_system("bow-2000")
    return plan_model(
        Net(), (torch.zeros(8, WIDTH),), options=RunOptions(training=True), optimizer=spec, system=system
    )[1]


@pytest.mark.parametrize("kind", SETTINGS)
def test_state_is_as_large_as_its_slots_and_the_update_takes_cycles(kind):
    settings, copies, counts = SETTINGS[kind]
    plan = make_plan(kind, settings)
    state = sum(variable.bytes for variable in plan.variables if variable.kind is VariableKind.STATE)
    assert state == 4 * (copies * PARAMETERS + counts)
    assert not plan.warnings
    plain = make_plan(OptimizerKind.SGD, {"lr": 0.1})
    assert plan.timing.update_cycles > plain.timing.update_cycles


def test_clipping_adds_the_norm_of_the_gradients_to_an_update():
    plain = make_plan(OptimizerKind.SGD, {"lr": 0.1})
    clipped = make_plan(OptimizerKind.SGD, {"lr": 0.1}, clip_groups=(ClipGroup(1.0),))
    norms = [op for op in clipped.ops if "vector_norm" in op.op and op.phase is Phase.UPDATE]
    assert len(norms) == 2  # of the one gradient, and of all norms
    assert clipped.timing.update_cycles > plain.timing.update_cycles
