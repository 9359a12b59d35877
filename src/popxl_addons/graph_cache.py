"""Graphs that are built once for equal arguments, and functions that become graphs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import popxl
from popxl import ops
from popxl.context import get_current_context
from popxl_addons.graph import BoundGraph, GraphWithNamedArgs
from popxl_addons.utils import overrides

__all__ = ["GraphCache", "function"]


def _identity(argument: Any) -> Any:
    """What of an argument makes a graph another one: of tensors their form, of everything else its value."""
    if isinstance(argument, popxl.Tensor | popxl.TensorSpec):
        meta_shape = argument.meta_shape
        return "tensor", tuple(argument.shape), argument.dtype, tuple(meta_shape) if meta_shape else None
    if isinstance(argument, BoundGraph):
        return argument.graph, _identity(argument.args)
    if isinstance(argument, GraphWithNamedArgs):
        return argument.graph
    if isinstance(argument, dict):
        keys = [_identity(key) if isinstance(key, popxl.Tensor) else key for key in argument]
        return "dict", *zip(keys, map(_identity, argument.values()), strict=True)
    if isinstance(argument, tuple | list):
        return "list", *map(_identity, argument)
    return argument


def get_function_hash(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Hashable:
    """What identifies the graph of a call here: function, arguments with defaults, IPU and tiles."""
    called = fn.build if isinstance(fn, popxl.Module) else fn
    bound = inspect.signature(called).bind(*args, **kwargs)
    bound.apply_defaults()
    context = get_current_context()
    # A class with a hash of its own says by it which of its objects build the same graph.
    who = hash(fn) if isinstance(fn, popxl.Module) and overrides(type(fn), object, "__hash__") else fn
    return who, context.ipu_id, context.io_tile_set, *((n, _identity(a)) for n, a in bound.arguments.items())


class GraphCache:
    """The graphs that were built, for each program."""

    def __init__(self) -> None:
        self._graphs: WeakKeyDictionary[popxl.Ir, dict[Hashable, popxl.Graph]] = WeakKeyDictionary()

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> popxl.Graph:
        """The graph of a function, from the cache if it was built for equal arguments.

        A function with a state of its own must not change between calls: only arguments are compared.
        """
        ir = popxl.gcg().ir
        graphs = self._graphs.setdefault(ir, {})
        key = get_function_hash(fn, *args, **kwargs)
        if key not in graphs:
            graphs[key] = ir.create_graph(fn, *args, **kwargs)
        return graphs[key]


def function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: calls of the function become calls of a graph, which equal calls share."""
    cache = GraphCache()

    @wraps(fn)
    def outlined(*args: Any, **kwargs: Any) -> Any:
        return ops.call(cache.create_graph(fn, *args, **kwargs), *args, **kwargs)

    return outlined
