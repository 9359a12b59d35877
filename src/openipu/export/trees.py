"""Containers of results.

In: what forward returned, as a tree. Out: the keys of its containers, if they have some.
"""

from __future__ import annotations

from typing import Any

from torch.utils import _pytree as pytree


def find_keys(spec: pytree.TreeSpec) -> list[Any] | None:
    """The keys of a dict, or of a class of others that is one; None for lists, tuples and leaves."""
    context: Any = spec.context
    while isinstance(context, tuple | list) and len(context) == 2 and isinstance(context[0], type):
        context = context[1]
    keys = list(context) if isinstance(context, list | tuple) else None
    matches = keys is not None and len(keys) == spec.num_children and all(isinstance(key, str | int) for key in keys)
    return keys if matches and spec.type is not tuple and spec.type is not list else None
