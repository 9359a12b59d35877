"""Arguments and results of a function of a micro-batch, bound to the memory of one replica."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from openipu.capture import capture_program
from openipu.graph import EngineMode, GraphInput, GraphOutput, InputKind, OutputKind, RunOptions
from openipu.run import Executable
from openipu.run.bindings import SEED, BoundFunction
from openipu.run.engine.micro import MicroFunction
from openipu.run.memory.device_memory import DeviceMemory


class Counting(nn.Module):
    """Counts its calls, and scales by the count."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x):
        self.count += 1
        return x * self.weight * self.count


X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


def capture():
    return capture_program(Counting(), (X,), {}, training=False, optimizer=None, name="counting")


def argument(kind, name, index=-1):
    return GraphInput(name, kind, name, (2,), torch.float32, index)


def result(kind, name, index=-1):
    return GraphOutput(kind, name, (2,), torch.float32, index)


def bind(arguments, results, replica):
    program = capture()
    memory = DeviceMemory(program, replicas=2)
    function = MicroFunction(lambda *values: values, tuple(arguments), tuple(results), random=False)
    return BoundFunction(function, program, memory, replica), memory


def test_arguments_come_from_a_micro_batch_by_number_or_from_the_buffers_of_their_replica():
    arguments = [
        argument(InputKind.DELAYED, "weight", 3),
        argument(InputKind.SEED, "seed"),
        argument(InputKind.BUFFER, "count"),
        argument(InputKind.INPUT, "x", 0),
        argument(InputKind.DELAYED, "weight", 1),
    ]
    bound, memory = bind(arguments, [], replica=1)
    assert sorted(bound.delayed.values()) == [("weight", 1), ("weight", 3)]
    given = {0: X, SEED: torch.tensor(7)}
    assert given.keys().isdisjoint(bound.delayed)
    late = {number: torch.full((2,), float(delay)) for number, (_, delay) in bound.delayed.items()}
    found = bound.list_arguments(given | late)
    assert found[0].tolist() == [3, 3]
    assert found[1] is given[SEED]
    assert found[2] is memory.buffers[1]["count"]
    assert found[3] is X
    assert found[4].tolist() == [1, 1]


def test_results_go_to_the_buffers_of_their_replica_and_to_the_parameters():
    kinds = [
        result(OutputKind.OUTPUT, "found", 0),
        result(OutputKind.BUFFER, "count"),
        result(OutputKind.PARAMETER, "weight"),
    ]
    bound, memory = bind([], kinds, replica=1)
    bound.write_back([torch.full((2,), float(number)) for number in range(3)])
    assert memory.buffers[0]["count"].tolist() == [0, 0]
    assert memory.buffers[1]["count"].tolist() == [1, 1]
    assert memory.parameters["weight"].tolist() == [2, 2]
    assert [index for index, _ in bound.outputs] == [0]


def test_carried_values_are_written_only_after_an_update():
    bound, memory = bind([], [result(OutputKind.CARRIED, "weight")], replica=0)
    values = [torch.tensor([5.0, 6.0])]
    assert not bound.written
    assert memory.parameters["weight"].tolist() == [0, 0]
    bound.write_carried(values)
    assert memory.parameters["weight"].tolist() == [5, 6]


@pytest.mark.parametrize("device_iterations", [1, 2])
def test_an_engine_that_was_exchanged_works_on_the_same_buffers(device_iterations):
    net = Counting()
    options = RunOptions(engine=EngineMode.OPERATORS, device_iterations=device_iterations)
    executable = Executable(capture(), options)
    executable.load_weights(dict(net.named_parameters()), dict(net.named_buffers()))
    calls = [executable.engine]
    whole = torch.cat([X] * device_iterations)

    def run_and_check():
        expected = torch.cat([net(X) for _ in range(device_iterations)])
        torch.testing.assert_close(executable.run([whole]).outputs[0], expected)

    run_and_check()
    executable._supervisor.rebuild()
    run_and_check()
    calls.append(executable.engine)
    executable.use_reference()
    run_and_check()
    calls.append(executable.engine)
    assert len(set(map(id, calls))) == 3
