"""A call of one micro-batch gives what the loop over micro-batches gives, for inference and training."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from openipu.capture import capture_program
from openipu.errors import InputError
from openipu.graph import EngineMode, OutputMode, Program, RunOptions, Tap
from openipu.run import Executable
from openipu.run.loop import runs_alone


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)
        self.linear = nn.Linear(8, 3)

    def forward(self, tokens, scale):
        found = self.linear(self.drop(self.norm(self.embed(tokens) * scale)))
        return found, found.argmax(-1)


TOKENS, SCALE = torch.tensor([1, 5, 3, 6]), torch.randn(4, 8)


def _capture(net: nn.Module, *inputs: torch.Tensor) -> Program:
    return capture_program(net, inputs, {}, training=False, optimizer=None, name="net")


def make_executable(*, training: bool, long_way: bool, deterministic: bool = False) -> tuple[Executable, nn.Module]:
    torch.manual_seed(0)
    net = Net().train(training)
    options = RunOptions(engine=EngineMode.OPERATORS, random_seed=3, deterministic=deterministic)
    executable = Executable(_capture(net, TOKENS, SCALE), options)
    executable.load_weights(dict(net.named_parameters()), dict(net.named_buffers()))
    assert executable._loop._single
    assert executable._reader._single
    if long_way:
        executable._loop._single = executable._reader._single = False
    return executable, net


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("deterministic", [False, True], ids=["", "deterministic"])
def test_both_ways_give_the_same_results_and_leave_the_same_memory(training, deterministic):
    found = []
    for long_way in (False, True):
        executable, net = make_executable(training=training, long_way=long_way, deterministic=deterministic)
        outputs = [executable.run([TOKENS, SCALE]).outputs for _ in range(3)]
        executable.read_weights(dict(net.named_parameters()), dict(net.named_buffers()))
        found.append((outputs, copy.deepcopy(net.state_dict()), executable.rng_state))
    torch.testing.assert_close(found[0][:2], found[1][:2], rtol=0, atol=0)
    assert found[0][2] == found[1][2]


def test_whole_numbers_are_narrowed_to_what_a_device_holds():
    for long_way in (False, True):
        executable, _ = make_executable(training=False, long_way=long_way)
        expected = executable.run([TOKENS, SCALE]).outputs
        torch.testing.assert_close(executable.run([TOKENS + (1 << 32), SCALE]).outputs, expected)


@pytest.mark.parametrize(
    "scale", [SCALE.double(), SCALE.clone().requires_grad_(), nn.Parameter(SCALE)], ids=["double", "graph", "parameter"]
)
def test_inputs_are_converted_and_leave_their_graph(scale):
    for long_way in (False, True):
        executable, _ = make_executable(training=False, long_way=long_way)
        expected = executable.run([TOKENS, SCALE]).outputs
        found = executable.run([TOKENS, scale]).outputs
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        assert not found[0].requires_grad


def test_a_stream_of_one_micro_batch_gives_what_a_call_gives():
    class Stream:
        def take(self, first, count):
            assert (first, count) == (0, 1)
            return [TOKENS, SCALE]

    executable, _ = make_executable(training=False, long_way=False)
    expected = executable.run([TOKENS, SCALE]).outputs
    torch.testing.assert_close(executable.stream(Stream()).outputs, expected, rtol=0, atol=0)


def test_a_graph_of_the_caller_is_not_recorded_and_goes_on():
    executable, _ = make_executable(training=False, long_way=False)
    assert torch.is_grad_enabled()
    found = executable.run([TOKENS, SCALE]).outputs[0]
    assert not found.requires_grad
    assert torch.is_grad_enabled()
    with torch.no_grad():
        executable.run([TOKENS, SCALE])
        assert not torch.is_grad_enabled()


@pytest.mark.parametrize(
    "leaves", [[TOKENS], [TOKENS, SCALE[:2]], [TOKENS, SCALE.int()], [TOKENS, 3.0]], ids=["few", "shape", "type", "no"]
)
def test_wrong_inputs_are_refused_in_the_words_of_the_long_way(leaves):
    words = []
    for long_way in (False, True):
        executable, _ = make_executable(training=False, long_way=long_way)
        with pytest.raises(InputError) as caught:
            executable.run(leaves)
        words.append(str(caught.value))
    assert words[0] == words[1]


def test_an_error_of_the_function_leaves_gradients_as_they_were():
    executable, _ = make_executable(training=False, long_way=False)
    with pytest.raises(IndexError):
        executable.run([TOKENS + 7, SCALE])
    assert torch.is_grad_enabled()
    executable.run([TOKENS, SCALE])


@pytest.mark.parametrize(
    "changes",
    [
        {"device_iterations": 2},
        {"replicas": 2},
        {"output_mode": OutputMode.EVERY_N, "output_period": 2, "device_iterations": 2},
        {"instances": 2},
    ],
)
def test_calls_of_several_micro_batches_or_instances_take_the_long_way(changes):
    assert runs_alone(RunOptions())
    assert not runs_alone(RunOptions(**changes))


@pytest.mark.parametrize("mode", list(OutputMode))
def test_every_output_mode_brings_the_only_micro_batch_back(mode):
    options, x = RunOptions(engine=EngineMode.OPERATORS, output_mode=mode), torch.randn(4, 3)
    net = nn.Linear(3, 2)
    found = []
    for long_way in (False, True):
        executable = Executable(_capture(net, x), options)
        executable.load_weights(dict(net.named_parameters()), {})
        executable._loop._single = not long_way
        result = executable.run([x])
        found.append(([*result.outputs], [times.stored for times in result.times]))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=0, atol=0)
    assert found[0][1] == found[1][1] == [True]


def test_taps_take_the_long_way():
    net, x = nn.Linear(3, 2), torch.randn(4, 3)
    executable = Executable(_capture(net, x), RunOptions(engine=EngineMode.OPERATORS, taps=(Tap("input", "input"),)))
    executable.load_weights(dict(net.named_parameters()), {})
    torch.testing.assert_close(executable.run([x]).taps["input"], x)


def test_transposed_weights_are_views_that_are_made_once_and_see_new_weights():
    torch.manual_seed(0)
    net = nn.Linear(3, 2)
    options, x = RunOptions(engine=EngineMode.OPERATORS), torch.randn(4, 3)
    executable = Executable(_capture(net, x), options)
    call = executable._supervisor.start().function_of(0).call
    assert "t" not in call.__code__.co_names
    for _ in range(2):
        nn.init.normal_(net.weight)
        executable.load_weights(dict(net.named_parameters()), {})
        torch.testing.assert_close(executable.run([x]).outputs[0], net(x))
