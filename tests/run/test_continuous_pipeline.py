"""A pipeline that updates after each micro-batch: against a simulation, tick by tick, of stages that take turns."""

import pytest
import torch
from torch import nn

from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters, set_block
from openipu.errors import OptionError
from openipu.graph import RunOptions, Strategy
from openipu.run import Executable

STAGES, BATCHES, WIDTH = 3, 9, 4


class Chain(nn.Module):
    """One layer a stage; the last one has the loss."""

    def __init__(self, convolutions=False):
        super().__init__()
        torch.manual_seed(5)
        make = (lambda: nn.Conv1d(WIDTH, WIDTH, 1)) if convolutions else (lambda: nn.Linear(WIDTH, WIDTH))
        self.layers = nn.ModuleList(make() for _ in range(STAGES))

    def run_stage(self, stage, x):
        y = torch.tanh(self.layers[stage](x))
        return nn.functional.mse_loss(y, torch.ones_like(y)) if stage == STAGES - 1 else y

    def forward(self, x):
        for stage in range(STAGES):
            set_block(f"stage{stage}", stage, stage)
            x = self.run_stage(stage, x)
        return x


def simulate(model, data, rate):
    """Every stage in turn: forward of micro-batch t - s, backward of t - 2 (S - 1) + s, then its update.

    Backward takes the activations that its forward kept, and the weights of its own time.
    """
    optimizers = [torch.optim.SGD(layer.parameters(), lr=rate, momentum=0.9) for layer in model.layers]
    entered = [{} for _ in range(STAGES)]  # micro-batch -> what came in
    kept = [{} for _ in range(STAGES)]  # micro-batch -> activation before tanh, as forward computed it
    gradients = [{} for _ in range(STAGES)]  # micro-batch -> gradient of what a stage returned
    passed = {stage: {} for stage in range(STAGES + 1)}
    passed[0] = dict(enumerate(data))
    losses = {}
    for tick in range(BATCHES + 2 * (STAGES - 1)):
        for stage in range(STAGES):
            batch = tick - stage
            if 0 <= batch < BATCHES:
                with torch.no_grad():
                    x = passed[stage][batch]
                    before = model.layers[stage](x)
                    entered[stage][batch], kept[stage][batch] = x, before
                    passed[stage + 1][batch] = torch.tanh(before)
                if stage == STAGES - 1:
                    y = passed[STAGES][batch].clone().requires_grad_()
                    loss = nn.functional.mse_loss(y, torch.ones_like(y))
                    losses[batch] = loss.item()
                    (gradients[stage][batch],) = torch.autograd.grad(loss, y)
        for stage in range(STAGES):
            batch = tick - 2 * (STAGES - 1) + stage
            if 0 <= batch < BATCHES:
                # Through tanh with the kept activation, then through the layer with its weights of now.
                inner = gradients[stage][batch] * (1 - torch.tanh(kept[stage][batch]) ** 2)
                x = entered[stage][batch].clone().requires_grad_()
                layer = model.layers[stage]
                layer.zero_grad()
                layer(x).backward(inner)
                if stage:
                    gradients[stage - 1][batch] = x.grad
                optimizers[stage].step()
    return [losses[batch] for batch in range(BATCHES)]


def start(model, options, optimizer, example):
    spec = describe_optimizer(optimizer, {id(value): name for name, value in model.named_parameters()})
    program = capture_program(model, (example,), {}, training=True, optimizer=spec, name="chain")
    executable = Executable(program, options)
    executable.load_weights(dict(model.named_parameters()), {})
    executable.set_hyper_parameters(read_hyper_parameters(optimizer, spec))
    return executable


@pytest.mark.parametrize("convolutions", [False, True])
def test_forward_reads_weights_of_earlier_updates_and_backward_those_of_its_time(convolutions):
    model, other = Chain(convolutions), Chain(convolutions)
    generator = torch.Generator().manual_seed(1)
    shape = (BATCHES, 2, WIDTH, 3) if convolutions else (BATCHES, 2, WIDTH)
    data = torch.randn(shape, generator=generator)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    options = RunOptions(training=True, device_iterations=BATCHES, continuous=True)
    executable = start(model, options, optimizer, data[0])
    [losses] = executable.run([data.flatten(0, 1)]).outputs
    expected = simulate(other, data, 0.5)
    torch.testing.assert_close(losses, torch.tensor(expected), atol=1e-5, rtol=1e-5)
    executable.read_weights(dict(model.named_parameters()), {})
    for (name, value), (_, wanted) in zip(model.named_parameters(), other.named_parameters(), strict=True):
        torch.testing.assert_close(value, wanted, atol=1e-5, rtol=1e-5, msg=name)


def test_only_what_the_first_micro_batches_give_is_as_without_a_pipeline():
    data = torch.randn(BATCHES, 2, WIDTH, generator=torch.Generator().manual_seed(1))
    losses = {}
    for continuous in (True, False):
        model = Chain()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        options = RunOptions(training=True, device_iterations=BATCHES, continuous=continuous)
        [losses[continuous]] = start(model, options, optimizer, data[0]).run([data.flatten(0, 1)]).outputs
    assert losses[True][0] == losses[False][0]
    assert not torch.allclose(losses[True][1:], losses[False][1:])


@pytest.mark.parametrize("wrong", [{"gradient_accumulation": 2}, {"training": False}, {"strategy": Strategy.SHARDED}])
def test_it_is_for_pipelined_training_without_accumulation(wrong):
    with pytest.raises(OptionError, match="A continuous pipeline is for training"):
        RunOptions(**{"training": True, "continuous": True, **wrong})
