"""What tells from outside that a model is still the one that was saved.

In: a user's model. Out: a digest of its modules, their settings and modes, the names and shapes of its weights, and the
source of its classes; None where that cannot be told. Two models with one digest compute the same, unless code outside
of the model differs: then the saved program counts, as with any compiled file.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator
from typing import Any

import torch

_PLAIN = (bool, int, float, str, type(None), torch.dtype)
_DEEPEST = 4  # of lists in lists


def sign_model(model: Any) -> str | None:
    """The same text for the same model, on any machine and for any weights."""
    if not isinstance(model, torch.nn.Module):
        return None
    digest = hashlib.sha256()
    try:
        for line in _describe_model(model):
            digest.update(line.encode())
    except (OSError, TypeError):  # a class without source, as in an interactive session
        return None
    return digest.hexdigest()


def _describe_model(model: torch.nn.Module) -> Iterator[str]:
    classes: dict[type, None] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        kind = type(module)
        yield f"{name} {kind.__qualname__} {module.training} {_describe_settings(module)}\n"
        classes.update(dict.fromkeys(kind.__mro__))
    for name, weight in (*model.named_parameters(), *model.named_buffers()):
        yield f"{name} {tuple(weight.shape)} {weight.dtype} {weight.requires_grad}\n"
    for kind in classes:
        if not kind.__module__.startswith(("torch.", "builtins", "poptorch")):
            yield inspect.getsource(kind)


def _describe_settings(module: torch.nn.Module) -> str:
    own = {name: value for name, value in vars(module).items() if not name.startswith("_") and _is_plain(value)}
    return f"{module.extra_repr()} {sorted(own.items(), key=lambda item: item[0])}"


def _is_plain(value: Any, depth: int = 0) -> bool:
    if isinstance(value, list | tuple) and depth < _DEEPEST:
        return all(_is_plain(item, depth + 1) for item in value)
    return type(value) in _PLAIN
