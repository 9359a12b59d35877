"""An IPUConfig as PopTorch options.

In: a configuration, and whether it is for inference. Out: `poptorch.Options`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

import poptorch
from optimum.graphcore._config_fields import AUTO, IncompatibleIPUConfigError

if TYPE_CHECKING:
    from optimum.graphcore.ipu_configuration import IPUConfig

_OUTPUT_MODES = {
    "all": poptorch.OutputMode.All,
    "sum": poptorch.OutputMode.Sum,
    "final": poptorch.OutputMode.Final,
    "default": poptorch.OutputMode.Default,
}
# The compiler options that go with every configuration. They are stored, so that the options read as users know them.
_OVERLAP_MEMORY_OPTIMIZED = 3  # of the schedules for the update of several IPUs
_JUST_IN_TIME = 1  # of the strategies to copy inputs of outlined code
_POPART: dict[str, Any] = {
    "disableGradAccumulationTensorStreams": True,
    "accumulateOuterFragmentSettings.schedule": _OVERLAP_MEMORY_OPTIMIZED,
    "accumulateOuterFragmentSettings.excludedVirtualGraphs": ["0"],
    "outlineThreshold": 10.0,
    "subgraphCopyingStrategy": _JUST_IN_TIME,
    "scheduleNonWeightUpdateGradientConsumersEarly": True,
    "engineOptions": {"opt.useAutoloader": "true", "target.syncReplicasIndependently": "true"},
}
_PATTERNS = {"TiedGather": True, "TiedGatherAccumulate": True, "UpdateInplacePrioritiesForIpu": True}


def build_options(config: IPUConfig, for_inference: bool, compile_only: bool) -> poptorch.Options:
    """The options for one mode; the mode that the configuration is in does not change."""
    prefix = "inference_" if for_inference else ""
    _check_ready(config, prefix)
    options = poptorch.Options()
    options.autoRoundNumIPUs(True)
    options.replicationFactor(getattr(config, f"{prefix}replication_factor"))
    options.deviceIterations(getattr(config, f"{prefix}device_iterations"))
    if for_inference:
        options.outputMode(poptorch.OutputMode.All)
        options.setExecutionStrategy(poptorch.ShardedExecution(poptorch.AutoStage.AutoIncrement))
    else:
        options.outputMode(_OUTPUT_MODES[config.output_mode])
        options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
        _set_training(options, config)
    if config.seed is not None:
        options.randomSeed(config.seed)
    options.TensorLocations.setOptimizerLocation(
        poptorch.TensorLocationSettings()
        .useOnChipStorage(not config.optimizer_state_offchip)
        .useReplicatedTensorSharding(config.replicated_tensor_sharding and options.replication_factor > 1)
    )
    if compile_only:
        options.useOfflineIpuTarget()
    options.setAvailableMemoryProportion(_list_proportions(config, prefix))
    if config.executable_cache_dir not in ("", "disabled"):
        options.enableExecutableCaching(config.executable_cache_dir)
    options.Precision.enableStochasticRounding(not for_inference)
    if config.enable_half_partials:
        options.Precision.setPartialsType(torch.float16)
    for name, value in _POPART.items():
        options._Popart.set(name, value)
    options._Popart.setPatterns(dict(_PATTERNS))
    if for_inference and config.explicit_ir_inference:
        options._Popart.set("enableExplicitIR", True)
    return options


def _check_ready(config: IPUConfig, prefix: str) -> None:
    if config.execute_encoder_on_cpu_for_generation:
        raise NotImplementedError(
            "execute_encoder_on_cpu_for_generation is not supported yet. Leave it out: encoder and decoder run as two "
            "programs."
        )
    if getattr(config, f"{prefix}layers_per_ipu") == AUTO:
        raise IncompatibleIPUConfigError(
            f'{prefix}layers_per_ipu="auto" is not settled yet: it depends on the model and the shapes. The trainer '
            "settles it from its first batch; elsewhere call IPUConfig.auto(model, example_inputs=…)."
        )


def _set_training(options: poptorch.Options, config: IPUConfig) -> None:
    options.Training.gradientAccumulation(config.gradient_accumulation_steps)
    options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Mean)
    if config.auto_loss_scaling:
        options.Training.setAutomaticLossScaling(True)


def _list_proportions(config: IPUConfig, prefix: str) -> dict[str, float]:
    proportion = getattr(config, f"{prefix}matmul_proportion")
    ipus = getattr(config, f"{prefix}ipus_per_replica")
    values = proportion if isinstance(proportion, list) else [float(proportion)] * ipus
    return {f"IPU{ipu}": value for ipu, value in enumerate(values)}
