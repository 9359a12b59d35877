"""Return values that torch cannot take apart: subclasses of dict, list and tuple, dataclasses, objects with tensors.

In: what forward returned. Out: the same value with each such container replaced by an `_Opened`, which torch's pytree
does take apart; putting new tensors in gives a container of the user's own class. Only what holds a traced tensor is
opened: everything else is a value of the host.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

Knows = Callable[[torch.Tensor], bool]  # is this a tensor of the recording?
_PLAIN = (str, bytes, int, float, complex, type, type(None), torch.dtype, torch.device, torch.Size, nn.Module)


@dataclass(frozen=True, eq=False)
class _Opened:
    """A container's contents, and the container without them."""

    blank: Any
    keys: tuple[Any, ...]
    values: list[Any]


def open_containers(value: Any, knows: Knows) -> Any:
    """`value` with all containers that hold traced tensors made ready for pytree."""
    return _open(value, knows, frozenset())


def _open(value: Any, knows: Knows, parents: frozenset[int]) -> Any:
    if isinstance(value, (torch.Tensor, *_PLAIN)) or id(value) in parents:
        return value
    parents |= {id(value)}
    if type(value) in pytree.SUPPORTED_NODES or hasattr(type(value), "_fields"):
        return _open_known(value, knows, parents)
    if not _holds_traced(value, knows, parents):
        return value
    keys, contents = _list_contents(value)
    opened = [_open(item, knows, parents) for item in contents]
    return _Opened(_empty(value, keys), keys, opened)


def _open_known(value: Any, knows: Knows, parents: frozenset[int]) -> Any:
    """A container that pytree knows: only its contents are looked at, and most hold nothing to open."""
    contents, spec = pytree.tree_flatten(value, is_leaf=lambda item: item is not value)
    opened = [_open(item, knows, parents) for item in contents]
    if all(new is old for new, old in zip(opened, contents, strict=True)):
        return value
    return pytree.tree_unflatten(opened, spec)


def _holds_traced(value: Any, knows: Knows, parents: frozenset[int]) -> bool:
    if isinstance(value, torch.Tensor):
        return knows(value)
    if isinstance(value, _PLAIN):
        return False
    if type(value) in pytree.SUPPORTED_NODES or hasattr(type(value), "_fields"):
        contents: Iterable[Any] = pytree.tree_leaves(value, is_leaf=lambda item: item is not value)
    else:
        _, contents = _list_contents(value)
    return any(_holds_traced(item, knows, parents | {id(item)}) for item in contents if id(item) not in parents)


def _list_contents(value: Any) -> tuple[tuple[Any, ...], list[Any]]:
    if isinstance(value, dict):
        return tuple(value), list(value.values())
    if isinstance(value, list | tuple):
        return tuple(range(len(value))), list(value)
    attributes = getattr(value, "__dict__", {})
    return tuple(attributes), list(attributes.values())


def _empty(value: Any, keys: tuple[Any, ...]) -> Any:
    """A copy that keeps no traced tensor alive."""
    return value if isinstance(value, tuple) else _fill(copy.copy(value), keys, [None] * len(keys))


def _fill(container: Any, keys: tuple[Any, ...], values: list[Any]) -> Any:
    if isinstance(container, tuple):
        made = tuple.__new__(type(container), values)
        made.__dict__.update(container.__dict__)
        return made
    if isinstance(container, dict):
        attributes = getattr(container, "__dict__", {})
        for key, item in zip(keys, values, strict=True):
            dict.__setitem__(container, key, item)
            if key in attributes:  # one that answers to `outputs.logits` as well as to `outputs["logits"]`
                attributes[key] = item
    elif isinstance(container, list):
        list.__setitem__(container, slice(None), values)
    else:
        container.__dict__.update(zip(keys, values, strict=True))
    return container


def _flatten(opened: _Opened) -> tuple[list[Any], tuple[Any, tuple[Any, ...]]]:
    return opened.values, (opened.blank, opened.keys)


def _unflatten(values: Iterable[Any], context: tuple[Any, tuple[Any, ...]]) -> Any:
    blank, keys = context
    return _fill(blank if isinstance(blank, tuple) else copy.copy(blank), keys, list(values))


pytree.register_pytree_node(_Opened, _flatten, _unflatten, serialized_type_name="openipu.capture.containers._Opened")
