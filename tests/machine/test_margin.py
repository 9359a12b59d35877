"""How sure a verdict on memory is: a logistic of the logarithm of limit over peak."""

from __future__ import annotations

import math

import pytest

from openipu.machine import estimate_fit_probability
from openipu.machine.margin import MARGIN_SPREAD


def test_at_the_limit_either_is_as_likely():
    assert estimate_fit_probability(600_000, 600_000) == pytest.approx(0.5)


@pytest.mark.parametrize("share", [0.5, 0.9, 1.1, 2.0])
def test_the_odds_grow_with_the_logarithm_of_the_margin(share):
    """Odds are e to the margin in spreads: a tile filled to 0.9 has ln(1 / 0.9) / 0.1 = 1.05 of them, odds of 2.9."""
    probability = estimate_fit_probability(share * 600_000, 600_000)
    assert probability / (1 - probability) == pytest.approx((1 / share) ** (1 / MARGIN_SPREAD))


def test_a_factor_of_margin_is_as_sure_on_either_side():
    assert estimate_fit_probability(100, 125) + estimate_fit_probability(125, 100) == pytest.approx(1.0)


@pytest.mark.parametrize(("peak", "limit", "probability"), [(0, 10, 1.0), (10, 0, 0.0), (0, 0, 0.5)])
def test_nothing_needed_and_nothing_there(peak, limit, probability):
    assert estimate_fit_probability(peak, limit) == probability


def test_a_program_far_too_large_has_a_probability_and_no_overflow():
    assert 0 < estimate_fit_probability(1e300, 1.0) < 1e-12
    assert math.isclose(estimate_fit_probability(1.0, 1e300), 1.0)
