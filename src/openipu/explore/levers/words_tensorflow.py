"""Settings in the words of TensorFlow for IPUs, and of Keras on it.

In: settings, and the plan that they lead to. Out: one line. `config` is the IPUConfig; what a pipeline or a gradient
accumulation takes stands in `pipeline(...)` for TensorFlow and in a method of the model for Keras.
"""

from __future__ import annotations

from collections.abc import Sequence

from openipu.explore.levers.types import LeverKind, Setting
from openipu.plan import Plan

_ARGUMENTS = {  # of a pipeline or of gradient accumulation
    LeverKind.SHARED_STATE: "replicated_optimizer_state_sharding=True",
    LeverKind.STATE_OFF_CHIP: "offload_weight_update_variables=True",
    LeverKind.ACTIVATIONS_OFF_CHIP: "offload_activations=True",
    LeverKind.WEIGHTS_OFF_CHIP: "offload_weights=True",
}
_OF_PIPELINES_ALONE = (LeverKind.ACTIVATIONS_OFF_CHIP, LeverKind.WEIGHTS_OFF_CHIP)


def word_tensorflow(settings: Sequence[Setting], plan: Plan, *, keras: bool) -> str:
    """One line that makes all of the settings."""
    lines = [line for setting in settings for line in _word_setting(setting, plan, keras=keras)]
    kinds = [setting.kind for setting in settings if setting.kind in _ARGUMENTS]
    if kinds:
        pipelined = plan.pipeline is not None or any(kind in _OF_PIPELINES_ALONE for kind in kinds)
        given = ", ".join(_ARGUMENTS[kind] for kind in kinds)
        lines.append(_word_arguments(given, pipelined=pipelined, keras=keras))
    return "; ".join(lines)


def _word_arguments(given: str, *, pipelined: bool, keras: bool) -> str:
    if keras:
        name = "set_pipelining_options" if pipelined else "set_gradient_accumulation_options"
        return f"model.{name}({given})"
    return f"{'pipelining_ops.pipeline' if pipelined else 'GradientAccumulationOptimizerV2'}(…, {given})"


def _word_setting(setting: Setting, plan: Plan, *, keras: bool) -> list[str]:
    value = setting.value
    match setting.kind:
        case LeverKind.MEMORY_PROPORTION:
            return [_word_libraries("availableMemoryProportion", f"{value:g}")]
        case LeverKind.HALF_PARTIALS:
            return [_word_libraries("partialsType", "half")]
        case LeverKind.HALF_PRECISION:
            return ['keras.backend.set_floatx("float16")' if keras else "variables and inputs of tf.float16"]
        case LeverKind.RECOMPUTE:
            return ["config.allow_recompute = True"]
        case LeverKind.CHECKPOINTS:
            mark = (
                "x = ipu.keras.layers.RecomputationCheckpoint()(x)"
                if keras
                else "x = pipelining_ops.recomputation_checkpoint(x)"
            )
            return [f"config.allow_recompute = True, with {mark} after each layer"]
        case LeverKind.SERIALISED_PRODUCTS:
            if keras:
                return [f'ipu.keras.layers.SerialDense(units, {value}, "kernel_rows")']
            return [f'ipu.math_ops.serialized_matmul(a, b, {value}, "b_rows")']
        case LeverKind.MICRO_BATCH:
            return [f"dataset.batch({value}, drop_remainder=True){_word_rounds(setting, plan, keras=keras)}"]
        case LeverKind.MORE_IPUS:
            stages = "model.set_pipeline_stage_assignment([…])" if keras else "pipelining_ops.pipeline([stage, …], …)"
            return [f"config.auto_select_ipus = {value}; {stages}{_word_rounds(setting, plan, keras=keras)}"]
        case _:
            return []


def _word_libraries(name: str, value: str) -> str:
    return "; ".join(
        f'config.{library}.poplar_options["{name}"] = "{value}"' for library in ("matmuls", "convolutions")
    )


def _word_rounds(setting: Setting, plan: Plan, *, keras: bool) -> str:
    if setting.rounds is None:
        return ""
    name = "gradient_accumulation_steps_per_replica" if keras else "gradient_accumulation_count"
    if not plan.options.training:
        return f"; model.compile(steps_per_execution={setting.rounds})" if keras else f"; repeat_count={setting.rounds}"
    method = "set_pipelining_options" if plan.pipeline is not None else "set_gradient_accumulation_options"
    return f"; model.{method}({name}={setting.rounds})" if keras else f"; {name}={setting.rounds}"
