"""Engine options by the original's names.

In: a dictionary of texts, and `POPLAR_ENGINE_OPTIONS`, which wins. Out: `Options`. An option that nobody knows is an
error; one that is known but means nothing without hardware stands in `WITHOUT_EFFECT`, with the reason.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openipu.environment.engine_options import read_engine_environment
from openipu.errors import OptionError
from poplar._errors import invalid_option

_EXACT = "results and figures do not depend on it"
_MEASURED = "nothing is measured: all figures are computed"
_HARDWARE = "it is about a real device"
_COMPILER = "there is no machine code below"

WITHOUT_EFFECT: Mapping[str, str] = {
    "debug.retainDebugInformation": "debug information is always kept",
    "debug.instrument": _MEASURED,
    "debug.instrumentCompute": _MEASURED,
    "debug.instrumentControlFlow": _MEASURED,
    "debug.instrumentExternalExchange": _MEASURED,
    "debug.computeInstrumentationLevel": _MEASURED,
    "debug.externalExchangeInstrumentationLevel": _MEASURED,
    "debug.nanOverflowException": _HARDWARE,
    "debug.floatPointOpException": _HARDWARE,
    "debug.cpuMultiThreadExecution": _EXACT,
    "debug.outputAllSymbols": _COMPILER,
    "debug.verify": _COMPILER,
    "debug.branchRecordTile": _MEASURED,
    "debug.profilingTile": _MEASURED,
    "exchange.streamBufferOverlap": "each transfer has a buffer of its own",
    "exchange.enablePrefetch": "callbacks are asked in advance unless it is false",
    "opt.maxCompilationThreads": _EXACT,
    "opt.maxLinkerThreads": _EXACT,
    "opt.internalExchangeOptimisationTarget": _COMPILER,
    "opt.enableMultiAnalysis": _COMPILER,
    "opt.enableInlining": _COMPILER,
    "prng.enableStochasticRounding": "vertices round as the host does",
    "prng.seed": _HARDWARE,
    "target.workerStackSizeInBytes": _COMPILER,
    "target.supervisorStackSizeInBytes": _COMPILER,
    "target.hostSyncTimeout": _HARDWARE,
    "target.saveArchive": _COMPILER,
    "target.deterministicWorkers": "workers always run in the same order",
    "target.gatewayMode": _HARDWARE,
    "streamCallbacks.numWorkerThreads": _EXACT,
    "streamCallbacks.multiThreadMode": _EXACT,
    "profiler.format": _MEASURED,
    "profiler.replicaToProfile": "replicas have the same profile",
    "autoReport.executionProfileProgramRunCount": _MEASURED,
    "autoReport.outputSerializedGraph": "the profile has the graph",
    "autoReport.outputDebugInfo": "the profile has it",
    "autoReport.outputLoweredVars": "the profile has them",
    "autoReport.outputArchive": _COMPILER,
    "autoReport.streamAtEachRun": "the profile is written once",
}
_USED = (
    "autoReport.all",
    "autoReport.directory",
    "autoReport.outputGraphProfile",
    "autoReport.outputExecutionProfile",
    "debug.allowOutOfMemory",
    "debug.checkRaces",
    "debug.checkUninitialised",
    "debug.printTensorFormat",
    "exchange.enablePrefetch",
)


@dataclass(frozen=True, slots=True)
class Options:
    """What the options say."""

    values: Mapping[str, Any]

    def is_on(self, name: str, default: bool = False) -> bool:
        return _read_boolean(name, self.values.get(name, default))

    @property
    def check_races(self) -> bool:
        return self.is_on("debug.checkRaces", True)

    @property
    def check_written(self) -> bool:
        return self.is_on("debug.checkUninitialised")

    @property
    def allow_out_of_memory(self) -> bool:
        return self.is_on("debug.allowOutOfMemory")

    @property
    def prefetches(self) -> bool:
        return self.is_on("exchange.enablePrefetch", "exchange.streamBufferOverlap" in self.values)

    @property
    def print_format(self) -> str:
        chosen = str(self.values.get("debug.printTensorFormat", "current"))
        if chosen not in ("current", "braces"):
            raise invalid_option(f"debug.printTensorFormat is {chosen!r}. It can be 'current' or 'braces' (SDK 2.3).")
        return chosen

    @property
    def wants_profile(self) -> bool:
        everything = self.is_on("autoReport.all")
        parts = ("autoReport.outputGraphProfile", "autoReport.outputExecutionProfile")
        return any(self.is_on(part, everything) for part in parts)

    @property
    def report_directory(self) -> Path:
        return Path(str(self.values.get("autoReport.directory", ".")))


def read_options(given: Mapping[str, Any]) -> Options:
    """The program's options and the environment's."""
    try:
        values = {**given, **read_engine_environment()}
    except OptionError as error:
        raise invalid_option(str(error)) from error
    known = (*_USED, *WITHOUT_EFFECT)
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f". Did you mean {near[0]}?" if near else ""
            raise invalid_option(f"Unrecognised option '{name}'{meant}")
    read = Options(values)
    for name in _USED:
        if name in values and name not in ("autoReport.directory", "debug.printTensorFormat"):
            read.is_on(name)
    return read


def _read_boolean(name: str, value: Any) -> bool:
    word = str(value).lower()
    if word not in ("true", "false", "1", "0"):
        raise invalid_option(f"Option {name} is {value!r}, and must be true or false.")
    return word in ("true", "1")
