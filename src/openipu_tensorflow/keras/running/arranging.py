"""How a model's programs are put together: replicas, accumulation, stages.

In: a model with its options, its device. Out: `Layout`, and an `Arrangement` that becomes the core's `RunOptions`; or
the original's error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openipu.graph import Recompute, Reduction, Strategy, TensorRole
from openipu_tensorflow.ipu.configuration.run_options import Arrangement
from openipu_tensorflow.ipu.gradient_accumulation import GradientAccumulationReductionMethod
from openipu_tensorflow.keras.options import ModelOptions

_REDUCTIONS = {
    GradientAccumulationReductionMethod.SUM: Reduction.SUM,
    GradientAccumulationReductionMethod.MEAN: Reduction.MEAN,
    GradientAccumulationReductionMethod.RUNNING_MEAN: Reduction.RUNNING_MEAN,
}
_OFF_CHIP = {  # option: whose tensors are kept beside the IPU
    "offload_weight_update_variables": TensorRole.OPTIMIZER,
    "offload_activations": TensorRole.ACTIVATION,
    "offload_gradient_accumulation_buffers": TensorRole.ACCUMULATOR,
    "offload_weights": TensorRole.WEIGHT,
}
_SHARES = {
    "replicated_optimizer_state_sharding": TensorRole.OPTIMIZER,
    "replicated_weight_sharding": TensorRole.WEIGHT,
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Stages and the IPUs that they run on."""

    devices: tuple[int, ...]  # of each stage
    replicas: int

    @property
    def stages(self) -> int:
        return len(self.devices)


def lay_out(stages: int, options: ModelOptions, ipus: int) -> Layout:
    """As many replicas as the device has room for; one takes a power of two of IPUs."""
    mapping = options.device_mapping
    if mapping is not None and stages > 1 and len(mapping) != stages:
        raise ValueError(
            f"`device_mapping` has {len(mapping)} entries, and the model has {stages} pipeline stages: give one IPU "
            "for each stage."
        )
    devices = tuple(range(stages)) if mapping is None or stages == 1 else mapping
    shards = max(devices) + 1
    rounded = 1 << math.ceil(math.log2(shards))
    if shards > ipus:
        raise ValueError(
            f"Current device has {ipus} IPUs attached, however the current model requires a multiple of {rounded} IPUs."
        )
    return Layout(devices, max(1, ipus // rounded))


def find_accumulation(options: ModelOptions, pipelined: bool, steps_per_execution: int) -> int:
    """Micro-batches of one update."""
    steps = options.pipeline_accumulation if pipelined else options.accumulation
    if pipelined and steps is None:
        raise ValueError(
            "The model which you are attempting to train is pipelined, however "
            "`gradient_accumulation_steps_per_replica` has not been set through `set_pipelining_options()`. A pipeline "
            "accumulates gradients when it trains: set it to twice the number of stages or more."
        )
    if steps is None:
        return 1
    if steps_per_execution % steps:
        raise RuntimeError(
            f"The {'pipelined ' if pipelined else ''}model has been configured to use gradient accumulation for "
            f"training, however the current `steps_per_execution` value (set to {steps_per_execution}) is not "
            f"divisible by `gradient_accumulation_steps_per_replica` ({steps}). Adjust either of them."
        )
    return steps


def arrange(options: ModelOptions, layout: Layout, *, training: bool, steps: int, accumulation: int) -> Arrangement:
    """`steps`: of one execution and replica."""
    pipelined = layout.stages > 1
    given = options.pipeline_options if pipelined else options.accumulation_options
    reduction = options.pipeline_reduction if pipelined else options.accumulation_reduction
    if given.get("continuous_weight_updates"):
        raise NotImplementedError("`continuous_weight_updates` is not supported, here as in the original.")
    _check_type(given.get("gradient_accumulation_dtype", given.get("dtype")))
    return Arrangement(
        training=training,
        device_iterations=steps // accumulation,
        gradient_accumulation=accumulation,
        replicas=layout.replicas,
        reduction=_REDUCTIONS[reduction],
        replica_reduction=Reduction.SUM,
        strategy=_choose_strategy(given) if pipelined else Strategy.SHARDED,
        recompute=_choose_recomputation(given) if pipelined and training else None,
        off_chip=tuple(role for name, role in _OFF_CHIP.items() if given.get(name)) if training else (),
        shares=tuple(role for name, role in _SHARES.items() if given.get(name)) if layout.replicas > 1 else (),
        memory_proportions=_list_proportions(given, layout.devices) if pipelined else (),
    )


def _check_type(wanted: Any) -> None:
    import tensorflow as tf

    if wanted is not None and (
        (callable(wanted) and not isinstance(wanted, tf.DType)) or tf.as_dtype(wanted) != tf.float32
    ):
        raise NotImplementedError(
            f"Gradients are accumulated in their own type here, and {wanted!r} asks for another one. Leave it out."
        )


def _choose_strategy(given: Mapping[str, Any]) -> Strategy:
    schedule = getattr(given.get("pipeline_schedule"), "name", "Grouped")
    return Strategy.SHARDED if schedule == "Sequential" else Strategy.PIPELINED


def _choose_recomputation(given: Mapping[str, Any]) -> Recompute | None:
    mode = getattr(given.get("recomputation_mode"), "name", "Auto")
    return None if mode == "Auto" else Recompute.PIPELINE


def _list_proportions(given: Mapping[str, Any], devices: Sequence[int]) -> tuple[tuple[int, float], ...]:
    """The share of memory that each IPU's products may take, from the options of its stages."""
    found: dict[int, float] = {}
    for device, entry in zip(devices, given.get("forward_propagation_stages_poplar_options") or (), strict=False):
        for name in ("matmul_options", "convolution_options"):
            share = (getattr(entry, name, None) or {}).get("availableMemoryProportion")
            if share is not None:
                found[device] = min(float(share), found.get(device, 1.0))
    return tuple(sorted(found.items()))
