"""Old names to new: `poptorch.Options` becomes the `RunOptions` that plan and run read, by the table below.

In: options and whether the model trains. Out: RunOptions, and the directory of the profile if one is wanted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import openipu.graph as graph
from openipu.engine_options import EngineOptions, read_engine_options
from openipu.numerics import Overflow
from poptorch._logging import logger
from poptorch.enums import OutputMode, ReductionType
from poptorch.errors import translate_errors
from poptorch.options._memory import choose_locations, choose_recomputation
from poptorch.options._options import Options

FIELDS = {  # name in Options -> field of RunOptions
    "device_iterations": "device_iterations",
    "replication_factor": "replicas",
    "broadcast_buffers": "broadcast_buffers",
    "output_return_period": "output_period",
    "random_seed": "random_seed",
    "deterministic": "deterministic",
}
OUTPUT_MODES = {
    OutputMode.All: graph.OutputMode.ALL,
    OutputMode.Final: graph.OutputMode.FINAL,
    OutputMode.EveryN: graph.OutputMode.EVERY_N,
    OutputMode.Sum: graph.OutputMode.SUM,
}
SYNTHETIC_OFF = 0
DEFAULT_OVERFLOW = Overflow.INFINITY
_EXECUTION_MODES = {graph.Strategy.PIPELINED: 0, graph.Strategy.SHARDED: 1}
REDUCTIONS = {ReductionType.Mean: graph.Reduction.MEAN, ReductionType.Sum: graph.Reduction.SUM}


def choose_output_mode(options: Options, training: bool) -> OutputMode:
    """The mode that Default stands for."""
    if options.defaultOutputMode():
        return OutputMode.Final if training else OutputMode.All
    return OutputMode(options.output_mode)


def build_run_options(options: Options, training: bool) -> graph.RunOptions:
    """One frozen RunOptions; values that cannot work together raise poptorch.Error."""
    values: dict[str, Any] = {field: options.get(name) for name, field in FIELDS.items() if options.exists(name)}
    values["training"] = training
    values["instances"] = options.Distributed.numProcesses if training else 1  # inference has nothing to share
    values["taps"] = _list_taps(options, training)
    values["floating_point_exceptions"] = options.Precision.enable_floating_point_exceptions
    values["stochastic_rounding"] = options.Precision.enable_stochastic_rounding
    values["half_overflow"] = choose_half_overflow(options)
    values["output_mode"] = OUTPUT_MODES[choose_output_mode(options, training)]
    values["reduction"] = REDUCTIONS[options.Training.accumulation_and_replication_reduction_type]
    values["gradient_accumulation"] = options.Training.gradient_accumulation if training else 1
    values["io_tiles"] = options.TensorLocations.get("numIOTiles", 0)
    values["synthetic_data"] = read_synthetic_mode(options) != SYNTHETIC_OFF
    values["strategy"] = options._execution_strategy.kind
    values["recompute"] = choose_recomputation(options)
    values["locations"] = choose_locations(options)
    if options.Precision.exists("partials_type"):
        values["half_partials"] = options.Precision.partials_type == torch.half
    values["memory_proportions"] = tuple(
        (int(ipu.removeprefix("IPU")), float(share)) for ipu, share in options.available_memory_proportion.items()
    )
    with translate_errors():
        return graph.RunOptions(**values)


def read_synthetic_mode(options: Options) -> int:
    """What inputs hold when the host sends none: `popart.SyntheticDataMode` as a number."""
    return int(options._Popart.options.get("syntheticDataMode", SYNTHETIC_OFF))


def choose_half_overflow(options: Options) -> Overflow:
    """What a half result that is too large becomes: the engine's NaN-on-overflow flag says it.

    With floating-point exceptions it stops the run in any case.
    """
    wished = _read_engine_options(options).values.get("debug.nanOverflowMode")
    if wished is None:
        return DEFAULT_OVERFLOW
    return Overflow.NAN if wished else Overflow.SATURATE


def number_execution_mode(options: Options) -> int:
    """How PopTorch's log numbers the strategies."""
    return _EXECUTION_MODES.get(options._execution_strategy.kind, 2)


def _list_taps(options: Options, training: bool) -> tuple[graph.Tap, ...]:
    """Anchored tensors; without a mode of their own they follow the outputs."""
    taps = []
    for short_name, (long_name, mode, period) in options.anchored_tensors.items():
        if long_name == "finalLossScale" and options.Training.auto_loss_scaling:
            continue  # kept on the host, between calls
        if mode is None or mode == OutputMode.Default:
            mode, period = choose_output_mode(options, training), options.output_return_period
        chosen = OutputMode(mode)
        period = period if chosen == OutputMode.EveryN else 1
        word = "Sum" if chosen == OutputMode.Sum else chosen.name.upper()
        logger.debug("Anchor %s %s/%d", long_name, word, period)
        taps.append(graph.Tap(short_name, long_name, OUTPUT_MODES[chosen], period))
    return tuple(taps)


def choose_profile_directory(options: Options, training: bool) -> Path | None:
    """Where `profile.pop` goes: POPLAR_ENGINE_OPTIONS, else the options' engine options; None when neither asks."""
    engine = _read_engine_options(options)
    if not engine.wants_profile:
        return None
    name = options.get("model_name") or ("training" if training else "inference")
    return engine.report_directory / name


def _read_engine_options(options: Options) -> EngineOptions:
    with translate_errors():
        return read_engine_options(options._Popart.options.get("engineOptions", {}))
