"""Random numbers: seeds from the user's stream, or from one of the program's own."""

import torch

from openipu.graph import OutputKind, RunOptions
from openipu.run import Executable

RETURNS = [(OutputKind.OUTPUT, "y")]


def make(build_program, seed, **options):
    program = build_program(lambda x: (torch.bernoulli(x * 0 + 0.5),), inputs={"x": torch.zeros(64)}, returns=RETURNS)
    return Executable(program, RunOptions(random_seed=seed, **options))


def sample(executable, batches=1):
    return executable.run([torch.zeros(64 * batches)]).outputs[0]


def test_equal_seeds_give_equal_numbers_and_the_stream_goes_on(build_program):
    first, second = make(build_program, 7), make(build_program, 7)
    one, two = sample(first), sample(first)
    assert torch.equal(one, sample(second))
    assert torch.equal(two, sample(second))
    assert not torch.equal(one, two)


def test_other_seeds_give_other_numbers(build_program):
    assert not torch.equal(sample(make(build_program, 7)), sample(make(build_program, 8)))


def test_a_seeded_program_leaves_the_global_stream_alone(build_program):
    executable = make(build_program, 7)
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    sample(executable)
    assert torch.equal(torch.rand(3), expected)


def test_without_a_seed_the_global_stream_decides(build_program):
    executable = make(build_program, None)
    torch.manual_seed(3)
    first, second = sample(executable), sample(executable)
    torch.manual_seed(3)
    assert torch.equal(sample(executable), first)
    assert not torch.equal(first, second)


def test_micro_batches_draw_one_after_the_other(build_program):
    whole = sample(make(build_program, 7, device_iterations=2), batches=2)
    single = make(build_program, 7)
    assert torch.equal(whole, torch.cat([sample(single), sample(single)]))


def test_the_position_of_the_stream_can_be_kept_and_restored(build_program):
    executable = make(build_program, 7)
    position = executable.random_state
    first = sample(executable)
    executable.random_state = position
    assert torch.equal(sample(executable), first)


def test_a_program_on_the_global_stream_has_no_position_of_its_own(build_program):
    assert make(build_program, None).random_state is None
