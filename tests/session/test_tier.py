"""Which tier executes a program: the command line's word, the environment's, the options'."""

import pytest

from openipu.errors import OptionError
from openipu.graph import RunOptions, Tier
from openipu.overrides import Overrides, set_overrides
from openipu.session import TIER_VARIABLE, choose_tier


@pytest.fixture(autouse=True)
def _nobody_wishes(monkeypatch):
    monkeypatch.delenv(TIER_VARIABLE, raising=False)
    before = set_overrides(Overrides())
    yield
    set_overrides(before)


def test_options_decide_when_nobody_wishes():
    assert choose_tier(RunOptions()).tier is Tier.AUTO
    assert choose_tier(RunOptions(tier=Tier.INSTANT)).tier is Tier.INSTANT


def test_the_environment_decides_over_options_and_the_command_line_over_both(monkeypatch):
    monkeypatch.setenv(TIER_VARIABLE, "compiled")
    assert choose_tier(RunOptions()).tier is Tier.COMPILED
    set_overrides(Overrides(tier="instant"))
    assert choose_tier(RunOptions(tier=Tier.COMPILED)).tier is Tier.INSTANT


def test_an_unknown_tier_is_refused_with_those_there_are(monkeypatch):
    monkeypatch.setenv(TIER_VARIABLE, "fast")
    with pytest.raises(OptionError, match=r"'fast' is unknown.*auto or instant or compiled"):
        choose_tier(RunOptions())
