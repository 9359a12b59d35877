"""A graph as one Python function.

In: an fx graph, and values for those placeholders that never change (weights, constants, accumulators).
Out: a function of the other placeholders, in their order, that returns what the graph returns. Values are dropped after
their last use, so that PyTorch's allocator hands their memory to the next operator while it is still in the cache.
Views of fixed values are made once.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.aliasing import find_viewed, is_pure
from openipu.run.drafts.fast_calls import METHODS, find_call, find_conversion


def generate_function(graph: fx.Graph, bound: Mapping[str, Any], name: str) -> Callable[..., Any]:
    """Write and load the function. `bound` maps names of placeholders to their fixed values."""
    writer = _Writer(bound)
    source = writer.write(graph)
    namespace = writer.globals
    exec(compile(source, f"<openipu {name}>", "exec"), namespace)
    function: Callable[..., Any] = namespace["run"]
    return function


class _Writer:
    """Collects the lines, and the objects they refer to as globals."""

    def __init__(self, bound: Mapping[str, Any]) -> None:
        self.globals: dict[str, Any] = {}
        self._bound = dict(bound)
        self._names: dict[int, str] = {}
        self._referred: list[Any] = []  # keeps objects alive while their id stands for them

    def write(self, graph: fx.Graph) -> str:
        last_use = _find_last_uses(graph)
        parameters: list[str] = []
        lines: list[str] = []
        for node in graph.nodes:
            if node.op == "placeholder":
                if node.name in self._bound:
                    self.globals[_name_value(node)] = self._bound[node.name]
                else:
                    parameters.append(_name_value(node))
                continue
            if node.op == "output":
                lines.append(f"return {self._format(node.args[0])}")
                continue
            view = self._make_view(node)
            if view is not None:
                self._bound[node.name] = self.globals[_name_value(node)] = view
                continue
            call = self._format_call(node)
            lines.append(f"{_name_value(node)} = {call}" if node.users else call)
            dead = [_name_value(value) for value in last_use.get(node, ()) if self._is_made(value)]
            if dead:
                lines.append(f"del {', '.join(dead)}")
        return f"def run({', '.join(parameters)}):\n" + "\n".join(f"    {line}" for line in lines) + "\n"

    def _is_made(self, node: fx.Node) -> bool:
        """Whether the function itself makes a value, and can drop it."""
        return node.op != "placeholder" and node.name not in self._bound

    def _make_view(self, node: fx.Node) -> torch.Tensor | None:
        """A view of fixed memory, such as a transposed weight: it is made once, and sees what is written there."""
        source = find_viewed(node)
        if source is None or node.target is operator.getitem or not is_pure(node):
            return None
        held = self._bound.get(source.name)
        if not isinstance(held, torch.Tensor) or node.all_input_nodes != [source]:
            return None
        call = find_call(node.target)
        view = call(*fx.map_arg(node.args, lambda _: held), **node.kwargs)
        if not isinstance(view, torch.Tensor) or view.untyped_storage().data_ptr() != held.untyped_storage().data_ptr():
            return None
        return view

    def _format_call(self, node: fx.Node) -> str:
        if node.op != "call_function":
            raise AssertionError(f"unexpected node {node.op} in an executable graph")
        if node.target is operator.getitem:
            return f"{self._format(node.args[0])}[{self._format(node.args[1])}]"
        conversion = find_conversion(node)
        if conversion is not None:
            return f"{self._format(node.args[0])}.{conversion}()"
        method = METHODS.get(node.target)
        arguments = [self._format(value) for value in node.args]
        arguments += [f"{key}={self._format(value)}" for key, value in node.kwargs.items()]
        if method is not None and not node.kwargs and isinstance(node.args[0], fx.Node):
            return f"{arguments[0]}.{method}({', '.join(arguments[1:])})"
        return f"{self._refer(find_call(node.target))}({', '.join(arguments)})"

    def _format(self, value: Any) -> str:
        if isinstance(value, fx.Node):
            return _name_value(value)
        if isinstance(value, tuple):
            return "(" + "".join(f"{self._format(item)}, " for item in value) + ")"
        if isinstance(value, list):
            return "[" + ", ".join(self._format(item) for item in value) + "]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self._format(item)}" for key, item in value.items()) + "}"
        if value is None or isinstance(value, bool | int | str):
            return repr(value)
        if isinstance(value, float) and math.isfinite(value):
            return repr(value)
        return self._refer(value)

    def _refer(self, value: Any) -> str:
        """A global name for an object, the same one each time."""
        if id(value) not in self._names:
            self._names[id(value)] = f"_{len(self._names)}"
            self._referred.append(value)
            self.globals[self._names[id(value)]] = value
        return self._names[id(value)]


def _name_value(node: fx.Node) -> str:
    # The prefix keeps values apart from the globals and from Python's keywords.
    return f"v_{node.name}"


def _find_last_uses(graph: fx.Graph) -> dict[fx.Node, list[fx.Node]]:
    last_use: dict[fx.Node, list[fx.Node]] = {}
    seen: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        for value in node.all_input_nodes:
            if value not in seen:
                seen.add(value)
                last_use.setdefault(node, []).append(value)
    return last_use
