"""Plain attributes of a module that forward left traced tensors in: they are of no use once the trace is over.

In: a module before and after forward. Out: the module with each such attribute as it was. What forward changed on the
host (counters, flags, strings) stays changed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

TENSOR_DICTIONARIES = ("_parameters", "_buffers")
_SEARCH_DEPTH = 3  # lists in lists


class ModuleAttributes:
    """The attributes of one module, as they are now."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._before = dict(module.__dict__)
        self._contents: dict[str, Any] = {
            key: value.copy()
            for key, value in self._before.items()
            if type(value) in (list, dict) and not key.startswith("_")
        }

    def restore(self) -> None:
        """Put back what now holds a traced tensor: weight_norm sets one, caches of hidden states collect them."""
        attributes = self._module.__dict__
        for key, value in list(attributes.items()):
            if key in TENSOR_DICTIONARIES or not _holds_meta(value, _SEARCH_DEPTH):
                continue
            if key not in self._before:
                del attributes[key]
            elif value is not self._before[key]:
                attributes[key] = self._before[key]
            elif isinstance(value, list) and key in self._contents:
                value[:] = self._contents[key]
            elif isinstance(value, dict) and key in self._contents:
                value.clear()
                value.update(self._contents[key])


def _holds_meta(value: Any, depth: int) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_meta
    if depth == 0:
        return False
    if isinstance(value, list | tuple | set):
        return any(_holds_meta(item, depth - 1) for item in value)
    if isinstance(value, dict):
        return any(_holds_meta(item, depth - 1) for item in value.values())
    return False
