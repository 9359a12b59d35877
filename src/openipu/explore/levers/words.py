"""The same setting in the words of each front end: one line to paste.

In: settings. Out: a line of PopTorch options, of an `IPUConfig`, of Lightning's strategy, or of openipu's own. The
words of PopART, TensorFlow, Keras and Paddle are in modules of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from openipu.explore.levers.types import FrontEnd, LeverKind, Setting
from openipu.explore.levers.words_paddle import word_paddle
from openipu.explore.levers.words_popart import word_popart
from openipu.explore.levers.words_tensorflow import word_tensorflow
from openipu.plan import Plan

_LOCATIONS = {  # lever -> (role in PopTorch, role here, setting in PopTorch, setting here)
    LeverKind.SHARED_STATE: ("Optimizer", "OPTIMIZER", "useReplicatedTensorSharding(True)", "replicated_sharding=True"),
    LeverKind.STATE_OFF_CHIP: ("Optimizer", "OPTIMIZER", "useOnChipStorage(False)", "on_chip=False"),
    LeverKind.ACTIVATIONS_OFF_CHIP: ("Activation", "ACTIVATION", "useOnChipStorage(False)", "on_chip=False"),
    LeverKind.WEIGHTS_OFF_CHIP: ("Weight", "WEIGHT", "useOnChipStorage(False)", "on_chip=False"),
}


def word_settings(settings: Sequence[Setting], front_end: FrontEnd, plan: Plan) -> str:
    """One line that makes all of the settings; `plan` is the one that they lead to. Empty where there is none."""
    match front_end:
        case FrontEnd.OPENIPU:
            return _word_openipu(settings)
        case FrontEnd.OPTIMUM:
            return _word_optimum(settings, plan)
        case FrontEnd.POPART:
            return word_popart(settings, plan)
        case FrontEnd.TENSORFLOW | FrontEnd.KERAS:
            return word_tensorflow(settings, plan, keras=front_end is FrontEnd.KERAS)
        case FrontEnd.PADDLE:
            return word_paddle(settings, plan)
    line = _word_poptorch(settings, plan)
    if front_end is FrontEnd.LIGHTNING:
        return f"{line}  # for IPUStrategy({'training' if plan.options.training else 'inference'}_opts=opts)"
    return line


def _word_poptorch(settings: Sequence[Setting], plan: Plan) -> str:
    located: dict[str, list[str]] = {}
    lines: list[str] = []
    for setting in settings:
        if setting.kind in _LOCATIONS:
            role, _, change, _ = _LOCATIONS[setting.kind]
            located.setdefault(role, []).append(change)
        else:
            lines.append(_word_poptorch_setting(setting, plan))
    for role, changes in located.items():
        place = ".".join(["poptorch.TensorLocationSettings()", *changes])
        lines.append(f"opts.TensorLocations.set{role}Location({place})")
    return "; ".join(lines)


def _word_poptorch_setting(setting: Setting, plan: Plan) -> str:
    value = setting.value
    match setting.kind:
        case LeverKind.MEMORY_PROPORTION:
            shares = ", ".join(f'"IPU{ipu}": {value:g}' for ipu in range(plan.ipus))
            return f"opts.setAvailableMemoryProportion({{{shares}}})"
        case LeverKind.HALF_PARTIALS:
            return "opts.Precision.setPartialsType(torch.half)"
        case LeverKind.HALF_PRECISION:
            return "model.half()"
        case LeverKind.RECOMPUTE:
            return 'opts._Popart.set("autoRecomputation", "Standard")'
        case LeverKind.CHECKPOINTS:
            mode = "Pipeline" if plan.pipeline is not None else "RecomputeAll"
            after = "x = poptorch.recomputationCheckpoint(x)"
            return f'opts._Popart.set("autoRecomputation", "{mode}"), with {after} after each layer'
        case LeverKind.SERIALISED_PRODUCTS:
            mode = "poptorch.MatMulSerializationMode.OutputChannels"
            return f"poptorch.serializedMatMul(x, w, {mode}, factor={value})"
        case LeverKind.MICRO_BATCH:
            return f"poptorch.DataLoader(opts, dataset, batch_size={value}){_word_rounds(setting, plan)}"
        case LeverKind.MORE_IPUS:
            chosen = f"opts.setExecutionStrategy(poptorch.AutomaticExecution(ipus_per_replica={value}))"
            return f"{chosen}{_word_rounds(setting, plan)}"
        case _:
            raise AssertionError(f"{setting.kind} is a tensor location")


def _word_rounds(setting: Setting, plan: Plan) -> str:
    """What else changes with the number of micro-batches."""
    if setting.rounds is None:
        return ""
    name = "Training.gradientAccumulation" if plan.options.training else "deviceIterations"
    return f"; opts.{name}({setting.rounds})"


def _word_optimum(settings: Sequence[Setting], plan: Plan) -> str:
    fields: list[str] = []
    arguments: list[str] = []
    others: list[Setting] = []
    for setting in settings:
        value = setting.value
        match setting.kind:
            case LeverKind.MEMORY_PROPORTION:
                fields.append(f"matmul_proportion={value:g}")
            case LeverKind.SHARED_STATE:
                fields.append("replicated_tensor_sharding=True")
            case LeverKind.STATE_OFF_CHIP:
                fields.append("optimizer_state_offchip=True")
            case LeverKind.CHECKPOINTS:
                fields.append("recompute_checkpoint_every_layer=True")
            case LeverKind.MICRO_BATCH:
                mode = "train" if plan.options.training else "eval"
                arguments.append(f"per_device_{mode}_batch_size={value}")
            case LeverKind.HALF_PRECISION:
                arguments.append("fp32=False")
            case LeverKind.MORE_IPUS:
                fields.append(f'layers_per_ipu="auto", ipus_per_replica={value}')
            case _:
                others.append(setting)
        if setting.rounds is not None:
            name = "gradient_accumulation_steps" if plan.options.training else "inference_device_iterations"
            fields.append(f"{name}={setting.rounds}")
    lines = [f"IPUConfig({', '.join(fields)})"] if fields else []
    if arguments:
        lines.append(f"IPUTrainingArguments({', '.join(arguments)})")
    if others:
        lines.append(f"{_word_poptorch(others, plan)}  # opts = ipu_config.to_options()")
    return "; ".join(lines)


def _word_openipu(settings: Sequence[Setting]) -> str:
    located: dict[str, list[str]] = {}
    changes: list[str] = []
    besides: list[str] = []
    for setting in settings:
        value = setting.value
        match setting.kind:
            case LeverKind.MEMORY_PROPORTION:
                changes.append(f"available_memory_proportion={value:g}")
            case LeverKind.HALF_PARTIALS:
                changes.append("half_partials=True")
            case LeverKind.RECOMPUTE:
                changes.append("recompute=Recompute.STANDARD")
            case LeverKind.CHECKPOINTS:
                changes.append("recompute=Recompute.ALL")
                besides.append('mark_tensor(x, {"checkpoint": True}) after each layer')
            case LeverKind.SERIALISED_PRODUCTS:
                besides.append(f'mark_tensor(product, {{"serialization": ("output_channels", {value})}})')
            case LeverKind.HALF_PRECISION:
                besides.append("halve_job(job)")
            case LeverKind.MICRO_BATCH:
                besides.append(f"scale_job(job, micro_batch={value})")
            case LeverKind.MORE_IPUS:
                besides.append(f"openipu.auto.find_split(job, ipus_per_replica={value})")
            case _:
                _, role, _, change = _LOCATIONS[setting.kind]
                located.setdefault(role, []).append(change)
    if located:
        places = "".join(
            f"(TensorRole.{role}, TensorLocation({', '.join(parts)})), " for role, parts in located.items()
        )
        changes.append(f"locations=({places.rstrip()})")
    return "; ".join([*([f"job.with_options({', '.join(changes)})"] if changes else []), *besides])
