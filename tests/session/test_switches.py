"""The original's switches: engine options from the program and the environment, log levels and destinations."""

import json
import logging
from pathlib import Path

import pytest
import torch

import poptorch
from openipu.environment.engine_options import read_engine_options
from openipu.environment.log_levels import LOGGERS, TRACE, apply_log_levels
from openipu.errors import OptionError


def read(environment, **given):
    text = environment if isinstance(environment, str) else json.dumps(environment)
    return read_engine_options(given, {"POPLAR_ENGINE_OPTIONS": text})


@pytest.mark.parametrize("value", ["true", "True", True, 1, "1"])
def test_values_are_texts_booleans_or_numbers(value):
    assert read({"autoReport.all": value}).wants_profile


def test_the_environment_wins_over_the_program():
    given = {"autoReport.all": "true", "autoReport.directory": "mine"}
    options = read({"autoReport.directory": "theirs"}, **given)
    assert options.wants_profile
    assert options.report_directory == Path("theirs")
    assert not read({"autoReport.all": False}, **given).wants_profile


def test_a_part_that_is_named_decides_for_itself():
    both_off = {"autoReport.outputGraphProfile": "false", "autoReport.outputExecutionProfile": "false"}
    assert not read({"autoReport.all": "true", **both_off}).wants_profile
    assert read({"autoReport.all": "true", "autoReport.outputExecutionProfile": "false"}).wants_profile
    assert read({"autoReport.outputGraphProfile": "true"}).wants_profile
    assert read({"autoReport.outputLoweredVars": "true"}).wants_profile
    assert not read({"autoReport.directory": "there"}).wants_profile
    assert not read("").wants_profile


def test_options_of_the_compiler_pass_without_effect():
    assert (
        read({"opt.useAutoloader": "true", "target.workerStackSizeInBytes": 512}).values["opt.useAutoloader"] == "true"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("autoReport.all=true", "is not JSON"),
        ("3", "must be a JSON object"),
        ('{"autoReport.all": "yes"}', "autoReport.all is 'yes', which is neither true nor false"),
        ('{"autoReport.al": "true"}', "Did you mean autoReport.all"),
        ('{"autoReport.everything": "true"}', "there is no option autoReport.everything"),
        ('{"debug.allowOutOfMemori": "true"}', "Did you mean debug.allowOutOfMemory"),
        ('{"autoReport.directory": 5}', "Give a path as text"),
        ('{"profiler.replicaToProfile": "first"}', "not a whole number"),
        ('{"opt.enableInlining": [1]}', "Give a text, a number, true or false"),
    ],
)
def test_what_cannot_be_read_is_one_error_that_names_the_variable(text, told, monkeypatch):
    with pytest.raises(OptionError, match=told) as found:
        read(text)
    assert str(found.value).startswith("POPLAR_ENGINE_OPTIONS")
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", text)
    model = poptorch.inferenceModel(torch.nn.Linear(2, 2))
    with pytest.raises(poptorch.Error, match="POPLAR_ENGINE_OPTIONS"):
        model.compile(torch.ones(1, 2))


def test_enabling_profiling_warns_where_the_environment_says_otherwise(monkeypatch, caplog):
    poptorch.Options().enableProfiling("here")
    assert "overridden" not in caplog.text
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.directory": "there"}')
    poptorch.Options().enableProfiling("here")
    assert "overridden by environment variable: autoReport.directory" in caplog.text


@pytest.fixture
def restored():
    kept = {name: (logging.getLogger(name).level, logging.getLogger(name).propagate) for name in LOGGERS.values()}
    yield
    apply_log_levels({})
    for name, (level, propagate) in kept.items():
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).propagate = propagate


def compile_linear():
    poptorch.inferenceModel(torch.nn.Linear(3, 2)).compile(torch.ones(1, 3))


def test_each_level_shows_its_part_of_a_compilation(restored, capsys, tmp_path):
    log = tmp_path / "poplar.log"
    apply_log_levels(
        {
            "POPLAR_LOG_LEVEL": "DEBUG",
            "POPLAR_LOG_DEST": str(log),
            "POPLIBS_LOG_LEVEL": "debug",
            "POPLIBS_LOG_DEST": "stdout",
            "POPART_LOG_LEVEL": "INFO",
        }
    )
    compile_linear()
    told = capsys.readouterr()
    assert "[poplar] [info] inference on bow-2000: the fullest tile needs" in log.read_text()
    assert "[poplar] [debug] inference: pass schedule took" in log.read_text()
    assert "[poplibs] [debug] inference: addmm_default aten.addmm.default:" in told.out
    assert "[popart] [info] inference: graph micro has" in told.err
    assert "poplar" not in told.out + told.err


def test_without_variables_the_loggers_are_left_alone(restored, capsys):
    apply_log_levels({})
    assert not logging.getLogger("openipu").handlers
    compile_linear()
    assert "fullest tile" not in capsys.readouterr().err


def test_steps_are_logged_at_the_finest_level(restored, capsys):
    apply_log_levels({"POPLAR_LOG_LEVEL": "TRACE"})
    assert logging.getLogger("openipu").level == TRACE
    compile_linear()
    assert "[poplar] [trace] inference: step 0," in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "value"), [("POPLAR_LOG_LEVEL", "3"), ("POPLIBS_LOG_LEVEL", "no"), ("POPART_LOG_DEST", "/nowhere/x")]
)
def test_wrong_levels_and_destinations_name_their_variable(restored, variable, value):
    with pytest.raises(OptionError, match=f"{variable} is '{value}'"):
        apply_log_levels({variable: value})
