"""Settings in the words of Paddle on IPUs: an `IpuStrategy`.

In: settings, and the plan that they lead to. Out: one line.
"""

from __future__ import annotations

from collections.abc import Sequence

from openipu.explore.levers.types import LeverKind, Setting
from openipu.plan import Plan

_LOCATIONS = {
    LeverKind.SHARED_STATE: ("location_optimizer", '"use_replicated_tensor_sharding": 1'),
    LeverKind.STATE_OFF_CHIP: ("location_optimizer", '"on_chip": 0'),
    LeverKind.ACTIVATIONS_OFF_CHIP: ("location_activation", '"on_chip": 0'),
    LeverKind.WEIGHTS_OFF_CHIP: ("location_weight", '"on_chip": 0'),
}
_RECOMPUTE_STANDARD, _RECOMPUTE_PIPELINE, _RECOMPUTE_ALL = 1, 3, 4


def word_paddle(settings: Sequence[Setting], plan: Plan) -> str:
    """One line that makes all of the settings."""
    graph: list[str] = []
    options: list[str] = []
    lines: list[str] = []
    located: dict[str, list[str]] = {}
    for setting in settings:
        value = setting.value
        match setting.kind:
            case LeverKind.MEMORY_PROPORTION:
                options.append(f'"available_memory_proportion": {value:g}')
            case LeverKind.HALF_PARTIALS:
                options.append('"partials_type_matmuls": "half"')
            case LeverKind.HALF_PRECISION:
                lines.append("ipu_strategy.set_precision_config(enable_fp16=True)")
            case LeverKind.RECOMPUTE:
                options.append(f'"auto_recomputation": {_RECOMPUTE_STANDARD}')
            case LeverKind.CHECKPOINTS:
                mode = _RECOMPUTE_PIPELINE if plan.pipeline is not None else _RECOMPUTE_ALL
                options.append(f'"auto_recomputation": {mode}')
            case LeverKind.SERIALISED_PRODUCTS:
                pieces = f"[paddle.matmul(x, piece) for piece in paddle.split(w, {value}, axis=1)]"
                lines.append(f"paddle.concat({pieces}, axis=-1)")  # no option does it
            case LeverKind.MICRO_BATCH:
                graph.append(f"micro_batch_size={value}")
            case LeverKind.MORE_IPUS:
                graph.append(f"num_ipus={value}, is_training={plan.options.training}, enable_manual_shard=True")
                lines.append("ipu_strategy.set_pipelining_config(enable_pipelining=True)")
            case _:
                role, change = _LOCATIONS[setting.kind]
                located.setdefault(role, []).append(change)
        if setting.rounds is not None:
            name = "accumulation_factor" if plan.options.training else "batches_per_step"
            options.append(f'"{name}": {setting.rounds}')
    options += [f'"{role}": {{{", ".join(changes)}}}' for role, changes in located.items()]
    chosen = [f"ipu_strategy.set_graph_config({', '.join(graph)})"] if graph else []
    return "; ".join([*chosen, *lines, *([f"ipu_strategy.set_options({{{', '.join(options)}}})"] if options else [])])
