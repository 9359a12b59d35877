"""`poptorch.Options`: every setter with its checks. What each one does here is the table in `_effects`.

In: old names and values. Out: stored values, readable as attributes, that `_translate` turns into RunOptions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import torch

from openipu.engine_options import read_engine_environment
from poptorch._logging import logger
from poptorch.enums import CommGroupType, ConnectionType, OutputMode, SyncPattern
from poptorch.errors import translate_errors
from poptorch.options._groups import (
    _DistributedOptions,
    _JitOptions,
    _PopartOptions,
    _PrecisionOptions,
    _TrainingOptions,
    check_count,
)
from poptorch.options._locations import _TensorLocationOptions
from poptorch.options._storage import OptionsDict
from poptorch.options._text import apply_file, apply_json
from poptorch.strategies import PipelinedExecution, _Strategy

_RANDOM_NORMAL = 2  # PopART's number for synthetic data from a normal distribution
_UNLIMITED_LOGS = 2**64 - 1
_LOCATION_EXCLUDES = ["install/poptorch", "site-packages/torch", "site-packages/poptorch"]


class Options(OptionsDict):
    """How a model is compiled and run. Every setter returns the options, so that calls can be chained."""

    def __init__(self) -> None:
        super().__init__(
            device_iterations=1,
            replication_factor=1,
            input_group_size=1,
            input_cgt=CommGroupType.Consecutive,
            broadcast_buffers=True,
            output_mode=OutputMode.Default,
            output_return_period=1,
            anchored_tensors={},
            connection_type=ConnectionType.Always,
            sync_pattern=SyncPattern.Full,
            auto_round_num_ipus=False,
            available_memory_proportion={},
            log_dir=".",
            max_repeat_logs=4,
            log_cycle_count=False,
            show_compilation_progress_bar=True,
            relax_optimizer_checks=False,
            source_location_excludes=list(_LOCATION_EXCLUDES),
            module_namescope_enabled=True,
        )
        self._jit = _JitOptions()
        self._precision = _PrecisionOptions()
        self._training = _TrainingOptions()
        self._distributed = _DistributedOptions()
        self._tensor_locations = _TensorLocationOptions()
        self._popart = _PopartOptions()
        self._execution_strategy: _Strategy = PipelinedExecution()
        if cache := os.environ.get("POPTORCH_CACHE_DIR"):
            self.enableExecutableCaching(cache)
        if defaults := os.environ.get("POPTORCH_DEFAULT_OPTIONS"):
            self.from_json(defaults)

    Jit = property(lambda self: self._jit, doc="Tracing (deprecated).")
    Precision = property(lambda self: self._precision, doc="Number formats.")
    Training = property(lambda self: self._training, doc="Accumulation and reduction.")
    Distributed = property(lambda self: self._distributed, doc="Several processes.")
    TensorLocations = property(lambda self: self._tensor_locations, doc="On and off chip.")
    _Popart = property(lambda self: self._popart, doc="Names of the layer below.")

    @property
    def _groups(self) -> tuple[OptionsDict, ...]:
        return (
            self._jit,
            self._precision,
            self._training,
            self._distributed,
            self._tensor_locations,
            self._popart,
        )

    def deviceIterations(self, device_iterations: int) -> Options:
        return self.set(device_iterations=check_count("deviceIterations", device_iterations))

    def replicationFactor(self, replication_factor: int) -> Options:
        return self.set(replication_factor=check_count("replicationFactor", replication_factor))

    def inputReplicaGrouping(self, input_group_size: int, input_group_type: CommGroupType) -> Options:
        """Let the replicas of one group read the same input."""
        if input_group_type == CommGroupType.All:
            raise ValueError("input_group_type cannot be All")
        if input_group_type == CommGroupType.NoGrouping:
            input_group_size, input_group_type = 1, CommGroupType.Consecutive
        if input_group_size > self.replication_factor:
            raise ValueError("input_group_size cannot be larger than replication_factor")
        if input_group_size < 1 or self.replication_factor % input_group_size:
            raise ValueError("input_group_size must be a factor of replication_factor")
        return self.set(input_group_size=input_group_size, input_cgt=input_group_type)

    def broadcastBuffers(self, broadcast_buffers: bool = True) -> Options:
        return self.set(broadcast_buffers=broadcast_buffers)

    def outputMode(self, output_mode: OutputMode, output_return_period: int | None = None) -> Options:
        if output_mode == OutputMode.EveryN:
            valid = isinstance(output_return_period, int) and output_return_period > 0
            assert valid, "EveryN anchor must have output_return_period set to valid positive integer"
        self.set(output_mode=OutputMode(output_mode))
        return self.set(output_return_period=output_return_period or 1)

    def defaultOutputMode(self) -> bool:
        """True until an output mode is chosen."""
        return bool(self.output_mode == OutputMode.Default)

    def anchorTensor(
        self, short_name: str, long_name: str, output_mode: OutputMode | None = None, output_return_period: int = 1
    ) -> None:
        self.checkIsFrozen()
        if output_mode == OutputMode.EveryN:
            assert output_return_period > 0, (
                "EveryN anchor must have output_return_period set to valid positive integer"
            )
        self.anchored_tensors[short_name] = [long_name, output_mode, output_return_period]

    def randomSeed(self, random_seed: int) -> Options:
        assert isinstance(random_seed, int), f"randomSeed takes an int, not {random_seed!r}"
        torch.manual_seed(random_seed)
        return self.createOrSet(random_seed=random_seed)

    def enableDeterminism(self, enabled: bool = True) -> Options:
        """The same bits in every run with the same seed, number of threads and machine. Not in the original."""
        assert isinstance(enabled, bool), f"enableDeterminism takes a bool, not {enabled!r}"
        return self.createOrSet(deterministic=enabled)

    def connectionType(self, connection_type: ConnectionType) -> Options:
        return self.set(connection_type=ConnectionType(connection_type))

    def syncPattern(self, sync_pattern: SyncPattern) -> Options:
        return self.set(sync_pattern=SyncPattern(sync_pattern))

    def useIpuId(self, ipu_id: int) -> Options:
        assert isinstance(ipu_id, int), f"useIpuId takes an int, not {ipu_id!r}"
        return self.createOrSet(ipu_id=ipu_id)

    def useIpuModel(self, use_model: bool) -> Options:
        assert isinstance(use_model, bool), f"useIpuModel takes True or False, not {use_model!r}"
        return self.createOrSet(use_model=use_model)

    def useOfflineIpuTarget(self, ipu_version: int = 2) -> Options:
        self.connectionType(ConnectionType.Never)
        return self.createOrSet(ipu_version=ipu_version)

    def autoRoundNumIPUs(self, auto_round_num_ipus: bool = True) -> Options:
        return self.set(auto_round_num_ipus=auto_round_num_ipus)

    def setExecutionStrategy(self, strategy: _Strategy) -> Options:
        self.checkIsFrozen()
        assert isinstance(strategy, _Strategy), f"setExecutionStrategy takes an execution strategy, not {strategy!r}"
        self._execution_strategy = strategy
        return self

    def setAvailableMemoryProportion(self, available_memory_proportion: dict[str, float]) -> Options:
        """The share of tile memory that matrix products and convolutions may use, by IPU: `{"IPU0": 0.5}`."""
        for name, share in available_memory_proportion.items():
            assert name.startswith("IPU"), f"Keys are IPU0, IPU1 and so on, not {name!r}"
            assert 0 <= share <= 1, f"The proportion of {name} lies between 0 and 1, not {share!r}"
        return self.set(available_memory_proportion=dict(available_memory_proportion))

    def enableExecutableCaching(self, path: str | None) -> Options:
        self.checkIsFrozen()
        if path is None:
            self._popart.options.pop("enableEngineCaching", None)
            self._popart.options.pop("cachePath", None)
        else:
            self._popart.set("enableEngineCaching", True).set("cachePath", str(path))
        return self

    def enableProfiling(self, profile_dir: str | None = None) -> Options:
        """Write `profile.pop` of each program, in a directory of its own under `profile_dir`, else under this one."""
        self.checkIsFrozen()
        profiling = {
            "debug.allowOutOfMemory": "true",
            "autoReport.directory": str(profile_dir or "."),
            "autoReport.all": "true",
        }
        with translate_errors():
            overridden = [name for name in profiling if name in read_engine_environment()]
        if overridden:
            logger.warning(
                "Profiling setting overridden by environment variable: %s of POPLAR_ENGINE_OPTIONS.",
                ", ".join(overridden),
            )
        self._popart.setEngineOptions({**self._popart.options.get("engineOptions", {}), **profiling})
        return self

    def modelName(self, name: str) -> Options:
        assert isinstance(name, str), f"modelName takes a str, not {name!r}"
        return self.createOrSet(model_name=name)

    def logDir(self, log_dir: str) -> Options:
        return self.set(log_dir=str(log_dir))

    def maxRepeatLogs(self, max_lines: int | None) -> Options:
        return self.set(max_repeat_logs=_UNLIMITED_LOGS if max_lines is None else max_lines)

    def logCycleCount(self, log_cycle_count: bool) -> Options:
        self.set(log_cycle_count=log_cycle_count)
        self._popart.set("instrumentWithHardwareCycleCounter", log_cycle_count)
        return self

    def enableStableNorm(self, enabled: bool) -> Options:
        self._popart.set("enableStableNorm", enabled)
        return self

    def enableSyntheticData(self, enabled: bool) -> Options:
        self._popart.set("syntheticDataMode", _RANDOM_NORMAL if enabled else 0)
        return self

    def showCompilationProgressBar(self, show: bool = True) -> Options:
        return self.set(show_compilation_progress_bar=show)

    def relaxOptimizerAttributesChecks(self, relax: bool = True) -> Options:
        return self.set(relax_optimizer_checks=relax)

    def sourceLocationExcludes(self, excludes: list[str]) -> Options:
        assert isinstance(excludes, list), f"sourceLocationExcludes takes a list of str, not {excludes!r}"
        return self.set(source_location_excludes=list(excludes))

    def appendToLocationExcludes(self, *excludes: str) -> Options:
        return self.set(source_location_excludes=[*self.source_location_excludes, *excludes])

    def disableModuleNamescope(self) -> Options:
        return self.set(module_namescope_enabled=False)

    def updatableNamedBuffers(self, buffers: Iterable[str]) -> Options:
        assert isinstance(buffers, list | tuple), f"updatableNamedBuffers takes a list of names, not {buffers!r}"
        return self.createOrSet(updatable_named_buffers=list(buffers))

    def loadFromFile(self, filepath: str) -> Options:
        """Apply a file with one setter a line, e.g. `deviceIterations(4)`. No Python of it is run."""
        apply_file(self, filepath)
        return self

    def from_json(self, string: str) -> Options:
        """Apply a JSON object of setter names and arguments."""
        apply_json(self, string)
        return self

    def toDict(self) -> dict[str, Any]:
        """All values, of all groups, in one dictionary."""
        assert not self.defaultOutputMode(), "An output mode must be picked before serialisation"
        merged = super().toDict()
        for group in self._groups:
            merged.update(group.toDict())
        return merged

    def _freeze(self) -> None:
        super()._freeze()
        for group in self._groups:
            group._freeze()

    def _unfreeze(self) -> None:
        super()._unfreeze()
        for group in self._groups:
            group._unfreeze()

    def __repr__(self) -> str:
        parts = ["Options(\n", self._describe("  "), f"  execution_strategy={self._execution_strategy!r},\n"]
        names = ("Jit", "Precision", "Training", "Distributed", "TensorLocations", "_Popart")
        for name, group in zip(names, self._groups, strict=True):
            parts.append(f"  {name}=(\n{group._describe('    ')}  ),\n")
        return "".join([*parts, ")"])
