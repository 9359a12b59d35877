"""Stretches that repeat are found wherever they lie, and the shortest period of each."""

from openipu.run.native.repeats import Repeat, find_repeats


def test_equal_layers_between_a_beginning_and_an_end():
    layer = [1, 2, 3, 4]
    assert find_repeats([7, 8, *layer * 3, 9], 4) == [Repeat(2, 4, 3, 0)]


def test_forward_and_backward_are_two_repeats():
    sequence = [9, *[1, 2, 3] * 4, 8, *[4, 5, 6, 7] * 4, 10]
    assert find_repeats(sequence, 4) == [Repeat(1, 3, 4, 0), Repeat(14, 4, 4, 0)]


def test_a_period_that_is_cut_off_leaves_a_choice_of_the_beginning():
    (repeat,) = find_repeats([3, 1, 2, 3, 1, 2, 3], 3)
    assert (repeat.start, repeat.period, repeat.count, repeat.slack) == (0, 3, 2, 1)
    assert repeat.saved == 3


def test_what_saves_too_little_is_left_as_it_is():
    assert find_repeats([1, 2, 1, 2, 5], 3) == []
    assert find_repeats([1, 2, 3, 4, 5], 1) == []
    assert find_repeats([], 1) == []


def test_the_shortest_period_saves_most():
    (repeat,) = find_repeats([1, 2] * 8, 2)
    assert (repeat.period, repeat.count) == (2, 8)
