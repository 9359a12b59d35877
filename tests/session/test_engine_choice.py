"""Which engine executes a program: the command line decides, then the environment, then the options."""

import pytest

from openipu.errors import OptionError
from openipu.graph import EngineMode, RunOptions
from openipu.overrides import Overrides, set_overrides
from openipu.session import ENGINE_VARIABLE, FORMER_VARIABLE, choose_engine


@pytest.fixture(autouse=True)
def _nobody_wishes(monkeypatch):
    monkeypatch.delenv(ENGINE_VARIABLE, raising=False)
    monkeypatch.delenv(FORMER_VARIABLE, raising=False)
    before = set_overrides(Overrides())
    yield
    set_overrides(before)


def test_options_decide_when_nobody_wishes():
    assert choose_engine(RunOptions()).engine is EngineMode.AUTO
    assert choose_engine(RunOptions(engine=EngineMode.OPERATORS)).engine is EngineMode.OPERATORS


def test_the_environment_decides_over_options_and_the_command_line_over_both(monkeypatch):
    monkeypatch.setenv(ENGINE_VARIABLE, "kernels")
    assert choose_engine(RunOptions()).engine is EngineMode.KERNELS
    set_overrides(Overrides(engine="operators"))
    assert choose_engine(RunOptions(engine=EngineMode.KERNELS)).engine is EngineMode.OPERATORS


def test_an_unknown_engine_is_refused_with_the_known_ones(monkeypatch):
    monkeypatch.setenv(ENGINE_VARIABLE, "fast")
    with pytest.raises(OptionError, match=r"'fast' is unknown.*auto or operators or kernels"):
        choose_engine(RunOptions())


@pytest.mark.parametrize(("word", "engine"), [("instant", EngineMode.OPERATORS), ("compiled", EngineMode.KERNELS)])
def test_variable_and_words_of_earlier_versions_are_accepted(word, engine, monkeypatch):
    monkeypatch.setenv(FORMER_VARIABLE, word)
    assert choose_engine(RunOptions()).engine is engine
    monkeypatch.setenv(ENGINE_VARIABLE, "auto")
    assert choose_engine(RunOptions()).engine is EngineMode.AUTO
