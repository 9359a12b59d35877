"""The option groups: Jit, Precision, Training, Distributed and _Popart. Each checks what it is given and stores it."""

from __future__ import annotations

import os
from typing import Any

import torch

from poptorch._logging import logger, warn_once
from poptorch.enums import HalfFloatCastingBehavior, MeanReductionStrategy, ReductionType
from poptorch.options._storage import OptionsDict


class _JitOptions(OptionsDict):
    """Options.Jit"""

    def traceModel(self, trace_model: bool) -> _JitOptions:
        """Deprecated: there is one way to trace."""
        if trace_model:
            raise ValueError("options.Jit.traceModel(True) is no longer supported")
        warn_once("options.Jit.traceModel is deprecated and has no effect: remove the call.")
        return self


class _PrecisionOptions(OptionsDict):
    """Options.Precision"""

    def __init__(self) -> None:
        super().__init__(enable_floating_point_exceptions=False, enable_stochastic_rounding=False)

    def halfFloatCasting(self, half_float_casting: HalfFloatCastingBehavior) -> _PrecisionOptions:
        """Deprecated: operands are promoted as PyTorch does."""
        if not isinstance(half_float_casting, HalfFloatCastingBehavior):
            raise ValueError("halfFloatCasting must be set to a poptorch.HalfFloatCastingBehavior")
        warn_once("options.Precision.halfFloatCasting is deprecated and has no effect: remove the call.")
        return self

    def runningStatisticsAlwaysFloat(self, value: bool) -> _PrecisionOptions:
        """Deprecated: running statistics keep the type of the module."""
        if not isinstance(value, bool):
            raise ValueError("runningStatisticsAlwaysFloat must be set to True or False")
        warn_once(
            "options.Precision.runningStatisticsAlwaysFloat is deprecated and has no effect: "
            "give the module's running statistics the type you want."
        )
        return self

    def enableFloatingPointExceptions(self, enabled: bool) -> _PrecisionOptions:
        assert isinstance(enabled, bool), "enableFloatingPointExceptions needs a boolean"
        self.set(enable_floating_point_exceptions=enabled)
        return self

    def enableStochasticRounding(self, enabled: bool) -> _PrecisionOptions:
        assert isinstance(enabled, bool), "enableStochasticRounding needs a boolean"
        self.set(enable_stochastic_rounding=enabled)
        return self

    def setPartialsType(self, dtype: torch.dtype) -> _PrecisionOptions:
        """The type in which matrix products and convolutions are summed."""
        if dtype not in (torch.float, torch.half):
            raise ValueError(f"setPartialsType takes torch.float or torch.half, not {dtype}")
        self.createOrSet(partials_type=dtype)
        return self


class _TrainingOptions(OptionsDict):
    """Options.Training"""

    def __init__(self) -> None:
        super().__init__(
            gradient_accumulation=1,
            accumulation_and_replication_reduction_type=ReductionType.Mean,
            meanAccumulationAndReplicationReductionStrategy=MeanReductionStrategy.Post,
            auto_loss_scaling=False,
            convolution_dithering=False,
        )

    def gradientAccumulation(self, gradient_accumulation: int) -> _TrainingOptions:
        self.set(gradient_accumulation=check_count("gradientAccumulation", gradient_accumulation))
        return self

    def accumulationAndReplicationReductionType(self, reduction_type: ReductionType) -> _TrainingOptions:
        if reduction_type not in (ReductionType.Mean, ReductionType.Sum):
            raise ValueError(
                "accumulationAndReplicationReductionType must be set to poptorch.ReductionType.Mean "
                "or poptorch.ReductionType.Sum"
            )
        self.set(accumulation_and_replication_reduction_type=ReductionType(reduction_type))
        return self

    def setMeanAccumulationAndReplicationReductionStrategy(self, strategy: MeanReductionStrategy) -> _TrainingOptions:
        self.set(meanAccumulationAndReplicationReductionStrategy=strategy)
        return self

    def setAutomaticLossScaling(self, enabled: bool) -> _TrainingOptions:
        self.set(auto_loss_scaling=enabled)
        return self

    def setConvolutionDithering(self, enabled: bool) -> _TrainingOptions:
        self.set(convolution_dithering=enabled)
        return self


class _DistributedOptions(OptionsDict):
    """Options.Distributed: which process of how many this is, by default from the launcher's environment."""

    def __init__(self) -> None:
        super().__init__(distributed_process_id=0, num_distributed_processes=1)
        self.setEnvVarNames("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")

    def disable(self) -> _DistributedOptions:
        """One process, whatever the environment says."""
        return self.configureProcessId(0, 1)

    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> _DistributedOptions:
        return self.configureProcessId(
            int(os.environ.get(var_process_id, "0")), int(os.environ.get(var_num_processes, "1"))
        )

    def configureProcessId(self, process_id: int, num_processes: int) -> _DistributedOptions:
        self.set(distributed_process_id=process_id, num_distributed_processes=num_processes)
        return self

    @property
    def processId(self) -> int:
        return int(self._values["distributed_process_id"])

    @property
    def numProcesses(self) -> int:
        return int(self._values["num_distributed_processes"])


class _PopartOptions(OptionsDict):
    """Options._Popart: names of the layer below. They are kept; only the engine's report options are read."""

    def __init__(self) -> None:
        super().__init__()
        self._options: dict[str, Any] = {
            "instrumentWithHardwareCycleCounter": False,
            "rearrangeAnchorsOnHost": False,
        }
        self._patterns: dict[str, bool] = {}
        self._patterns_level = 2

    @property
    def options(self) -> dict[str, Any]:
        return self._options

    def set(self, key: str, value: Any) -> _PopartOptions:  # type: ignore[override]
        self.checkIsFrozen()
        assert isinstance(key, str), f"A PopART option has a name, not {key!r}"
        logger.debug("PopART option %s is stored; there is no PopART below that reads it", key)
        self._options[key] = value
        return self

    def setEngineOptions(self, engine_options: dict[str, str]) -> _PopartOptions:
        self.checkIsFrozen()
        assert isinstance(engine_options, dict), "setEngineOptions takes a dictionary"
        self._options["engineOptions"] = dict(engine_options)
        return self

    def setPatterns(self, patterns: dict[str, bool], level: int = 2) -> _PopartOptions:
        self.checkIsFrozen()
        assert isinstance(patterns, dict), "setPatterns takes a dictionary"
        self._patterns, self._patterns_level = dict(patterns), level
        return self

    def toDict(self) -> dict[str, Any]:
        return {"popart": dict(self._options), "patterns": dict(self._patterns), "patterns_level": self._patterns_level}

    def _describe(self, indent: str) -> str:
        return f"{indent}options={self._options!r},\n{indent}patterns={self._patterns!r},\n"


def check_count(setter: str, value: int) -> int:
    """A whole number of at least one."""
    assert type(value) is int, f"Unexpected type {type(value)} for option {setter}: a whole number is expected"
    if value < 1:
        raise ValueError(f"{setter} must be at least 1, not {value}")
    return value
