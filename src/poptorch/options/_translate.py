"""Old names to new: `poptorch.Options` becomes the `RunOptions` that plan and run read, by the table below.

In: options and whether the model trains. Out: RunOptions, and the directory of the profile if one is wanted.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

import openipu.graph as graph
from poptorch.enums import OutputMode, ReductionType
from poptorch.errors import createPoptorchError, translate_errors
from poptorch.options._options import Options

FIELDS = {  # name in Options -> field of RunOptions
    "device_iterations": "device_iterations",
    "replication_factor": "replicas",
    "broadcast_buffers": "broadcast_buffers",
    "output_return_period": "output_period",
    "random_seed": "random_seed",
}
OUTPUT_MODES = {
    OutputMode.All: graph.OutputMode.ALL,
    OutputMode.Final: graph.OutputMode.FINAL,
    OutputMode.EveryN: graph.OutputMode.EVERY_N,
    OutputMode.Sum: graph.OutputMode.SUM,
}
REDUCTIONS = {ReductionType.Mean: graph.Reduction.MEAN, ReductionType.Sum: graph.Reduction.SUM}


def choose_output_mode(options: Options, training: bool) -> OutputMode:
    """The mode that Default stands for."""
    if options.defaultOutputMode():
        return OutputMode.Final if training else OutputMode.All
    return OutputMode(options.output_mode)


def build_run_options(options: Options, training: bool) -> graph.RunOptions:
    """One frozen RunOptions; values that cannot work together raise poptorch.Error."""
    if options.Distributed.numProcesses > 1:
        raise createPoptorchError(
            f"This model is one of {options.Distributed.numProcesses} processes, and several processes are not "
            "supported yet: use replicationFactor in one process, or Options.Distributed.disable()."
        )
    values: dict[str, Any] = {field: options.get(name) for name, field in FIELDS.items() if options.exists(name)}
    values["training"] = training
    values["output_mode"] = OUTPUT_MODES[choose_output_mode(options, training)]
    values["reduction"] = REDUCTIONS[options.Training.accumulation_and_replication_reduction_type]
    values["gradient_accumulation"] = options.Training.gradient_accumulation if training else 1
    values["io_tiles"] = options.TensorLocations.get("numIOTiles", 0)
    if options.Precision.exists("partials_type"):
        values["half_partials"] = options.Precision.partials_type == torch.half
    if "IPU0" in options.available_memory_proportion:
        values["available_memory_proportion"] = float(options.available_memory_proportion["IPU0"])
    with translate_errors():
        return graph.RunOptions(**values)


def choose_profile_directory(options: Options, training: bool) -> Path | None:
    """Where `profile.pop` goes: the options' engine options, else POPLAR_ENGINE_OPTIONS; None when neither asks."""
    engine = {**_read_engine_environment(), **options._Popart.options.get("engineOptions", {})}
    wanted = ("autoReport.all", "autoReport.outputGraphProfile", "autoReport.outputExecutionProfile")
    if not any(str(engine.get(name, "false")).lower() == "true" for name in wanted):
        return None
    name = options.get("model_name") or ("training" if training else "inference")
    return Path(engine.get("autoReport.directory", ".")) / name


def _read_engine_environment() -> dict[str, str]:
    text = os.environ.get("POPLAR_ENGINE_OPTIONS")
    if not text:
        return {}
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise createPoptorchError(f"POPLAR_ENGINE_OPTIONS is not JSON ({error}): {text}") from error
    if not isinstance(values, dict):
        raise createPoptorchError(f"POPLAR_ENGINE_OPTIONS must be a JSON object, not {text}")
    return values
