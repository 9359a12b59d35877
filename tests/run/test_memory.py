"""Device memory is the executable's own."""

import pytest
import torch
from torch import nn

from openipu.errors import InputError, OptionError
from openipu.graph import OutputKind, RunOptions
from openipu.run import Executable

COUNTING = [(OutputKind.OUTPUT, "y"), (OutputKind.BUFFER, "count")]


@pytest.fixture
def counting(build_program):
    """y = x + count; count grows by the input: written in every micro-batch."""
    return build_program(
        lambda count, x: (x + count, count + x),
        buffers={"count": torch.zeros(1)},
        inputs={"x": torch.zeros(1)},
        returns=COUNTING,
    )


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0]))

    def forward(self, x, y):
        return nn.functional.mse_loss(self.weight * x, y)


def test_later_edits_on_the_host_are_not_seen(build_program):
    program = build_program(
        lambda w, x: (w * x,), parameters={"w": torch.zeros(1)}, inputs={"x": torch.zeros(1)}, returns=COUNTING[:1]
    )
    executable = Executable(program, RunOptions())
    weight = torch.tensor([3.0])
    executable.load_weights({"w": weight}, {})
    weight.fill_(100)
    assert executable.run([torch.ones(1)]).outputs[0].item() == 3
    executable.read_weights({"w": weight}, {})
    assert weight.item() == 3


def test_buffers_change_in_every_micro_batch_and_last_from_run_to_run(counting):
    executable = Executable(counting, RunOptions(device_iterations=3))
    executable.load_weights({}, {"count": torch.zeros(1)})
    assert executable.run([torch.ones(3)]).outputs[0].tolist() == [1, 2, 3]
    assert executable.run([torch.ones(3)]).outputs[0].tolist() == [4, 5, 6]
    host = torch.zeros(1)
    executable.read_weights({}, {"count": host})
    assert host.item() == 6


def test_each_replica_keeps_its_own_buffers_and_the_host_reads_the_first(counting):
    executable = Executable(counting, RunOptions(device_iterations=2, replicas=2, broadcast_buffers=False))
    executable.load_weights({}, {"count": torch.zeros(1)})
    # replica 0 sees 1 and 1, replica 1 sees 10 and 10
    assert executable.run([torch.tensor([1.0, 10.0, 1.0, 10.0])]).outputs[0].tolist() == [1, 10, 2, 20]
    host = torch.zeros(1)
    executable.read_weights({}, {"count": host})
    assert host.item() == 2


def test_written_buffers_cannot_be_broadcast(counting):
    with pytest.raises(OptionError, match=r"buffer count.*cannot be broadcast.*broadcast_buffers"):
        Executable(counting, RunOptions(replicas=2))


def test_buffers_that_are_only_read_may_be_broadcast(build_program):
    program = build_program(
        lambda b, x: (x + b,), buffers={"b": torch.ones(1)}, inputs={"x": torch.zeros(1)}, returns=COUNTING[:1]
    )
    executable = Executable(program, RunOptions(replicas=2))
    executable.load_weights({}, {"b": torch.ones(1)})
    assert executable.run([torch.zeros(2)]).outputs[0].tolist() == [1, 1]


def test_swapped_buffers_do_not_overwrite_each_other(build_program):
    program = build_program(
        lambda a, b, x: (x + a, b, a),
        buffers={"a": torch.zeros(1), "b": torch.zeros(1)},
        inputs={"x": torch.zeros(1)},
        returns=[(OutputKind.OUTPUT, "y"), (OutputKind.BUFFER, "a"), (OutputKind.BUFFER, "b")],
    )
    executable = Executable(program, RunOptions(device_iterations=3))
    executable.load_weights({}, {"a": torch.tensor([1.0]), "b": torch.tensor([2.0])})
    assert executable.run([torch.zeros(3)]).outputs[0].tolist() == [1, 2, 1]


def test_inputs_that_forward_writes_to_come_back_for_the_whole_call(build_program):
    program = build_program(
        lambda x: (x * 2, x + 1),
        inputs={"x": torch.zeros(1)},
        returns=[(OutputKind.OUTPUT, "y"), (OutputKind.INPUT, "x")],
    )
    given = torch.tensor([1.0, 2.0])
    result = Executable(program, RunOptions(device_iterations=2)).run([given])
    assert result.changed_inputs[0].tolist() == [2, 3]
    assert given.tolist() == [1, 2]  # the front end decides what to do with the new value


def test_running_without_weights_is_refused(counting):
    with pytest.raises(InputError, match="load_weights"):
        Executable(counting, RunOptions()).run([torch.ones(1)])


