"""Tensors and ops of a graph whose values come from Python, not from TensorFlow's kernels.

In: a provider with placeholders, or with a marker op, in some graph. Out: for a session's fetches, the providers that
have to run first, in order. A session that is asked for them runs them and feeds what they return.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Runner = Callable[..., Any]  # the session's own run(fetches, feed_dict)
_DRAWS = ("IteratorGetNext", "IteratorGetNextSync", "QueueDequeueV2", "QueueDequeueManyV2")


class Provider(Protocol):
    """Something that gives values to a session."""

    inputs: Sequence[Any]  # tensors of the graph that it needs
    outputs: Sequence[Any]  # placeholders that it gives values to

    def provide(self, session: Any, run: Runner, values: Sequence[Any]) -> Sequence[Any]:
        """The values of `outputs`, from those of `inputs`."""


@dataclass(eq=False)
class GraphProviders:
    """The providers of one graph, by the names of their placeholders and markers."""

    by_op: dict[str, Provider] = field(default_factory=dict)
    order: dict[int, int] = field(default_factory=dict)  # id of a provider -> when it was made
    needed: dict[tuple[Any, ...], tuple[Provider, ...]] = field(default_factory=dict)
    draws: dict[tuple[Any, ...], tuple[Any, ...]] = field(default_factory=dict)
    traced: list[tuple[int, int]] = field(default_factory=list)  # versions of the graph that belong to compilations


_graphs: weakref.WeakKeyDictionary[Any, GraphProviders] = weakref.WeakKeyDictionary()


def find_providers(graph: Any) -> GraphProviders | None:
    """What was registered in a graph, if anything."""
    return _graphs.get(graph)


def register_provider(
    graph: Any, provider: Provider, marker: Any = None, traced: tuple[int, int] | None = None
) -> None:
    """Have sessions of a graph run a provider when one of its outputs, or its marker op, is asked for. `traced`: the
    ops that it runs, by the graph's version before and after them."""
    own = _graphs.setdefault(graph, GraphProviders())
    own.traced += [] if traced is None else [traced]
    own.order[id(provider)] = len(own.order)
    for tensor in provider.outputs:
        own.by_op[tensor.op.name] = provider
    if marker is not None:
        own.by_op[marker.name] = provider
    own.needed.clear()
    own.draws.clear()


def list_draws(graph: Any, needed: Sequence[Provider], fed: Iterable[Any]) -> tuple[Any, ...]:
    """Tensors that take the next element of something, as an iterator does, and that providers depend on: one call of a
    session takes one element, however many providers and fetches need it."""
    own = _graphs[graph]
    given = frozenset(tensor.name for tensor in fed)
    key = (graph.version, given, tuple(map(id, needed)))
    if key not in own.draws:
        if len(own.draws) > 1000:
            own.draws.clear()
        own.draws[key] = tuple(_search_draws(own, needed, given))
    return own.draws[key]


def _search_draws(own: GraphProviders, needed: Sequence[Provider], given: frozenset[str]) -> list[Any]:
    found: list[Any] = []
    seen: set[str] = set()
    stack = [tensor.op for provider in needed for tensor in provider.inputs if tensor.name not in given]
    while stack:
        op = stack.pop()
        if op.name in seen or op.name in own.by_op:
            continue
        seen.add(op.name)
        if op.type in _DRAWS and not any(tensor.name in given for tensor in op.outputs):
            found += [tensor for tensor in op.outputs if tensor.dtype.name not in ("resource", "variant")]
        stack += [tensor.op for tensor in op.inputs if tensor.name not in given]
        stack += op.control_inputs
    return found


def list_needed(graph: Any, fetched: Iterable[Any], fed: Iterable[Any]) -> tuple[Provider, ...]:
    """The providers that fetches depend on, each after those that it depends on itself."""
    own = _graphs.get(graph)
    if own is None:
        return ()
    roots = [_op_of(element) for element in fetched]
    given = frozenset(tensor.name for tensor in fed)
    key = (graph.version, given, tuple(op.name for op in roots))
    if key not in own.needed:
        if len(own.needed) > 1000:
            own.needed.clear()
        own.needed[key] = tuple(_search(own, roots, given))
    return own.needed[key]


def _op_of(element: Any) -> Any:
    return getattr(element, "op", element)


def _search(own: GraphProviders, roots: Sequence[Any], given: frozenset[str]) -> list[Provider]:
    found: list[Provider] = []
    taken: set[int] = set()

    def visit(starts: Sequence[Any]) -> None:
        reached: dict[int, Provider] = {}
        seen: set[str] = set()
        stack = list(starts)
        while stack:
            op = stack.pop()
            if op.name in seen:
                continue
            seen.add(op.name)
            provider = own.by_op.get(op.name)
            if provider is not None and not all(output.name in given for output in op.outputs or ()):
                reached[id(provider)] = provider
                stack += op.control_inputs  # what must come before it may need providers, too
                continue
            if provider is not None and not op.outputs:
                reached[id(provider)] = provider
            stack += [tensor.op for tensor in op.inputs if tensor.name not in given]
            stack += op.control_inputs
        for provider in sorted(reached.values(), key=lambda entry: own.order[id(entry)]):
            if id(provider) not in taken:
                taken.add(id(provider))
                visit([tensor.op for tensor in provider.inputs if tensor.name not in given])
                found.append(provider)

    visit(roots)
    return found
