"""The structure of what `forward` returned, as JSON and back.

In: a tree of torch's pytree. Out: nested lists. A class of a library is written by the name under which the library
registered it for files, and found again only if it is registered in the reading process: nothing is imported.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from torch.utils import _pytree as pytree

from openipu.errors import ArchiveError

_LEAF = "*"
_REGISTERED = "registered:"
_DEEPEST = 100
_DAMAGED = "the structure of the results is damaged"
_PLAIN_TYPES: dict[str, type] = {"list": list, "tuple": tuple}
_KEYED_TYPES: dict[str, type] = {"dict": dict, "OrderedDict": OrderedDict}
_KEYS = (str, int, bool, float)


def encode_tree(spec: pytree.TreeSpec) -> Any:
    if spec.is_leaf():
        return _LEAF
    children = [encode_tree(child) for child in spec.children()]
    for name, kind in {**_PLAIN_TYPES, **_KEYED_TYPES}.items():
        if spec.type is kind:
            keys = list(spec.context) if name in _KEYED_TYPES else None
            if keys is not None and not all(type(key) in _KEYS for key in keys):
                raise ArchiveError("a result is a dictionary with keys that are neither texts nor numbers")
            return [name, keys, children]
    registered = pytree.SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    name = registered.serialized_type_name if registered is not None else ""
    plain_context = isinstance(spec.context, list) and all(type(item) in _KEYS for item in spec.context)
    if not name or not plain_context or pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name) is not spec.type:
        # A named tuple has its class in the context.
        owner = spec.context if isinstance(spec.context, type) else spec.type
        raise ArchiveError(f"a result is a {owner.__qualname__}, which only this process knows")
    return [f"{_REGISTERED}{name}", list(spec.context), children]


def decode_tree(described: Any, depth: int = 0) -> pytree.TreeSpec:
    """The tree again. No class of it is called."""
    if described == _LEAF:
        return pytree.treespec_leaf()
    if depth > _DEEPEST or not isinstance(described, list) or len(described) != 3:
        raise ArchiveError(_DAMAGED)
    name, keys, described_children = described
    children = [decode_tree(child, depth + 1) for child in described_children]
    if name in _PLAIN_TYPES:
        return pytree.TreeSpec(_PLAIN_TYPES[name], None, children)
    if not isinstance(keys, list) or not all(type(key) in _KEYS for key in keys):
        raise ArchiveError(_DAMAGED)
    if name in _KEYED_TYPES:
        if len(keys) != len(children):
            raise ArchiveError(_DAMAGED)
        return pytree.TreeSpec(_KEYED_TYPES[name], keys, children)
    registered = str(name).removeprefix(_REGISTERED)
    kind = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(registered)
    if kind is None:
        raise ArchiveError(
            f"forward returned a {registered}, which nothing in this process has registered: import the library that "
            "defines it first"
        )
    return pytree.TreeSpec(kind, keys, children)
