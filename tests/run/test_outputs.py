"""What a call returns: which micro-batches, in which shape and order."""

import pytest
import torch

from openipu.graph import OutputKind, OutputMode, RunOptions
from openipu.run import Executable

RETURNS = [(OutputKind.OUTPUT, "rows"), (OutputKind.OUTPUT, "total")]


def run(build_program, batches, **options):
    """Rows and their sum, of micro-batches of one row of two numbers: micro-batch k holds [k, k]."""
    program = build_program(lambda x: (x * 1, x.sum()), inputs={"x": torch.zeros(1, 2)}, returns=RETURNS)
    executable = Executable(program, RunOptions(**options))
    whole = torch.arange(float(batches)).view(-1, 1).expand(-1, 2).contiguous()
    return executable.run([whole]).outputs


def test_one_micro_batch_keeps_its_shape_and_a_scalar_stays_one(build_program):
    rows, total = run(build_program, 1)
    assert rows.shape == (1, 2)
    assert total.shape == ()


def test_all_returns_every_micro_batch_in_the_order_of_the_inputs(build_program):
    rows, total = run(build_program, 6, device_iterations=3, replicas=2)
    assert rows[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert total.tolist() == [0, 2, 4, 6, 8, 10]  # two columns each; b = 3 x 2


def test_final_returns_the_last_micro_batch_of_each_replica(build_program):
    rows, total = run(build_program, 6, device_iterations=3, replicas=2, output_mode=OutputMode.FINAL)
    assert rows[:, 0].tolist() == [4, 5]
    assert total.tolist() == [8, 10]


def test_final_with_one_replica_keeps_a_scalar(build_program):
    _, total = run(build_program, 3, device_iterations=3, output_mode=OutputMode.FINAL)
    assert total.shape == ()
    assert total.item() == 4  # the third micro-batch: 2 + 2


def test_every_second_device_iteration(build_program):
    rows, _ = run(build_program, 8, device_iterations=4, replicas=2, output_mode=OutputMode.EVERY_N, output_period=2)
    assert rows[:, 0].tolist() == [2, 3, 6, 7]  # device iterations 1 and 3, both replicas


def test_sum_adds_over_device_iterations_for_each_replica(build_program):
    rows, total = run(build_program, 6, device_iterations=3, replicas=2, output_mode=OutputMode.SUM)
    assert rows[:, 0].tolist() == [0 + 2 + 4, 1 + 3 + 5]
    assert total.tolist() == [12, 18]


def test_host_values_come_back_as_they_were(build_program):
    marker = object()
    program = build_program(
        lambda x: (x + 1,),
        inputs={"x": torch.zeros(1)},
        returns=[(OutputKind.OUTPUT, "y")],
        host_leaves={0: marker, 2: None},
    )
    outputs = Executable(program, RunOptions(device_iterations=2)).run([torch.zeros(2)]).outputs
    assert outputs[0] is marker
    assert outputs[1].tolist() == [1, 1]
    assert outputs[2] is None


@pytest.mark.parametrize("function", [lambda x: (x, x), lambda x: (x.view(-1), x.t()), lambda x: (x[0:1], x[0:1])])
def test_outputs_share_memory_with_nothing(build_program, function):
    program = build_program(
        function, inputs={"x": torch.zeros(2, 2)}, returns=[(OutputKind.OUTPUT, "a"), (OutputKind.OUTPUT, "b")]
    )
    given = torch.ones(2, 2)
    first, second = Executable(program, RunOptions()).run([given]).outputs
    first.fill_(5)
    assert given.eq(1).all()
    assert second.eq(1).all()


def test_outputs_are_plain_tensors_without_gradients(build_program):
    program = build_program(lambda x: (x * 2,), inputs={"x": torch.zeros(2)}, returns=[(OutputKind.OUTPUT, "y")])
    given = torch.ones(2, requires_grad=True)
    (output,) = Executable(program, RunOptions()).run([given]).outputs
    assert not output.requires_grad
    assert not output.is_inference()


def test_an_expanded_output_has_memory_for_each_element(build_program):
    program = build_program(lambda x: (x.expand(3, 2),), inputs={"x": torch.zeros(2)}, returns=RETURNS[:1])
    (rows,) = Executable(program, RunOptions()).run([torch.ones(2)]).outputs
    rows[0, 0] = 7  # would change the whole column, or raise, if rows shared memory
    assert rows[:, 0].tolist() == [7, 1, 1]
