"""Optimizers of a trainer: made from its arguments, or a user's own in the form that the IPU has.

In: training arguments, parameters, a PyTorch optimizer. Out: an optimizer of `poptorch.optim`.
"""

from __future__ import annotations

from typing import Any

import torch
from optimum.utils import logging
from torch import nn, optim
from transformers.training_args import OptimizerNames

import poptorch
from optimum.graphcore.training_args import IPUTrainingArguments

logger = logging.get_logger(__name__)

_ADAMW_NAMES = (OptimizerNames.ADAMW_TORCH, OptimizerNames.ADAMW_TORCH_FUSED)
_COUNTERPARTS: dict[type[optim.Optimizer], type[Any]] = {
    optim.SGD: poptorch.optim.SGD,
    optim.Adam: poptorch.optim.Adam,
    optim.AdamW: poptorch.optim.AdamW,
    optim.RMSprop: poptorch.optim.RMSprop,
}
_OWN = (poptorch.optim.SGD, poptorch.optim.Adam, poptorch.optim.AdamW, poptorch.optim.RMSprop, poptorch.optim.LAMB)
_CLIPPING = (poptorch.optim.Adam, poptorch.optim.AdamW)


def choose_optimizer(args: IPUTrainingArguments) -> tuple[type[Any], dict[str, Any]]:
    """The class that the arguments name, and its settings."""
    kind: type[Any]
    settings: dict[str, Any]
    adam = {"betas": (args.adam_beta1, args.adam_beta2), "eps": args.adam_epsilon}
    if uses_lamb(args):
        kind, settings = poptorch.optim.LAMB, {**adam, "bias_correction": not args.lamb_no_bias_correction}
    elif args.optim in _ADAMW_NAMES:
        kind, settings = poptorch.optim.AdamW, {**adam, "bias_correction": not args.adam_no_bias_correction}
    elif args.optim == OptimizerNames.SGD:
        kind, settings = poptorch.optim.SGD, _read_settings(args.optim_args)
    elif args.optim == OptimizerNames.RMSPROP:
        kind, settings = poptorch.optim.RMSprop, _read_settings(args.optim_args)
    else:
        raise ValueError(
            f"optim={args.optim.value!r} does not exist on the IPU. Choose "
            f"{', '.join(repr(name.value) for name in (*_ADAMW_NAMES, OptimizerNames.SGD, OptimizerNames.RMSPROP))}, "
            "or `lamb=True`."
        )
    return kind, {"lr": args.learning_rate, **settings, **list_device_settings(kind, args)}


def list_device_settings(kind: type[Any], args: IPUTrainingArguments) -> dict[str, Any]:
    """What PopTorch's optimizers have beyond PyTorch's: number formats of the state, loss scale, clipping."""
    settings: dict[str, Any] = {}
    first_order = torch.float32 if args.fp32 else torch.float16
    if kind is poptorch.optim.SGD:
        settings |= {"use_combined_accum": False, "accum_type": first_order, "velocity_accum_type": first_order}
    else:
        settings |= {
            "accum_type": first_order,
            "first_order_momentum_accum_type": first_order,
            "second_order_momentum_accum_type": torch.float32,
        }
    if args.loss_scaling is not None:
        settings["loss_scaling"] = args.loss_scaling
    if args.max_grad_norm is not None and args.max_grad_norm > 0:
        if kind in _CLIPPING:
            settings["max_grad_norm"] = args.max_grad_norm
        else:
            logger.warning(
                "`max_grad_norm=%s` has no effect with %s: Adam and AdamW clip gradients on the IPU.",
                args.max_grad_norm,
                kind.__name__,
            )
    return settings


def group_parameters(model: nn.Module, decaying: set[str], args: IPUTrainingArguments) -> list[dict[str, Any]]:
    """Parameters with weight decay and without; for LAMB, biases are a group whose step is not scaled by norms."""
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    biases = {name for name, _ in named if name.endswith("bias")} - decaying if uses_lamb(args) else set()
    groups: list[dict[str, Any]] = [
        {"params": [p for name, p in named if name in decaying], "weight_decay": args.weight_decay},
        {"params": [p for name, p in named if name in biases], "weight_decay": 0.0, "max_weight_norm": 0.0},
        {"params": [p for name, p in named if name not in decaying and name not in biases], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def uses_lamb(args: IPUTrainingArguments) -> bool:
    """A user who asks for LAMB without its correction asks for LAMB."""
    return args.lamb or args.lamb_no_bias_correction


def convert_optimizer(
    optimizer: optim.Optimizer, model: nn.Module, pipelined: nn.Module, args: IPUTrainingArguments
) -> Any:
    """A user's optimizer for the parameters of `model`, as one for those of the same names in `pipelined`."""
    counterpart = type(optimizer) if isinstance(optimizer, _OWN) else _COUNTERPARTS.get(type(optimizer))
    if counterpart is None:
        raise KeyError(
            f"Could not find a PopTorch counterpart for optimizer {type(optimizer).__name__}. Use one of torch.optim: "
            f"{', '.join(kind.__name__ for kind in _COUNTERPARTS)}."
        )
    names = {id(parameter): name for name, parameter in model.named_parameters(remove_duplicate=False)}
    parameters = dict(pipelined.named_parameters(remove_duplicate=False))
    groups = []
    for group in optimizer.param_groups:
        missing = [names.get(id(p), "a tensor that is not a parameter of the model") for p in group["params"]]
        missing = [name for name in missing if name not in parameters]
        if missing:
            raise KeyError(
                f"The optimizer holds parameters that the pipelined model does not have by that name: "
                f"{', '.join(missing[:3])}. Leave the optimizer to the trainer (`optim`, `learning_rate`, …), or turn "
                "serialization of embedding and projection off."
            )
        groups.append({**_keep_settings(group), "params": [parameters[names[id(p)]] for p in group["params"]]})
    if isinstance(optimizer, _OWN):
        extras = {name: getattr(optimizer, name) for name in optimizer.extra_arguments}
    else:
        extras = list_device_settings(counterpart, args)
    return counterpart(groups, lr=optimizer.defaults["lr"], **extras)


def _keep_settings(group: dict[str, Any]) -> dict[str, Any]:
    """The settings of a group, without those that say how PyTorch computes a step."""
    ways = ("params", "foreach", "fused", "capturable", "differentiable")
    return {name: value for name, value in group.items() if name not in ways}


def _read_settings(text: str | None) -> dict[str, float]:
    """`momentum=0.9,alpha=0.95` as numbers."""
    parts = [part.split("=") for part in (text or "").replace(" ", "").split(",") if part]
    try:
        return {name: float(value) for name, value in parts}
    except ValueError as error:
        raise ValueError(f"optim_args={text!r} is not of the form name=number,name=number.") from error
