"""What `PVTI_OPTIONS` asks for.

In: the text of the variable. Out: `TraceOptions`, or an `OptionError` that names the variable and the entry.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openipu.errors import OptionError
from openipu.files.documents import parse_variable
from openipu.files.origin import shorten

VARIABLE = "PVTI_OPTIONS"
EXAMPLE = '{"enable": "true", "directory": "traces"}'


@dataclass(frozen=True)
class TraceOptions:
    """Whether, where and how long to record."""

    enabled: bool = False
    directory: Path = Path()
    channels: tuple[str, ...] = ()  # none named: all of them
    duration_seconds: float = 0.0  # 0: to the end of the process


def read_trace_options(text: str | None) -> TraceOptions:
    """Read the variable's text. None, when it is not set, turns tracing off; an empty text does so too."""
    if not text or not text.strip():
        return TraceOptions()
    values = parse_variable(VARIABLE, text, EXAMPLE)
    unknown = [name for name in values if name not in _READERS]
    if unknown:
        raise OptionError(f"{VARIABLE} has no option {shorten(unknown[0])}. There are {', '.join(_READERS)}.")
    read = {field: reader(values[name]) for name, (field, reader) in _READERS.items() if name in values}
    options = TraceOptions(**{"enabled": True, **read})
    # Scripts may change the working directory later: all files of a run belong together.
    return TraceOptions(options.enabled, Path(options.directory).absolute(), options.channels, options.duration_seconds)


def read_environment(environment: Mapping[str, str] = os.environ) -> TraceOptions:
    return read_trace_options(environment.get(VARIABLE))


def _read_enable(value: Any) -> bool:
    word = str(value).lower()
    if word not in ("true", "false", "1", "0"):
        raise OptionError(f"{VARIABLE}: enable is {shorten(value)}, which is neither true nor false.")
    return word in ("true", "1")


def _read_directory(value: Any) -> Path:
    if not isinstance(value, str) or not value:
        raise OptionError(f"{VARIABLE}: directory is {shorten(value)}. Give the path of a directory as text.")
    return Path(value)


def _read_channels(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise OptionError(f'{VARIABLE}: channels is {shorten(value)}. Give a list of names, such as ["Framework"].')
    return tuple(value)


def _read_duration(value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds < float("inf") or isinstance(value, bool):
        raise OptionError(f"{VARIABLE}: duration is {shorten(value)}. Give seconds, or 0 for no limit.")
    return seconds


_READERS: dict[str, tuple[str, Any]] = {
    "enable": ("enabled", _read_enable),
    "directory": ("directory", _read_directory),
    "channels": ("channels", _read_channels),
    "duration": ("duration_seconds", _read_duration),
}
