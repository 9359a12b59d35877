"""PVTI_OPTIONS: what it may say, and one clear error for everything else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openipu.errors import OptionError
from openipu.trace import TraceOptions, read_trace_options
from openipu.trace.recorder import Recorder


def test_without_the_variable_nothing_is_recorded():
    assert not read_trace_options(None).enabled
    assert not read_trace_options("").enabled
    assert not read_trace_options('{"enable": "false"}').enabled


@pytest.mark.parametrize("enable", ['"true"', "true", "1", '"True"'])
def test_texts_booleans_and_numbers_turn_it_on(enable):
    assert read_trace_options(f'{{"enable": {enable}}}').enabled


def test_an_empty_object_turns_it_on_in_this_directory():
    assert read_trace_options("{}") == TraceOptions(enabled=True, directory=Path.cwd())


def test_all_options_are_read():
    found = read_trace_options('{"directory": "/there", "channels": ["Framework"], "duration": "2.5"}')
    assert found == TraceOptions(True, Path("/there"), ("Framework",), 2.5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("yes", "is not JSON"),
        ("[]", "must be a JSON object"),
        ('{"enable": "maybe"}', "enable is 'maybe', which is neither true nor false"),
        ('{"directory": 3}', "directory is 3"),
        ('{"channels": "Framework"}', "channels is 'Framework'"),
        ('{"duration": "long"}', "duration is 'long'"),
        ('{"duration": -1}', "duration is -1"),
        ('{"duration": true}', "duration is True"),
        ('{"enabled": true}', "has no option 'enabled'"),
    ],
)
def test_what_cannot_be_read_is_one_error_that_names_the_variable(text, told):
    with pytest.raises(OptionError) as found:
        read_trace_options(text)
    assert str(found.value).startswith("PVTI_OPTIONS")
    assert told in str(found.value)


def test_a_directory_that_cannot_be_made_is_told_at_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match=r"PVTI_OPTIONS: the directory .* cannot be made"):
        Recorder(TraceOptions(enabled=True, directory=tmp_path / "file" / "inside"))


def test_importing_the_library_with_a_wrong_variable_ends_in_that_error():
    environment = {**os.environ, "PVTI_OPTIONS": "enable"}
    ended = subprocess.run(
        [sys.executable, "-c", "import libpvti"], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "OptionError: PVTI_OPTIONS is not JSON" in ended.stderr.splitlines()[-1]
