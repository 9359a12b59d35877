"""What a model's `set_…` methods have said.

In: their arguments. Out: `ModelOptions`, checked; or the original's error. What each option does stands in
`effects.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from openipu_tensorflow.ipu.gradient_accumulation import GradientAccumulationReductionMethod
from openipu_tensorflow.keras.effects import (
    GRADIENT_ACCUMULATION_OPTIONS,
    INFEED_OPTIONS,
    OUTFEED_OPTIONS,
    PIPELINING_OPTIONS,
)
from openipu_tensorflow.keras.reductions import ReplicatedMetricReductionMethod

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_MOVED = {  # argument of `pipelining_ops.pipeline`: argument of `set_pipelining_options`
    "gradient_accumulation_count": "gradient_accumulation_steps_per_replica",
    "device_mapping": "device_mapping",
    "accumulate_outfeed": "accumulate_outfeed",
}
_AUTOMATIC = ("computational_stages", "repeat_count", "inputs", "infeed_queue", "outfeed_queue", "optimizer_function")
_INCOMPATIBLE = ("outfeed_loss", "outfeed_mask", "batch_serialization_iterations")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """How a model runs on IPUs."""

    accumulation: int | None = None  # of a model that is not pipelined
    accumulation_reduction: GradientAccumulationReductionMethod = GradientAccumulationReductionMethod.SUM
    accumulation_options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    pipeline_accumulation: int | None = None
    pipeline_reduction: GradientAccumulationReductionMethod = GradientAccumulationReductionMethod.SUM
    device_mapping: tuple[int, ...] | None = None
    accumulate_outfeed: bool = False
    pipeline_options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    infeed_options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    outfeed_options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    metric_reduction: ReplicatedMetricReductionMethod = ReplicatedMetricReductionMethod.NONE
    asynchronous_callbacks: bool = False


def set_accumulation(options: ModelOptions, steps: Any, reduction: Any, given: Mapping[str, Any]) -> ModelOptions:
    """`set_gradient_accumulation_options`."""
    name = "gradient_accumulation_optimizer_kwargs"
    for refused, instead in {
        "opt": "The optimizer that the model was compiled with is used.",
        "num_mini_batches": "Set `gradient_accumulation_steps_per_replica` instead.",
    }.items():
        if refused in given:
            raise ValueError(f"Found `{refused}` key in `{name}`. {instead}")
    _refuse_normalization(given, "set_gradient_accumulation_options")
    _check_names(given, GRADIENT_ACCUMULATION_OPTIONS, "set_gradient_accumulation_options")
    return dataclasses.replace(
        options,
        accumulation=options.accumulation if steps is None else _check_steps(steps),
        accumulation_reduction=GradientAccumulationReductionMethod.parse(reduction),
        accumulation_options=MappingProxyType(dict(given)) if given else options.accumulation_options,
    )


def set_pipelining(
    options: ModelOptions, steps: Any, mapping: Any, accumulate_outfeed: Any, reduction: Any, given: Mapping[str, Any]
) -> ModelOptions:
    """`set_pipelining_options`."""
    for name, instead in _MOVED.items():
        if name in given:
            raise ValueError(
                f"Found `{name}` key in `pipelining_kwargs`. Set the `{instead}` argument to `set_pipelining_options` "
                "instead."
            )
    for name in _AUTOMATIC:
        if name in given:
            raise ValueError(f"Found `{name}` key in `pipelining_kwargs`. This argument is automatically set by Keras.")
    for name in _INCOMPATIBLE:
        if name in given:
            raise ValueError(f"Found `{name}` key in `pipelining_kwargs`. This argument is not compatible with Keras.")
    _refuse_normalization(given, "set_pipelining_options")
    _check_names(given, PIPELINING_OPTIONS, "set_pipelining_options")
    if mapping is not None and (
        not isinstance(mapping, (list, tuple)) or any(type(entry) is not int or entry < 0 for entry in mapping)
    ):
        raise ValueError(f"Expected `device_mapping` to be a list of integers, one for each stage, not {mapping!r}.")
    return dataclasses.replace(
        options,
        pipeline_accumulation=options.pipeline_accumulation if steps is None else _check_steps(steps),
        pipeline_reduction=GradientAccumulationReductionMethod.parse(reduction),
        device_mapping=options.device_mapping if mapping is None else tuple(mapping),
        accumulate_outfeed=options.accumulate_outfeed if accumulate_outfeed is None else bool(accumulate_outfeed),
        pipeline_options=MappingProxyType(dict(given)) if given else options.pipeline_options,
    )


def set_infeed(options: ModelOptions, given: Mapping[str, Any]) -> ModelOptions:
    """`set_infeed_queue_options`."""
    if "dataset" in given:
        raise ValueError("Found `dataset` key in `kwargs`. This argument is automatically set by Keras.")
    _check_names(given, INFEED_OPTIONS, "set_infeed_queue_options")
    depth = given.get("prefetch_depth")
    if depth is not None and (type(depth) is not int or not 0 < depth < 256):
        raise ValueError(f"prefetch_depth must be > 0 and < 256, and is {depth!r}.")
    return dataclasses.replace(options, infeed_options=MappingProxyType(dict(given)))


def set_outfeed(options: ModelOptions, given: Mapping[str, Any]) -> ModelOptions:
    """`set_outfeed_queue_options`."""
    for name in ("outfeed_mode", "device_ordinal"):
        if name in given:
            raise ValueError(f"Found `{name}` key in `kwargs`. This argument is not compatible with Keras.")
    _check_names(given, OUTFEED_OPTIONS, "set_outfeed_queue_options")
    return dataclasses.replace(options, outfeed_options=MappingProxyType(dict(given)))


def _check_steps(steps: Any) -> int:
    if type(steps) is not int or steps < 1:
        raise ValueError(
            f"Expected `gradient_accumulation_steps_per_replica` to be a positive integer, but got {steps} instead."
        )
    return steps


def _refuse_normalization(given: Mapping[str, Any], function: str) -> None:
    if "experimental_normalize_gradients" in given:
        raise ValueError(
            f"Found `experimental_normalize_gradients` argument to `{function}`. It is no more: use "
            "`gradient_accumulation_reduction_method`."
        )


def _check_names(given: Mapping[str, Any], known: Mapping[str, str], function: str) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise TypeError(f"{function}() got an unexpected keyword argument {unknown[0]!r}; it knows {', '.join(known)}.")


def replace_options(options: ModelOptions, **changes: Any) -> ModelOptions:
    """The same, but for some."""
    return dataclasses.replace(options, **changes)
