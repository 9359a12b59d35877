"""Engine options: the switches of the original's engine, from a program and from `POPLAR_ENGINE_OPTIONS`.

In: a program's own options, and the environment, which wins. Values may be texts, booleans or numbers. Out: checked
`EngineOptions`. A value that cannot be read is an `OptionError` that names where it stands.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openipu.errors import OptionError
from openipu.files.documents import parse_variable
from openipu.files.origin import shorten

VARIABLE = "POPLAR_ENGINE_OPTIONS"

_EXAMPLE = '{"autoReport.all": "true", "autoReport.directory": "reports"}'
_GROUPS = ("autoReport", "debug", "exchange", "opt", "prng", "profiler", "streamCallbacks", "target")
_BOOLEANS = (
    "autoReport.all",
    "autoReport.outputGraphProfile",
    "autoReport.outputExecutionProfile",
    "autoReport.outputLoweredVars",
    "autoReport.outputDebugInfo",
    "autoReport.outputArchive",
    "autoReport.outputSerializedGraph",
    "autoReport.streamAtEachRun",
    "debug.allowOutOfMemory",
    "debug.nanOverflowMode",
    "debug.floatPointOpException",
    "debug.retainDebugInformation",
    "debug.instrument",
    "debug.instrumentCompute",
    "debug.instrumentControlFlow",
    "debug.instrumentExternalExchange",
    "prng.enableStochasticRounding",
    "profiler.blocks.implicitFlush",
    "profiler.includeFlopEstimates",
    "profiler.includeCycleEstimates",
)
_NUMBERS = (
    "autoReport.executionProfileProgramRunCount",
    "profiler.replicaToProfile",
    "profiler.blocks.tile",
    "profiler.blocks.bufferSize",
    "prng.seed",
    "target.hostSyncTimeout",
    "opt.maxCompilationThreads",
    "opt.maxComputeSetsPerLoweredCopy",
)
_TEXTS = ("autoReport.directory",)
# What a report file needs to be asked for; the file has both parts, so either will do.
_PROFILE_PARTS = (
    "autoReport.outputGraphProfile",
    "autoReport.outputExecutionProfile",
    "autoReport.outputLoweredVars",
)


@dataclass(frozen=True)
class EngineOptions:
    """Options by name, each with a value of its kind."""

    values: Mapping[str, Any]

    def is_on(self, name: str, default: bool = False) -> bool:
        return bool(self.values.get(name, default))

    @property
    def wants_profile(self) -> bool:
        """A part that is named decides for itself; `autoReport.all` speaks for those that are not."""
        everything = self.is_on("autoReport.all")
        return any(self.is_on(name, everything and name != _PROFILE_PARTS[2]) for name in _PROFILE_PARTS)

    @property
    def report_directory(self) -> Path:
        return Path(self.values.get("autoReport.directory", "."))


def read_engine_options(given: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> EngineOptions:
    """A program's options, and those of the environment, which win."""
    own = {name: _read_value(name, value, "the engine options") for name, value in given.items()}
    return EngineOptions({**own, **read_engine_environment(environment)})


def read_engine_environment(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """What `POPLAR_ENGINE_OPTIONS` says."""
    text = environment.get(VARIABLE, "")
    if not text.strip():
        return {}
    values = parse_variable(VARIABLE, text, _EXAMPLE)
    return {name: _read_value(name, value, VARIABLE) for name, value in values.items()}


def _read_value(name: str, value: Any, source: str) -> Any:
    if isinstance(value, (dict, list)) or value is None:
        raise OptionError(f"{source}: {name[:100]} is {shorten(value)}. Give a text, a number, true or false.")
    if name in _BOOLEANS:
        word = str(value).lower()
        if word not in ("true", "false", "1", "0"):
            raise OptionError(f"{source}: {name[:100]} is {shorten(value)}, which is neither true nor false.")
        return word in ("true", "1")
    if name in _NUMBERS:
        try:
            return int(str(value))
        except ValueError:
            raise OptionError(f"{source}: {name[:100]} is {shorten(value)}, which is not a whole number.") from None
    if name in _TEXTS and (not isinstance(value, str) or not value):
        raise OptionError(f"{source}: {name[:100]} is {shorten(value)}. Give a path as text.")
    if name not in _TEXTS:
        _refuse_misspelling(name, source)
    return value


def _refuse_misspelling(name: str, source: str) -> None:
    """Options that have no meaning here pass, but not those that were meant to be others, nor unknown reports."""
    known = (*_BOOLEANS, *_NUMBERS, *_TEXTS)
    near = difflib.get_close_matches(name, known, 1, cutoff=0.9)
    meant = f" Did you mean {near[0]}?" if near else ""
    group = name.split(".")[0]
    if group == "autoReport":
        reports = ", ".join(entry for entry in known if entry.startswith("autoReport."))
        raise OptionError(f"{source}: there is no option {name[:100]}.{meant} There are {reports}.")
    if near or "." not in name:
        raise OptionError(f"{source}: there is no option {name[:100]}.{meant} Options begin with {', '.join(_GROUPS)}.")
