"""The options of `pipeline`, checked.

In: its arguments. Out: a `PipelineOptions`, or the original's error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from openipu.graph import TensorRole
from openipu_tensorflow.ipu.configuration.run_options import check_library, read_proportion, wants_half_partials
from openipu_tensorflow.ipu.gradient_accumulation import GradientAccumulationReductionMethod
from openipu_tensorflow.ipu.pipelines.enums import (
    PipelineSchedule,
    PipelineStageOptions,
    RecomputationMode,
    parse_enumeration,
)


@dataclass(frozen=True, kw_only=True)
class PipelineOptions:
    """How a pipeline runs."""

    count: Any  # micro-batches of an update: a whole number, or a tensor
    repeat_count: int
    schedule: PipelineSchedule
    recomputation: RecomputationMode
    devices: tuple[Any, ...]  # of each stage: a number, or several
    reduction: GradientAccumulationReductionMethod
    off_chip: tuple[TensorRole, ...] = ()
    shares: tuple[TensorRole, ...] = ()
    offload_state: bool = False
    memory_proportions: tuple[tuple[int, float], ...] = ()
    half_partials: bool = False


def check_stages(stages: Any, training: bool, given: dict[str, Any]) -> tuple[PipelineSchedule, tuple[Any, ...]]:
    """The schedule, and the devices of the stages."""
    serial = given["batch_serialization_iterations"]
    if isinstance(serial, bool) or not isinstance(serial, int) or serial < 1:
        raise ValueError(f"batch_serialization_iterations must be at least 1, and is {serial!r}.")
    default = PipelineSchedule.Sequential if serial > 1 else PipelineSchedule.Grouped
    schedule = parse_enumeration(given["pipeline_schedule"], PipelineSchedule, default, "pipeline_schedule")
    if serial > 1 and schedule is not PipelineSchedule.Sequential:
        raise NotImplementedError("Batch serialization is only supported with the `Sequential` schedule.")
    if not isinstance(stages, (list, tuple)):
        raise TypeError("computational_stages argument needs to be a list or a tuple.")
    if len(stages) < 2:
        raise ValueError("Pipeline requires at least two computational stages.")
    mapping = given["device_mapping"]
    if mapping is None:
        mapping = [0] * len(stages) if serial > 1 else _map_in_order(stages)
    if not isinstance(mapping, (list, tuple)):
        raise TypeError("device_mapping argument needs to be a list or a tuple.")
    if len(mapping) != len(stages):
        raise ValueError(f"Each stage must be mapped to an IPU: {len(mapping)} mappings != {len(stages)} stages")
    flat = [entry for place in mapping for entry in (place if isinstance(place, (list, tuple)) else [place])]
    if schedule is PipelineSchedule.Interleaved and training and len(flat) != len(set(flat)):
        raise NotImplementedError(
            "The pipelining schedule 'Interleaved' trains a model only if each stage has an IPU of its own. "
            "Choose another schedule, or another device_mapping."
        )
    if serial > 1 and len(set(flat)) != 1:
        raise NotImplementedError(
            "When using batch serialization, all the pipeline stages need to be mapped to a single IPU."
        )
    return schedule, tuple(mapping)


def _map_in_order(stages: Sequence[Any]) -> list[Any]:
    made: list[Any] = []
    following = 0
    for stage in stages:
        size = len(stage) if isinstance(stage, (list, tuple)) else 0
        made.append(list(range(following, following + size)) if size else following)
        following += size or 1
    return made


def build_options(stages: Any, count: Any, training: bool, given: dict[str, Any]) -> PipelineOptions:
    """Every argument of `pipeline` but stages, inputs and queues."""
    count = _read_count(count)
    method = GradientAccumulationReductionMethod.parse(given["reduction_method"])
    if method is not GradientAccumulationReductionMethod.SUM and given["batch_serialization_iterations"] != 1:
        raise ValueError(
            "batch_serialization_iterations != 1 is only supported when reduction_method is "
            "GradientAccumulationReductionMethod.SUM"
        )
    if given["continuous_weight_updates"]:
        raise NotImplementedError("Continuous weight updates are currently not supported.")
    schedule, devices = check_stages(stages, training, given)
    mode = parse_enumeration(
        given["recomputation_mode"], RecomputationMode, RecomputationMode.Auto, "recomputation_mode"
    )
    repeats = given["repeat_count"]
    if isinstance(repeats, float) and repeats.is_integer():
        repeats = int(repeats)  # the result of a division, as programs write it
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise ValueError(f"repeat_count must be at least 1, and is {repeats!r}.")
    offload_state = given["offload_weight_update_variables"]
    if given["replicated_optimizer_state_sharding"] and offload_state is False:
        raise ValueError(
            "replicated_optimizer_state_sharding is True, and then the optimizer state must be offloaded: leave out "
            "offload_weight_update_variables=False."
        )
    if mode is RecomputationMode.Auto:
        interleaves = schedule is PipelineSchedule.Sequential
        mode = (
            RecomputationMode.RecomputeAndBackpropagateInterleaved
            if interleaves
            else RecomputationMode.RecomputeThenBackpropagate
        )
    own = _read_stage_options(stages, devices, training, given)
    return PipelineOptions(
        count=count * given["batch_serialization_iterations"],  # a stage runs over so many before the next one does
        repeat_count=repeats,
        schedule=schedule,
        recomputation=mode,
        devices=devices,
        reduction=method,
        off_chip=_list_off_chip(given),
        shares=_list_shares(given),
        offload_state=bool(offload_state),
        memory_proportions=own.memory_proportions,
        half_partials=own.half_partials,
    )


def _read_count(count: Any) -> Any:
    if count is None:
        raise ValueError("gradient_accumulation_count must be specified.")
    if hasattr(count, "op"):
        from tensorflow.python.framework import tensor_util

        known = tensor_util.constant_value(count)
        if known is None:
            return count
        count = int(known)
    if isinstance(count, bool) or not hasattr(count, "__index__"):
        raise TypeError(f"gradient_accumulation_count must be a whole number, not {count!r}.")
    if count.__index__() < 1:
        raise ValueError("gradient_accumulation_count must be >= 1.")
    if count.__index__() >= 2**31 - 1:
        raise ValueError("gradient_accumulation_count must be < max int32.")
    return count.__index__()


def _list_off_chip(given: dict[str, Any]) -> tuple[TensorRole, ...]:
    roles = {
        TensorRole.ACTIVATION: given["offload_activations"],
        TensorRole.ACCUMULATOR: given["offload_gradient_accumulation_buffers"],
        TensorRole.WEIGHT: given["offload_weights"],
        TensorRole.OPTIMIZER: given["offload_weight_update_variables"],
    }
    return tuple(role for role, wanted in roles.items() if wanted)


def _list_shares(given: dict[str, Any]) -> tuple[TensorRole, ...]:
    roles = {
        TensorRole.WEIGHT: given["replicated_weight_sharding"],
        TensorRole.OPTIMIZER: given["replicated_optimizer_state_sharding"],
    }
    return tuple(role for role, wanted in roles.items() if wanted)


@dataclass(frozen=True)
class _StageOptions:
    memory_proportions: tuple[tuple[int, float], ...]
    half_partials: bool


def _read_stage_options(
    stages: Sequence[Any], devices: tuple[Any, ...], training: bool, given: dict[str, Any]
) -> _StageOptions:
    """What options of stages say of the memory of an IPU, and of partials; the smallest proportion counts where several
    stages share an IPU, and half partials of one stage for all."""
    names = ["forward_propagation_stages_poplar_options"]
    names += ["backward_propagation_stages_poplar_options"] if training else []
    found: dict[int, float] = {}
    half = False
    for name in names:
        options = given[name]
        if options is None:
            continue
        if not isinstance(options, (list, tuple)) or len(options) != len(stages):
            kind = TypeError if not isinstance(options, (list, tuple)) else ValueError
            raise kind(
                f"{name} must be a list or a tuple of PipelineStageOptions objects of length {len(stages)} (same "
                "number as the number of computational stages)."
            )
        for number, (entry, place) in enumerate(zip(options, devices, strict=True)):
            if not isinstance(entry, PipelineStageOptions):
                raise TypeError(
                    f"Expected all elements of {name} to be of type PipelineStageOptions, but got {entry} instead."
                )
            products = _check_libraries(f"{name}[{number}]", entry)
            half = half or any(wants_half_partials(library) for library in products)
            shares = [share for library in products if (share := read_proportion(library)) is not None]
            for ipu in place if isinstance(place, (list, tuple)) else [place]:
                if shares and ipu >= 0:
                    found[ipu] = min(*shares, found.get(ipu, 1.0))
    update = given["weight_update_poplar_options"]
    if training and update is not None:
        if not isinstance(update, PipelineStageOptions):
            raise TypeError(
                f"weight_update_poplar_options to be of type PipelineStageOptions, but got {update} instead."
            )
        _check_libraries("weight_update_poplar_options", update)
    return _StageOptions(tuple(sorted(found.items())), half)


def _check_libraries(title: str, entry: PipelineStageOptions) -> list[dict[str, str]]:
    """Options of convolutions and matrix products; those of slices are checked as well."""
    check_library(f"{title}.slice_options", "slices", entry.slice_options)
    return [
        check_library(f"{title}.convolution_options", "convolutions", entry.convolution_options),
        check_library(f"{title}.matmul_options", "matmuls", entry.matmul_options),
    ]
