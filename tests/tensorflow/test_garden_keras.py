"""Families of the garden that are written in Keras: they plan at their small size, train, and are judged."""

from __future__ import annotations

import pytest

from openipu_garden import list_families
from openipu_garden.family import FrontEnd
from openipu_garden.training import begin_course

FAMILIES = [family for family in list_families() if family.front_end is FrontEnd.KERAS]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_in_keras_plans_trains_and_is_judged(family):
    course = begin_course(family)
    try:
        plan = course.plan()
        losses = [course.advance() for _ in range(6)]
        quality = course.measure()
    finally:
        course.close()
    assert plan.fit.fits
    assert plan.options.training
    assert losses[-1] < losses[0]
    assert 0 <= quality <= 1
