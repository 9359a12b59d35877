"""The inputs of one micro-batch: meta twins of the user's tensors, with names that the user knows.

In: the positional and keyword arguments of forward. Out: the same nest of arguments with twins, and one `InputTwin`
for each tensor in it. Everything else is passed on as it is, and so becomes part of the program.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from openipu.capture.record.formats import find_device_dtype
from openipu.capture.record.torch_private import unwrap_compiled
from openipu.errors import CaptureError

INPUT_NAMES = "_openipu_input_names"  # attribute of a foreign graph's module: what the graph calls its inputs


@dataclass(frozen=True, eq=False)
class InputTwin:
    """One tensor among the arguments."""

    name: str  # "labels", "batch.0"
    index: int  # leaf of the flattened (args, kwargs)
    twin: torch.Tensor


@dataclass(frozen=True, eq=False)
class ArgumentTwins:
    """The arguments to call forward with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: tuple[InputTwin, ...]


def make_argument_twins(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> ArgumentTwins:
    """Twins of all tensors, in the order of the flattened arguments."""
    leaves, spec = pytree.tree_flatten_with_path((args, dict(kwargs)))
    names = _name_positions(function, len(args))
    inputs: list[InputTwin] = []
    values: list[Any] = []
    for index, (path, leaf) in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            values.append(leaf)
            continue
        if leaf.numel() == 0:
            raise CaptureError(
                f"Zero-sized tensors are unsupported (Got shape {list(leaf.shape)}): input {_name_leaf(path, names)} "
                "has no elements, so there is nothing to compile for. Pass at least one sample."
            )
        # Inputs arrive contiguous and detached, however the caller holds them.
        twin = torch.empty(leaf.shape, dtype=find_device_dtype(leaf.dtype), device="meta")
        inputs.append(InputTwin(_name_leaf(path, names), index, twin))
        values.append(twin)
    new_args, new_kwargs = pytree.tree_unflatten(values, spec)
    return ArgumentTwins(_leave_defaults(function, new_args), new_kwargs, tuple(inputs))


def _name_positions(function: Callable[..., Any], count: int) -> list[str]:
    """What forward calls its positional arguments."""
    own = getattr(function, INPUT_NAMES, ())
    if len(own) == count:
        return list(own)
    unnamed = [f"input_{index}" for index in range(count)]
    names = []
    for parameter in _list_parameters(function):
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            names.extend(f"{parameter.name}_{index}" for index in range(count - len(names)))
    return (names + unnamed[len(names) :])[:count]


def _list_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    function = unwrap_compiled(function)
    target = function.forward if isinstance(function, nn.Module) else function
    try:
        return list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):  # a builtin, or something that hides its signature
        return []


def _leave_defaults(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without those at the end that are forward's defaults: a decorator around it may fill them in by name."""
    parameters = _list_parameters(function)[: len(args)]
    if len(parameters) < len(args) or any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return args
    kept = len(args)
    while kept and args[kept - 1] is parameters[kept - 1].default:
        kept -= 1
    return args[:kept]


def _name_leaf(path: pytree.KeyPath, names: list[str]) -> str:
    _, first, *rest = path
    name = names[first.idx] if isinstance(first, pytree.SequenceKey) else str(_read_key(first))
    return ".".join([name, *(str(_read_key(entry)) for entry in rest)])


def _read_key(entry: Any) -> Any:
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return getattr(entry, attribute)
    return entry
