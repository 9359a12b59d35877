"""A class of Transformers with some methods of ours before its own, made when it is needed.

In: a class of methods and the class of a module. Out: a class of both, always the same one. Modules of it can be copied
and pickled, though no module of Python holds it by name.
"""

from __future__ import annotations

import functools
from typing import Any

from torch import nn


class Extension:
    """The base of classes of methods."""

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        methods, original = type(self).__bases__
        return _make_empty, (methods, original), self.__dict__


@functools.cache
def extend_class(methods: type[Extension], original: type[nn.Module]) -> type[nn.Module]:
    """`original` with `methods` before its own."""
    # Transformers finds what to record of a model by the full name of its class.
    names = {"__module__": original.__module__, "__qualname__": original.__qualname__}
    return type(original.__name__, (methods, original), names)


def _make_empty(methods: type[Extension], original: type[nn.Module]) -> nn.Module:
    made = extend_class(methods, original)
    return made.__new__(made)
