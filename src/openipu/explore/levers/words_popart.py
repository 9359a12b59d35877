"""Settings in the words of PopART: session options and calls of the builder.

In: settings, and the plan that they lead to. Out: one line. `out` stands for the name of a product's or layer's result.
"""

from __future__ import annotations

from collections.abc import Sequence

from openipu.explore.levers.types import LeverKind, Setting
from openipu.plan import Plan

_SHARED = "replicatedTensorSharding = popart.ReplicatedTensorSharding.On"
_OFF_CHIP = "storage = popart.TensorStorage.OffChip"
_LOCATIONS = {
    LeverKind.SHARED_STATE: ("optimizerState", _SHARED),
    LeverKind.STATE_OFF_CHIP: ("optimizerState", _OFF_CHIP),
    LeverKind.ACTIVATIONS_OFF_CHIP: ("activation", _OFF_CHIP),
    LeverKind.WEIGHTS_OFF_CHIP: ("weight", _OFF_CHIP),
}


def word_popart(settings: Sequence[Setting], plan: Plan) -> str:
    """One line that makes all of the settings."""
    return "; ".join(_word_setting(setting, plan) for setting in settings)


def _word_setting(setting: Setting, plan: Plan) -> str:
    value = setting.value
    match setting.kind:
        case LeverKind.MEMORY_PROPORTION:
            return f"builder.setAvailableMemoryProportion(out, {value:g}) for each product and convolution"
        case LeverKind.HALF_PARTIALS:
            return 'opts.partialsTypeMatMuls = "half"; builder.setPartialsType(out, "half") for each convolution'
        case LeverKind.HALF_PRECISION:
            return "popart.GraphTransformer(model).convertFloatsToHalfs()"
        case LeverKind.RECOMPUTE:
            return "opts.autoRecomputation = popart.RecomputationType.Standard"
        case LeverKind.CHECKPOINTS:
            mode = "Pipeline" if plan.pipeline is not None else "RecomputeAll"
            after = "builder.checkpointOutput([out]) after each layer"
            return f"opts.autoRecomputation = popart.RecomputationType.{mode}, with {after}"
        case LeverKind.SERIALISED_PRODUCTS:
            return f'builder.setSerializeMatMul({{out}}, "output_channels", {value})'
        case LeverKind.MICRO_BATCH:
            return f"a model whose inputs have a batch of {value}{_word_rounds(setting, plan)}"
        case LeverKind.MORE_IPUS:
            chosen = "opts.virtualGraphMode = popart.VirtualGraphMode.Auto; opts.enablePipelining = True"
            return f"{chosen}, on a device of {value} IPUs{_word_rounds(setting, plan)}"
        case _:
            name, change = _LOCATIONS[setting.kind]
            return f"opts.{name}TensorLocationSettings.location.{change}"


def _word_rounds(setting: Setting, plan: Plan) -> str:
    if setting.rounds is None:
        return ""
    if plan.options.training:
        return f"; opts.enableGradientAccumulation = True; opts.accumulationFactor = {setting.rounds}"
    return f"; popart.DataFlow({setting.rounds}, anchors)"
