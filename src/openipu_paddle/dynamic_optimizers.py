"""Optimizers of Paddle's dynamic mode: what they are, and where they keep their state.

In: a `paddle.optimizer.Optimizer` and the parameters that it trains. Out: an `OptimizerDescription`, and the tensors of
its state by the names that the description has for them. What Paddle loaded with `set_state_dict` is in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from openipu.errors import TranslationError
from openipu.graph import OptimizerKind
from openipu.translate.paddle import OptimizerDescription, ParameterGroup, Rate

Settings = dict[str, Any]


def _betas(optimizer: Any) -> Settings:
    return {"betas": (float(optimizer._beta1), float(optimizer._beta2)), "eps": float(optimizer._epsilon)}


def _adamw(optimizer: Any, parameter: Any) -> Settings:
    choose = optimizer._apply_decay_param_fun
    decays = choose is None or choose(parameter.name)
    return {**_betas(optimizer), "weight_decay": float(optimizer._weight_decay) if decays else 0.0}


def _lamb(optimizer: Any, parameter: Any) -> Settings:
    leave = optimizer._exclude_from_weight_decay_fn
    decay = 0.0 if leave is not None and leave(parameter) else float(optimizer._lamb_weight_decay)
    plain = not decay and not getattr(optimizer, "always_adapt", False)
    return {**_betas(optimizer), "weight_decay": decay, "max_weight_norm": 65504.0, "no_trust_ratio": plain}


def _rmsprop(optimizer: Any, parameter: Any) -> Settings:
    settings = {"alpha": float(optimizer._rho), "eps": float(optimizer._epsilon), "use_tf_variant": True}
    return {**settings, "momentum": float(optimizer._momentum), "centered": bool(optimizer._centered)}


_MOMENTS = {"exp_avg": "moment1", "exp_avg_sq": "moment2", "step": "beta1_pow_acc"}
# class -> kind, settings of one parameter, and Paddle's names of states by the core's
_KNOWN: dict[str, tuple[str, Callable[[Any, Any], Settings], Mapping[str, str]]] = {
    "SGD": ("sgd", lambda o, p: {}, {}),
    "Momentum": (
        "sgd",
        lambda o, p: {"momentum": float(o._momentum), "nesterov": bool(o._use_nesterov)},
        {"momentum_buffer": "velocity"},
    ),
    "Adam": ("adam", lambda o, p: _betas(o), _MOMENTS),
    "AdamW": ("adamw", _adamw, _MOMENTS),
    "Lamb": ("lamb", _lamb, _MOMENTS),
    "Adamax": (
        "adamax",
        lambda o, p: _betas(o),
        {"exp_avg": "moment", "exp_inf": "inf_norm", "step": "beta1_pow_acc"},
    ),
    "Adagrad": ("adagrad", lambda o, p: {"eps": float(o._epsilon)}, {"sum": "moment"}),
    "Adadelta": (
        "adadelta",
        lambda o, p: {"alpha": float(o._rho), "eps": float(o._epsilon)},
        {"square_avg": "_avg_squared_grad", "acc_delta": "_avg_squared_update"},
    ),
    "RMSProp": (
        "rmsprop",
        _rmsprop,
        {"square_avg": "mean_square", "grad_avg": "mean_grad", "momentum_buffer": "momentum"},
    ),
}
_SECOND_POWER = "beta2_pow_acc"


def describe_dynamic(optimizer: Any, parameters: Mapping[str, Any]) -> tuple[OptimizerDescription, dict[str, Any]]:
    """The structure of an optimizer, and the tensors of its state by name. `parameters`: those it trains, by name."""
    kind = type(optimizer).__name__
    if kind not in _KNOWN:
        raise TranslationError(f"The optimizer {kind} is not known in dynamic mode. Known: {', '.join(_KNOWN)}.")
    if any(isinstance(entry, dict) for entry in optimizer._parameter_list or ()):
        raise TranslationError("Groups of parameters are not on an IPU in dynamic mode: give one list of parameters.")
    name, read, slots = _KNOWN[kind]
    groups: dict[Any, list[str]] = {}
    settings_of: dict[Any, Settings] = {}
    for own, parameter in parameters.items():
        settings = {"weight_decay": _read_decay(optimizer, parameter), **read(optimizer, parameter)}
        factor = float((getattr(parameter, "optimize_attr", None) or {}).get("learning_rate", 1.0))
        key = (factor, tuple(sorted(settings.items())))
        groups.setdefault(key, []).append(own)
        settings_of[key] = settings
    found = tuple(ParameterGroup(tuple(names), Rate("", key[0]), settings_of[key]) for key, names in groups.items())
    states, powers, tensors = _find_states(optimizer, parameters, slots)
    betas = found[0].settings.get("betas") if found else None
    return OptimizerDescription(OptimizerKind(name), found, _read_limit(optimizer), states, betas, powers), tensors


def _read_decay(optimizer: Any, parameter: Any) -> float:
    """L2 decay: a parameter's own, else the optimizer's. AdamW and Lamb have decay of another kind."""
    regular = getattr(parameter, "regularizer", None) or getattr(optimizer, "regularization", None)
    if regular is None:
        return 0.0
    if type(regular).__name__ not in ("L2Decay", "L2DecayRegularizer"):
        raise TranslationError(f"{type(regular).__name__} is not on an IPU: decay weights by L2Decay.")
    return float(regular._coeff)


def _read_limit(optimizer: Any) -> float | None:
    clip = getattr(optimizer, "_grad_clip", None)
    if clip is None:
        return None
    if type(clip).__name__ != "ClipGradByGlobalNorm":
        raise TranslationError(f"{type(clip).__name__} is not on an IPU: clip gradients by their global norm.")
    return float(clip.clip_norm)


def _find_states(
    optimizer: Any, parameters: Mapping[str, Any], slots: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str], dict[str, Any]]:
    """Paddle makes the tensors of a state with the first step; here before it, with what was loaded."""
    import paddle

    block = paddle.base.framework.default_main_program().global_block()
    optimizer._create_accumulators(block, list(parameters.values()))
    states: dict[str, str] = {}
    powers: dict[str, str] = {}
    tensors: dict[str, Any] = {}
    for own, parameter in parameters.items():
        for name, slot in (*slots.items(), ("", _SECOND_POWER)):
            if slot not in optimizer._accumulators and f"{optimizer._name}_{slot}" not in optimizer._accumulators:
                continue  # such as the mean gradient of an RMSProp that is not centred
            tensor = optimizer._get_accumulator(slot, parameter)
            tensors[tensor.name] = tensor
            if name:
                states[f"{name}:{own}"] = tensor.name
            else:
                powers[own] = tensor.name
    return states, powers, tensors
