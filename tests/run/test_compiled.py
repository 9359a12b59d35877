"""The compiled tier gives the results of the instant one, and steps back to it where it cannot compile."""

import pytest
import torch
from torch import nn

from openipu.graph import OutputKind, RunOptions, Tier
from openipu.run import Executable, compiled


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        # No bias before the norm: its true gradient is zero, and Adam would blow up the rounding that is left of it.
        self.first, self.norm, self.second = nn.Linear(6, 16, bias=False), nn.BatchNorm1d(16), nn.Linear(16, 3)

    def forward(self, x, labels):
        return nn.functional.cross_entropy(self.second(self.norm(self.first(x)).relu()), labels)


def make_data(count):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 6, generator=generator), torch.randint(0, 3, (count,), generator=generator)


def train(start_training, tier, **options):
    torch.manual_seed(0)
    model = Net()
    settings = RunOptions(training=True, tier=tier, **options)
    leaves = make_data(4 * settings.micro_batches)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    trained = start_training(model, optimizer, leaves, settings)
    losses = [trained.executable.run(leaves).outputs[0] for _ in range(4)]
    return trained, torch.stack(losses)


@pytest.mark.slow
@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_compiled_step_equals_an_instant_one(start_training, accumulation):
    instant, expected = train(start_training, Tier.INSTANT, device_iterations=2, gradient_accumulation=accumulation)
    other, losses = train(start_training, Tier.COMPILED, device_iterations=2, gradient_accumulation=accumulation)
    assert other.executable.tier is Tier.COMPILED
    torch.testing.assert_close(losses, expected, atol=1e-5, rtol=1e-5)
    step = other.executable.state["step:first.weight"]
    assert step.item() == instant.executable.state["step:first.weight"].item() == 8  # 4 runs x 2 device iterations
    weights = instant.read_weights()
    for name, value in other.read_weights().items():
        torch.testing.assert_close(value, weights[name], atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_compiled_inference_keeps_buffers_and_can_be_prepared(build_program):
    program = build_program(
        lambda count, x: (x + count, count + 1),
        buffers={"count": torch.zeros(1)},
        inputs={"x": torch.zeros(1)},
        returns=[(OutputKind.OUTPUT, "y"), (OutputKind.BUFFER, "count")],
    )
    executable = Executable(program, RunOptions(device_iterations=3, tier=Tier.COMPILED))
    executable.load_weights({}, {"count": torch.zeros(1)})
    assert executable.compile() is Tier.COMPILED
    assert executable.run([torch.zeros(3)]).outputs[0].tolist() == [0, 1, 2]


def test_what_cannot_be_compiled_runs_in_the_instant_tier_with_one_warning(start_training, monkeypatch):
    def fail(*_):
        raise RuntimeError("no compiler found\nlong details")

    monkeypatch.setattr(compiled, "_compile", fail)
    with pytest.warns(UserWarning, match=r"Net could not be compiled.*RuntimeError: no compiler found\)") as caught:
        trained, losses = train(start_training, Tier.COMPILED)
    assert len(caught) == 1
    assert trained.executable.tier is Tier.INSTANT
    _, expected = train(start_training, Tier.INSTANT)
    assert torch.equal(losses, expected)