def test_too_few_inputs_are_refused(counting):
    executable = Executable(counting, RunOptions())
    executable.load_weights({}, {"count": torch.zeros(1)})
    with pytest.raises(InputError, match="at least 1 inputs and got 0"):
        executable.run([])


def test_a_missing_weight_is_named(counting):
    with pytest.raises(InputError, match="'count'"):
        Executable(counting, RunOptions()).load_weights({}, {})


def test_a_weight_of_another_shape_is_refused(counting):
    with pytest.raises(InputError, match=r"\(3,\).*\(1,\)"):
        Executable(counting, RunOptions()).load_weights({}, {"count": torch.zeros(3)})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "needs parameter 'b'"),
        ({"b": torch.zeros(2)}, "has shape"),
        ({"b": torch.zeros(1, device="meta")}, "on the meta device"),
        ({"b": torch.zeros(1).to_sparse()}, "to_dense"),
    ],
)
def test_weights_that_cannot_all_be_loaded_change_none(build_program, wrong, message):
    program = build_program(
        lambda a, b, count, x: (a + b + count + x,),
        parameters={"a": torch.zeros(1), "b": torch.zeros(1)},
        buffers={"count": torch.zeros(1)},
        inputs={"x": torch.zeros(1)},
        returns=COUNTING[:1],
    )
    executable = Executable(program, RunOptions())
    executable.load_weights({"a": torch.ones(1), "b": torch.ones(1)}, {"count": torch.ones(1)})
    with pytest.raises(InputError, match=message):
        executable.load_weights({"a": torch.full((1,), 100.0), **wrong}, {"count": torch.full((1,), 100.0)})
    assert executable.run([torch.zeros(1)]).outputs[0].item() == 3
    host = {"a": torch.zeros(1), **wrong}
    with pytest.raises(InputError, match=message):
        executable.read_weights(host, {"count": torch.zeros(1)})
    assert host["a"].item() == 0


def test_a_buffer_that_cannot_be_loaded_leaves_the_weights_as_they_were(build_program):
    program = build_program(
        lambda a, count, x: (a + count + x,),
        parameters={"a": torch.zeros(1)},
        buffers={"count": torch.zeros(1)},
        inputs={"x": torch.zeros(1)},
        returns=COUNTING[:1],
    )
    executable = Executable(program, RunOptions())
    executable.load_weights({"a": torch.ones(1)}, {"count": torch.ones(1)})
    with pytest.raises(InputError, match="buffer 'count'"):
        executable.load_weights({"a": torch.full((1,), 100.0)}, {"count": torch.zeros(7)})
    assert executable.run([torch.zeros(1)]).outputs[0].item() == 2


def test_training_options_need_a_training_program(counting):
    with pytest.raises(OptionError, match="captured for inference"):
        Executable(counting, RunOptions(training=True))


def test_hyper_parameters_must_be_known_and_complete(start_training):
    model = Scale()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    options = RunOptions(training=True)
    executable = start_training(model, optimizer, (torch.ones(1), torch.ones(1)), options).executable
    with pytest.raises(OptionError, match=r"missing: momentum\.0"):
        executable.set_hyper_parameters({"lr.0": 0.1})
    with pytest.raises(OptionError, match=r"unknown: speed\.0"):
        executable.set_hyper_parameters({"lr.0": 0.1, "momentum.0": 0.5, "speed.0": 1.0})


def test_a_program_without_hyper_parameters_set_is_refused(start_training):
    model = Scale()
    leaves = (torch.ones(1), torch.ones(1))
    options = RunOptions(training=True)
    trained = start_training(model, torch.optim.SGD(model.parameters(), lr=0.1), leaves, options)
    executable = Executable(trained.executable.program, options)
    executable.load_weights(dict(model.named_parameters()), {})
    with pytest.raises(OptionError, match="set_hyper_parameters"):
        executable.run(leaves)


def test_a_new_learning_rate_takes_effect_in_the_next_run(start_training):
    model = Scale()  # weight 2, x 1, y 0: the loss is w², its gradient 2 w
    leaves = (torch.ones(1), torch.zeros(1))
    trained = start_training(model, torch.optim.SGD(model.parameters(), lr=0.1), leaves, RunOptions(training=True))
    trained.executable.run(leaves)
    assert trained.read_weights()["weight"].item() == pytest.approx(2 - 0.1 * 4)  # 1.6
    trained.executable.set_hyper_parameters({"lr.0": 0.5})
    trained.executable.run(leaves)
    assert trained.read_weights()["weight"].item() == pytest.approx(1.6 - 0.5 * 3.2)
