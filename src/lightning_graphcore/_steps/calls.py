"""One call of a step, taken apart.

In: the arguments that Lightning passes to a step. Out: tensors, which become inputs of a program; numbers, which may
change from call to call; and everything else, which belongs to the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from poptorch._args_parser import prepare_types
from poptorch._calls.inputs import _refuse_hidden_tensors

_TENSOR, _NUMBER, _OTHER = "tensor", "number", "other"


@dataclass(frozen=True, eq=False)
class Call:
    """The leaves of (args, kwargs), sorted."""

    spec: pytree.TreeSpec
    kinds: tuple[str, ...]
    paths: tuple[Any, ...]
    tensors: tuple[torch.Tensor, ...]
    numbers: tuple[Any, ...]
    others: tuple[Any, ...]

    @property
    def shapes(self) -> tuple[Any, ...]:
        return tuple((tuple(tensor.shape), tensor.dtype) for tensor in self.tensors)

    def is_like(self, other: Call) -> bool:
        """Can one program serve both?"""
        if self.kinds != other.kinds or self.shapes != other.shapes or self.spec != other.spec:
            return False
        pairs = zip(self.others, other.others, strict=True)
        same_types = all(type(a) is type(b) for a, b in zip(self.numbers, other.numbers, strict=True))
        return same_types and all(mine is theirs or _equal(mine, theirs) for mine, theirs in pairs)

    def rebuild(self, tensors: Sequence[Any], numbers: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments like the original ones, with other tensors and numbers."""
        sources = {_TENSOR: iter(tensors), _NUMBER: iter(numbers), _OTHER: iter(self.others)}
        args, kwargs = pytree.tree_unflatten([next(sources[kind]) for kind in self.kinds], self.spec)
        return args, kwargs

    def count_samples(self) -> int | None:
        """The first dimension of the first tensor that has one."""
        return next((tensor.shape[0] for tensor in self.tensors if tensor.dim()), None)

    def name_numbers(self, parameters: Sequence[str]) -> list[str]:
        """What the step calls its numbers."""
        names = []
        for path, kind in zip(self.paths, self.kinds, strict=True):
            if kind == _NUMBER:
                _, first, *rest = path
                position = getattr(first, "idx", None)
                if position is not None and position < len(parameters):
                    head = parameters[position]
                else:
                    head = str(getattr(first, "key", position))
                names.append(head + "".join(str(entry) for entry in rest))
        return names


def open_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    prepare_types((args, kwargs))
    found, spec = pytree.tree_flatten_with_path((args, kwargs))
    kinds = tuple(_find_kind(leaf) for _, leaf in found)
    leaves: dict[str, list[Any]] = {_TENSOR: [], _NUMBER: [], _OTHER: []}
    for kind, (_, leaf) in zip(kinds, found, strict=True):
        if kind == _OTHER:
            _refuse_hidden_tensors(leaf)
        leaves[kind].append(leaf)
    paths = tuple(path for path, _ in found)
    return Call(spec, kinds, paths, tuple(leaves[_TENSOR]), tuple(leaves[_NUMBER]), tuple(leaves[_OTHER]))


def _find_kind(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return _TENSOR
    return _NUMBER if isinstance(leaf, int | float) and not isinstance(leaf, bool) else _OTHER


def _equal(mine: Any, theirs: Any) -> bool:
    try:
        return type(mine) is type(theirs) and bool(mine == theirs)
    except (TypeError, ValueError, RuntimeError):  # a comparison that gives no truth value
        return False
