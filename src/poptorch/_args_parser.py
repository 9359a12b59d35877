"""The user's own types as inputs and outputs: a parser takes their tensors out and puts new ones in.

In: a class and an `ICustomArgParser` for it. Out: values of that class, and of classes derived from it, are looked into
like tuples and dictionaries, by the executor and by data loaders.
"""

from __future__ import annotations

import abc
import copy
import importlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from poptorch.errors import createPoptorchError


class ICustomArgParser(abc.ABC):
    """How to take a structure of the user's apart and to build another one like it."""

    @abc.abstractmethod
    def yieldTensors(self, struct: Any) -> Iterable[torch.Tensor]:
        """Every tensor of the structure, always in the same order."""

    @abc.abstractmethod
    def reconstruct(self, original_structure: Any, tensor_iterator: Iterator[torch.Tensor]) -> Any:
        """A structure like the original one, with tensors taken from the iterator in the same order."""


class _ContainerParser(ICustomArgParser):
    """Classes of the user's that derive from dict, list or tuple: their values, in a copy of the container."""

    def yieldTensors(self, struct: Any) -> Iterable[Any]:
        return struct.values() if isinstance(struct, dict) else struct

    def reconstruct(self, original_structure: Any, tensor_iterator: Iterator[Any]) -> Any:
        if not isinstance(original_structure, dict):
            return type(original_structure)(list(tensor_iterator))
        made = copy.copy(original_structure)
        for key in original_structure:
            made[key] = next(tensor_iterator)
        return made


_CONTAINERS = _ContainerParser()
_parsers: dict[type, ICustomArgParser] = {}
_entered: set[type] = set()  # classes that are registered with PyTorch's own flattening
_SUPPORTED = {"torch_geometric": "poptorch_geometric"}  # a package: which of ours, once imported, has its parsers
_registering = threading.RLock()
_derived: set[type] = set()  # classes that are looked into because a base class has a parser


def registerCustomArgParser(arg_data_type: type, arg_parser: ICustomArgParser | None) -> None:
    """Use this parser for values of this class; None takes an earlier registration back."""
    if arg_parser is not None and not isinstance(arg_parser, ICustomArgParser):
        raise createPoptorchError("arg_parser must inherit from ICustomArgParser")
    if arg_parser is None:
        _parsers.pop(arg_data_type, None)
        for kind in [arg_data_type, *_derived]:
            if find_parser(kind) is None:
                _forget_type(kind)
        return
    _parsers[arg_data_type] = arg_parser
    _enter_type(arg_data_type)


def find_parser(kind: type) -> ICustomArgParser | None:
    """The parser of this very class, else of the first registered class that it derives from."""
    if kind in _parsers:
        return _parsers[kind]
    inherited = next((parser for base, parser in _parsers.items() if issubclass(kind, base)), None)
    if inherited is None and _import_parsers(kind):
        return find_parser(kind)
    plain = kind in (dict, list, tuple) or hasattr(kind, "_fields") or not issubclass(kind, dict | list | tuple)
    return inherited if plain or inherited is not None else _CONTAINERS


def _import_parsers(kind: type) -> bool:
    """Has a module just been imported that registers parsers for the package which this class derives from?"""
    for base in kind.__mro__:
        module = _SUPPORTED.pop(base.__module__.partition(".")[0], None)
        if module is not None:
            importlib.import_module(module)
            return True
    return False


def prepare_types(value: Any) -> None:
    """Make derived classes known that a structure holds, so that it can be flattened."""
    if isinstance(value, torch.Tensor):
        return
    for leaf in pytree.tree_leaves(value):
        kind = type(leaf)
        if not isinstance(leaf, torch.Tensor) and kind not in pytree.SUPPORTED_NODES and find_parser(kind) is not None:
            _derived.add(kind)
            _enter_type(kind)
            prepare_types(list(_require_parser(kind).yieldTensors(leaf)))


def _enter_type(kind: type) -> None:
    with _registering:
        _enter_once(kind)


def _enter_once(kind: type) -> None:
    if kind in pytree.SUPPORTED_NODES:
        if kind not in _entered:
            raise createPoptorchError(
                f"{kind} is already looked into without a parser: register one for a class of your own."
            )
        return  # the functions below look the parser up at each call
    _entered.add(kind)

    def flatten(struct: Any) -> tuple[list[Any], Any]:
        return list(_require_parser(kind).yieldTensors(struct)), struct

    def flatten_with_keys(struct: Any) -> tuple[list[tuple[pytree.KeyEntry, Any]], Any]:
        tensors, original = flatten(struct)
        return [(pytree.SequenceKey(index), tensor) for index, tensor in enumerate(tensors)], original

    pytree.register_pytree_node(
        kind,
        flatten,
        lambda tensors, original: _require_parser(kind).reconstruct(original, iter(tensors)),
        flatten_with_keys_fn=flatten_with_keys,
        serialized_type_name=f"poptorch.{kind.__module__}.{kind.__qualname__}.{id(kind)}",
    )


def _forget_type(kind: type) -> None:
    if kind in _entered:
        _entered.discard(kind)
        pytree._deregister_pytree_node(kind)


def _require_parser(kind: type) -> ICustomArgParser:
    parser = find_parser(kind)
    if parser is None:
        raise createPoptorchError(f"The parser of {kind} was removed while its values were in use.")
    return parser
