"""Every family of the garden builds, plans at its small size, and trains; some are trained to their quality here."""

from __future__ import annotations

import math

import pytest

from openipu_garden import find_family, list_families
from openipu_garden.family import FrontEnd
from openipu_garden.training import begin_course, train_family

HERE = [family for family in list_families() if family.front_end is not FrontEnd.KERAS]  # see tests/tensorflow


@pytest.mark.parametrize("family", HERE, ids=lambda family: family.name)
def test_a_family_plans_at_its_small_size_and_trains(family):
    course = begin_course(family)
    try:
        plan = course.plan()
        loss = course.advance()
    finally:
        course.close()
    assert plan.fit.fits
    assert plan.timing.samples_per_second > 0
    assert math.isfinite(loss)
    assert course.calls > 1


@pytest.mark.parametrize("family", list_families(), ids=lambda family: family.name)
def test_a_goal_is_far_from_what_guessing_gives(family):
    goal = family.goal
    assert goal.is_reached(goal.bar)
    assert not goal.is_reached(goal.guess)
    assert not goal.is_reached(math.nan)
    far = goal.bar - goal.guess if goal.more_is_better else goal.guess - goal.bar
    assert far >= 0.25 * max(abs(goal.guess), abs(goal.bar))


QUICK = ["sales-forecast", "autoencoder", "rnn-t"]


@pytest.mark.parametrize("name", [*QUICK[:2], pytest.param(QUICK[2], marks=pytest.mark.thorough)])
def test_a_quick_family_reaches_its_quality_and_again_the_same(name):
    family = find_family(name)
    told = []
    outcome = train_family(family, lambda done, calls, loss: told.append((done, calls)))
    assert outcome.reached, outcome.quality
    assert outcome.last_loss < outcome.first_loss
    assert told[-1][0] == told[-1][1] == len(told)
    again = train_family(family)
    assert (again.quality, again.first_loss, again.last_loss) == (
        outcome.quality,
        outcome.first_loss,
        outcome.last_loss,
    )


@pytest.mark.parametrize("name", QUICK)
def test_without_training_the_quality_is_not_reached(name):
    family = find_family(name)
    course = begin_course(family)
    try:
        quality = course.measure()
    finally:
        course.close()
    assert not family.goal.is_reached(quality)
