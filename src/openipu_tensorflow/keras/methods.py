"""The original's methods of models, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from openipu_tensorflow.keras import options as checks
from openipu_tensorflow.keras.options import ModelOptions
from openipu_tensorflow.keras.reductions import ReplicatedMetricReductionMethod
from openipu_tensorflow.keras.stages import assigning
from openipu_tensorflow.keras.stages.summary import print_summary

_OPTIONS = "_ipu_options"


def options_of(model: Any) -> ModelOptions:
    """What was set, or the defaults."""
    found: ModelOptions = model.__dict__.get(_OPTIONS) or ModelOptions()
    return found


def set_options(model: Any, options: ModelOptions) -> None:
    """New ones: what was compiled is for the old."""
    object.__setattr__(model, _OPTIONS, options)
    forget_programs(model)


def forget_programs(model: Any) -> None:
    """What was compiled is for other options."""
    for name in ("train_function", "test_function", "predict_function"):
        function = model.__dict__.get(name)
        if hasattr(function, "forget"):
            function.forget()
        object.__setattr__(model, name, None)


def set_gradient_accumulation_options(
    self: Any,
    gradient_accumulation_steps_per_replica: int | None = None,
    gradient_accumulation_reduction_method: Any = "sum",
    use_v2_gradient_accumulation_optimizer: bool = False,
    **gradient_accumulation_optimizer_kwargs: Any,
) -> None:
    """Add up gradients of so many micro-batches before an update.

    `use_v2_gradient_accumulation_optimizer` chooses between two optimizers of the original with the same results.
    """
    set_options(
        self,
        checks.set_accumulation(
            options_of(self),
            gradient_accumulation_steps_per_replica,
            gradient_accumulation_reduction_method,
            gradient_accumulation_optimizer_kwargs,
        ),
    )


def set_pipelining_options(
    self: Any,
    gradient_accumulation_steps_per_replica: int | None = None,
    device_mapping: list[int] | None = None,
    accumulate_outfeed: bool | None = None,
    gradient_accumulation_reduction_method: Any = "sum",
    **pipelining_kwargs: Any,
) -> None:
    """How the stages of a pipelined model work together."""
    set_options(
        self,
        checks.set_pipelining(
            options_of(self),
            gradient_accumulation_steps_per_replica,
            device_mapping,
            accumulate_outfeed,
            gradient_accumulation_reduction_method,
            pipelining_kwargs,
        ),
    )


def set_infeed_queue_options(self: Any, **kwargs: Any) -> None:
    """How data reach the device."""
    set_options(self, checks.set_infeed(options_of(self), kwargs))


def set_outfeed_queue_options(self: Any, **kwargs: Any) -> None:
    """How results come back."""
    set_options(self, checks.set_outfeed(options_of(self), kwargs))


def set_replication_options(self: Any, replicated_metric_reduction_method: Any = "NONE") -> None:
    """What is shown of metrics that each replica has for itself."""
    method = ReplicatedMetricReductionMethod.parse(replicated_metric_reduction_method)
    set_options(self, checks.replace_options(options_of(self), metric_reduction=method))


def set_asynchronous_callbacks(self: Any, asynchronous: bool = False) -> None:
    """Call callbacks for each step, instead of once for each execution."""
    set_options(self, checks.replace_options(options_of(self), asynchronous_callbacks=bool(asynchronous)))


def get_pipeline_stage_assignment(self: Any) -> list[Any]:
    """Which stage each layer is in, in the order in which they run."""
    return assigning.describe(self)


def set_pipeline_stage_assignment(self: Any, pipeline_stage_assignment: list[Any]) -> None:
    """Put each layer on a stage."""
    assigning.assign(self, pipeline_stage_assignment)
    forget_programs(self)


def reset_pipeline_stage_assignment(self: Any) -> None:
    """The model is not pipelined any more."""
    assigning.reset(self)
    forget_programs(self)


def print_pipeline_stage_assignment_summary(
    self: Any, line_length: int | None = None, print_fn: Callable[[str], object] | None = None
) -> None:
    """A table of layers and stages."""
    print_summary(self, line_length, print_fn)


def export_for_ipu_serving(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Programs for TensorFlow Serving on IPUs."""
    raise NotImplementedError(
        "export_for_ipu_serving() writes programs for TensorFlow Serving on IPUs, which openipu does not make. "
        "model.export() writes a SavedModel for stock TensorFlow."
    )


METHODS: Mapping[str, Callable[..., Any]] = {
    method.__name__: method
    for method in (
        set_gradient_accumulation_options,
        set_pipelining_options,
        set_infeed_queue_options,
        set_outfeed_queue_options,
        set_replication_options,
        set_asynchronous_callbacks,
        get_pipeline_stage_assignment,
        set_pipeline_stage_assignment,
        reset_pipeline_stage_assignment,
        print_pipeline_stage_assignment_summary,
        export_for_ipu_serving,
    )
}
