"""The `popart` package: enumerations with the original's numbers, and a clear answer for everything else."""

from __future__ import annotations

import copy
import pickle
from enum import EnumType

import pytest

import popart
import poptorch
from openipu.graph import Recompute
from poptorch.options._translate import build_run_options

ENUMERATIONS = [found for found in (getattr(popart, name) for name in popart.__all__) if isinstance(found, EnumType)]


def test_members_are_the_numbers_that_options_take():
    assert int(popart.AccumulateOuterFragmentSchedule.OverlapMemoryOptimized) == 3
    assert int(popart.SubgraphCopyingStrategy.JustInTime) == 1
    assert int(popart.SyntheticDataMode.RandomNormal) == 2
    assert [int(member) for member in popart.MergeVarUpdateType] == [0, 1, 2, 3]
    assert popart.MergeVarUpdateType.AutoTight == 3  # declared after AutoLoose, bound before it
    assert popart.DataType.FLOAT16 == 12
    assert popart.CommGroupType.Ungrouped == 3


@pytest.mark.parametrize("enumeration", ENUMERATIONS, ids=lambda each: each.__name__)
def test_every_enumeration_counts_from_zero_without_gaps(enumeration):
    assert sorted(map(int, enumeration)) == list(range(len(enumeration)))


def test_older_names_mean_the_same_member():
    context = popart.BatchSerializationTransformContext
    assert context.Forward is context.Fwd
    assert context.Backward is context.Bwd


def test_members_print_their_names_and_survive_copies():
    mode = popart.VirtualGraphMode.Manual
    assert str(mode) == f"{mode}" == "VirtualGraphMode.Manual"
    assert f"{mode:>24}" == "VirtualGraphMode.Manual".rjust(24)
    assert pickle.loads(pickle.dumps(mode)) is copy.deepcopy(mode) is mode


@pytest.mark.parametrize("name", ["CommGroupType", "ReductionType", "SyncPattern"])
def test_names_that_poptorch_has_as_well_are_the_same_numbers(name):
    ours, theirs = getattr(popart, name), getattr(poptorch, name)
    shared = ours.__members__.keys() & theirs.__members__.keys()
    assert len(shared) >= 3
    assert {member: int(ours[member]) for member in shared} == {member: int(theirs[member]) for member in shared}


@pytest.mark.parametrize(
    ("member", "chosen"),
    [
        (popart.RecomputationType.NoRecompute, Recompute.NONE),
        (popart.RecomputationType.Standard, Recompute.STANDARD),
        (popart.RecomputationType.NormOnly, Recompute.NORM_ONLY),
        (popart.RecomputationType.Pipeline, Recompute.PIPELINE),
        (popart.RecomputationType.RecomputeAll, Recompute.ALL),
    ],
)
def test_poptorch_options_take_a_member_as_it_is(member, chosen):
    options = poptorch.Options()
    options._Popart.set("autoRecomputation", member)
    assert build_run_options(options, training=True).recompute is chosen


def test_what_is_not_there_says_so():
    with pytest.raises(AttributeError, match="module 'popart' has no attribute 'AnythingElse'"):
        _ = popart.AnythingElse
    with pytest.raises(AttributeError, match=r"DotCheck.*PopART removed it in 2\.4"):
        _ = popart.DotCheck
