"""Where single entries of sequences lie in tensors, and how they follow views."""

from __future__ import annotations

import math

import pytest
import torch

from openipu.run.rewrites.pruning.axes import Axis, find_entry, find_slice, follow_order, follow_view

SHAPE = (4, 6, 5)
VIEWS = [
    ((24, 5), Axis(0, 4, 6, 2)),
    ((2, 12, 5), Axis(1, 2, 6, 2)),
    ((4, 1, 6, 5), Axis(2, 1, 6, 2)),
    ((4, 6, 1, 5), Axis(1, 1, 6, 2)),
    ((4, 30), None),  # the entry is five neighbours of thirty
    ((4, 2, 3, 5), None),  # of two dimensions
    ((120,), None),
]


def take(value: torch.Tensor, axis: Axis) -> torch.Tensor:
    """The narrow form, entry by entry."""
    entries = [repeat * axis.size + axis.index for repeat in range(axis.repeats)]
    return value.index_select(axis.dim, torch.tensor(entries))


@pytest.mark.parametrize(("shape", "expected"), VIEWS, ids=str)
def test_a_view_is_followed_where_the_entry_stays_in_one_dimension(shape, expected):
    assert follow_view(Axis(1, 1, 6, 2), SHAPE, shape) == expected


@pytest.mark.parametrize(("shape", "axis"), [view for view in VIEWS if view[1]], ids=str)
def test_the_narrow_form_of_a_view_is_a_view_of_the_narrow_form(shape, axis):
    value = torch.arange(math.prod(SHAPE)).view(SHAPE)
    narrow = take(value, Axis(1, 1, 6, 2))
    assert axis.fits(shape)
    assert torch.equal(take(value.view(shape), axis), narrow.reshape(axis.narrow(shape)))
    assert follow_view(axis, shape, SHAPE) == Axis(1, 1, 6, 2)


def test_sizes_that_are_equal_are_told_apart_by_their_place():
    assert follow_view(Axis(1, 1, 6, 2), (6, 6, 6), (36, 6)) == Axis(0, 6, 6, 2)
    assert follow_view(Axis(0, 1, 6, 2), (6, 6, 6), (36, 6)) is None
    assert follow_view(Axis(0, 1, 6, 2), (6, 6, 6), (6, 36)) == Axis(0, 1, 6, 2)


def test_an_order_of_dimensions_is_followed():
    assert follow_order(Axis(1, 1, 6, 2), (0, 2, 1)) == Axis(2, 1, 6, 2)


@pytest.mark.parametrize(
    ("slices", "index"),
    [((0, 1, 1), 0), ((-1, None, 1), 5), ((5, 99, 1), 5), ((2, 6, 4), 2), ((0, 2, 1), None), ((3, 3, 1), None)],
)
def test_a_slice_counts_if_it_has_one_entry(slices, index):
    assert find_slice(SHAPE, -2, *slices) == (None if index is None else Axis(1, 1, 6, index))


def test_a_dimension_of_one_entry_has_nothing_to_spare():
    assert find_entry((4, 1, 5), 1, 0) is None
    assert find_entry(SHAPE, 1, -1) == Axis(1, 1, 6, 5)
