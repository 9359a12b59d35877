"""poptorch.Error, the logger and the small functions."""

import pickle
import re
import subprocess
import sys

import pytest
import torch

import poptorch
from openipu.errors import OptionError
from poptorch import _logging
from poptorch.errors import translate_errors


@pytest.fixture(autouse=True)
def keep_level():
    level = poptorch.logger.level
    yield
    poptorch.logger.setLevel(level)


def test_an_error_has_type_message_and_location():
    error = poptorch.createPoptorchError("too many cooks")
    assert str(error) == "'poptorch_py_error': too many cooks"
    assert (error.type, error.message, error.location) == ("poptorch_py_error", "too many cooks", "")
    assert poptorch.Error is poptorch.poptorch_core.Error
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.message) == (str(error), error.message)


def test_errors_from_below_keep_their_words_and_their_cause():
    with pytest.raises(poptorch.Error, match="half of a replica") as caught, translate_errors():
        raise OptionError("half of a replica")
    assert isinstance(caught.value.__context__, OptionError)


def test_the_users_own_exceptions_pass_unchanged():
    with pytest.raises(ZeroDivisionError), translate_errors():
        raise ZeroDivisionError("mine")


def test_log_lines_have_a_clock_a_name_and_a_level(capsys):
    poptorch.setLogLevel("INFO")
    poptorch.logger.info("hello")
    poptorch.logger.warning("careful")
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\[\d\d:\d\d:\d\d\.\d{3}\] \[poptorch::python\] \[info\] hello", lines[0])
    assert re.fullmatch(r"\[\d\d:\d\d:\d\d\.\d{3}\] \[poptorch::python\] \[warning\] careful", lines[1])


@pytest.mark.parametrize(("level", "lines"), [("TRACE", 3), (1, 3), (2, 2), (3, 1), ("WARN", 1), (6, 0), ("OFF", 0)])
def test_the_level_decides_what_is_shown(level, lines, capsys):
    poptorch.setLogLevel(level)
    poptorch.logger.debug("debug")
    poptorch.logger.info("info")
    poptorch.logger.warning("warning")
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_wrong_levels_are_refused():
    with pytest.raises(ValueError, match="Invalid log level integer"):
        poptorch.setLogLevel(5)
    words = "Unknown log level: LOUD. Valid values are DEBUG, ERR, INFO, OFF, TRACE and WARN"
    with pytest.raises(ValueError, match=words):
        poptorch.setLogLevel("LOUD")
    for level in (2, "LOUD"):
        with pytest.raises(ValueError, match="Level must be one of"):
            _logging.setPopartLogLevel(level)


def test_there_is_no_hardware():
    assert poptorch.ipuHardwareIsAvailable() is False
    with pytest.raises(AssertionError, match="No IPU hardware available on this system"):
        poptorch.ipuHardwareVersion()
    assert poptorch.isRunningOnIpu() is False


def test_identity_loss_reduces_on_the_host_as_on_the_device():
    values = torch.tensor([1.0, 2.0, 6.0])
    assert poptorch.identity_loss(values, "sum") == 9
    assert poptorch.identity_loss(values, "mean") == 3
    assert torch.equal(poptorch.identity_loss(values, "none"), values)
    with pytest.raises(AssertionError, match="Unsupported reduction type!"):
        poptorch.identity_loss(values, "max")


def test_nop_takes_tensors_only():
    assert torch.equal(poptorch.nop(torch.ones(2)), torch.ones(2))
    with pytest.raises(poptorch.Error, match=r"nop must take a torch\.tensor"):
        poptorch.nop(3)


@pytest.mark.parametrize("name", poptorch.__all__)
def test_every_public_name_exists(name):
    assert hasattr(poptorch, name)


@pytest.mark.parametrize("stream", ["stderr", "stdout"])
def test_a_warning_appears_once_where_the_application_sets_up_logging(stream, tmp_path):
    script = f"""
import logging, sys
import poptorch
logging.basicConfig(level=logging.INFO, stream=sys.{stream})
logging.getLogger().addHandler(logging.FileHandler({str(tmp_path / "log")!r}))
poptorch._logging.logger.warning("once only")
poptorch._logging.logger.debug("not at all")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout + done.stderr).count("once only") == 1
    assert "[poptorch::python] [warning] once only" in done.stderr
    assert (tmp_path / "log").read_text() == "once only\n"  # the application's own files see it all the same
    assert "not at all" not in done.stdout + done.stderr
