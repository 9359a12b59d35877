"""Rules: a pattern to look for, a condition, and what stands in its place.

A `Rule` says which operators it looks for and which of their values it needs. Matching, the order of the operands of a
sum or product, the readers of every value between, formats and the removal of what is no longer read are written here,
once for all rules. The operators of a match have no readers outside of it, but for its root and for those that a rule
names as `shared`. Where a pattern cannot say what a rule looks for, a `Search` finds the match by a function; all else
stays the same. What nobody reads once a match is replaced goes with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.aliasing import is_pure

aten = torch.ops.aten

_COMMUTATIVE = frozenset({aten.add.Tensor, aten.mul.Tensor})
_SAME_NUMBER = 1e-6  # relative: numbers that users write are rounded, to float32 at the worst


@dataclass(frozen=True)
class Value:
    """Any node. Where a pattern names it twice, it is the same one."""

    name: str
    dtype: torch.dtype | None = None


@dataclass(frozen=True)
class Number:
    """A number of this value, or any with a name; also some nodes that hold numbers when the graph runs."""

    value: float | None = None
    name: str = ""
    nodes: Collection[fx.Node] = ()


@dataclass(frozen=True)
class Op:
    """A call of one of some operators. Operands beyond those of the call itself must be absent."""

    targets: tuple[Any, ...]
    operands: tuple[Pattern, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""


@dataclass(frozen=True)
class Is:
    """This very object: None, a type."""

    value: Any


@dataclass(frozen=True)
class Constant:
    """Any operand that is no node: a list, a text, a number."""

    name: str


@dataclass(frozen=True)
class Viewed:
    """A pattern, or views of it in other shapes. `kept`: the views do not belong to the match, and stay."""

    pattern: Pattern
    kept: bool = False


Pattern = Value | Number | Constant | Op | Is | Viewed

VIEWS = (aten.view.default, aten._unsafe_view.default)


def op(target: Any, *operands: Any, name: str = "", **kwargs: Any) -> Op:
    """A pattern of one operator, or of any of several; numbers, None and types stand for themselves."""
    return Op(target if isinstance(target, tuple) else (target,), tuple(map(_read_pattern, operands)), kwargs, name)


def _read_pattern(operand: Any) -> Pattern:
    if isinstance(operand, Pattern):
        return operand
    return Number(operand) if _is_number(operand) else Is(operand)


@dataclass(frozen=True)
class Match:
    """Where a pattern was found: its values by name, and all of its operators, the root first."""

    root: fx.Node
    values: Mapping[str, Any]
    operators: tuple[fx.Node, ...]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


class Writer:
    """Writes the replacement of one match, in front of its root unless it is told otherwise."""

    def __init__(self, graph: fx.Graph, match: Match) -> None:
        self._graph, self._match = graph, match

    def call(self, target: Any, *args: Any, like: fx.Node | None = None, **kwargs: Any) -> fx.Node:
        """A new node. It is taken for a value like the root's, or like another node's; `meta["val"]` may be set where
        it is neither."""
        node = self._graph.call_function(target, args, kwargs)
        node.meta = dict((self._match.root if like is None else like).meta)
        return node

    def before(self, node: fx.Node) -> AbstractContextManager[None]:
        """Write in front of this node inside of the context."""
        context: AbstractContextManager[None] = self._graph.inserting_before(node)
        return context

    def replace(self, old: fx.Node, new: fx.Node) -> None:
        """Let all readers of a value beside the root read another one. If it belongs to the match, it goes."""
        old.replace_all_uses_with(new)


def _always(match: Match) -> bool:
    return True


@dataclass(frozen=True)
class Search:
    """A match that no pattern describes, found from one of its operators by a function; `matched` makes it. Its
    operators are those that nobody else may read: the root, and what the replacement takes away with it."""

    targets: tuple[Any, ...] | None  # of the operator; None: any
    find: Callable[[fx.Node], Match | None]


def matched(root: fx.Node, *others: fx.Node, **values: Any) -> Match:
    """What a search found: a root, the other operators that go with it, and values by name."""
    return Match(root, values, (root, *others))


def find_only_user(node: fx.Node) -> fx.Node | None:
    """The node that reads this one, if no other does."""
    return next(iter(node.users)) if len(node.users) == 1 else None


@dataclass(frozen=True)
class Rule:
    """One rewrite."""

    name: str
    pattern: Op | Search
    replacement: Callable[[Match, Writer], fx.Node | None]  # None: it has replaced what there was to replace
    condition: Callable[[Match], bool] = _always
    shared: frozenset[str] = frozenset()  # operators, or lists of them, that others may read as well: they stay then


def find_match(pattern: Op | Search, root: fx.Node) -> Match | None:
    """The first match of a pattern that ends in this node."""
    if isinstance(pattern, Search):
        return pattern.find(root)
    for values, operators in _match(pattern, root, {}, ()):
        return Match(root, values, operators)
    return None


def find_matches(pattern: Op | Search, graph: fx.Graph) -> Iterator[Match]:
    """All places where a pattern is found, in the order of the graph, which may be changed between two of them."""
    targets = pattern.targets
    for node in [node for node in graph.nodes if targets is None or node.target in targets]:
        match = None if node._erased else find_match(pattern, node)
        if match is not None:
            yield match


def apply_rules(graph: fx.Graph, rules: Sequence[Rule]) -> int:
    """Apply each rule wherever it holds, one rule after the other; how often that was."""
    count = 0
    for rule in rules:
        for match in find_matches(rule.pattern, graph):
            if _stands_alone(rule, match) and rule.condition(match):
                _replace(graph, rule, match)
                count += 1
    return count


def could_apply(graph: fx.Graph, rules: Sequence[Rule]) -> bool:
    """Whether any of these rules would change a graph as it is."""
    return any(
        _stands_alone(rule, match) and rule.condition(match)
        for rule in rules
        for match in find_matches(rule.pattern, graph)
    )


def _stands_alone(rule: Rule, match: Match) -> bool:
    shared = set(_list_nodes([match[name] for name in rule.shared]))
    inside = set(match.operators)
    return all(inside.issuperset(node.users) for node in inside - {match.root} - shared)


def _list_nodes(value: Any) -> list[fx.Node]:
    if isinstance(value, fx.Node):
        return [value]
    return [node for item in value for node in _list_nodes(item)]


def _replace(graph: fx.Graph, rule: Rule, match: Match) -> None:
    with graph.inserting_before(match.root):
        new = rule.replacement(match, Writer(graph, match))
    if new is not None:
        match.root.replace_all_uses_with(new)
    _erase_unread(graph, match.operators)


def _erase_unread(graph: fx.Graph, operators: Sequence[fx.Node]) -> None:
    """Take out the operators of a match that nobody reads any more, and what was computed for them alone."""
    unread = list(operators)
    while unread:
        node = unread.pop()
        if not node._erased and not node.users and (node in operators or is_pure(node)):
            sources = node.all_input_nodes
            graph.erase_node(node)
            unread += sources


_Found = tuple[dict[str, Any], tuple[fx.Node, ...]]


def _match(pattern: Pattern, value: Any, values: dict[str, Any], operators: tuple[fx.Node, ...]) -> Iterator[_Found]:
    """Each way in which a pattern matches, with what was found before."""
    if isinstance(pattern, Number):
        is_same = _is_number(value) and (pattern.value is None or _is_equal(pattern.value, value))
        if is_same or (isinstance(value, fx.Node) and value in pattern.nodes):
            yield from _name(pattern.name, value, values, operators)
    elif isinstance(pattern, Value):
        if isinstance(value, fx.Node) and (pattern.dtype is None or _read_type(value) is pattern.dtype):
            yield from _name(pattern.name, value, values, operators)
    elif isinstance(pattern, Is):
        if value is pattern.value:
            yield values, operators
    elif isinstance(pattern, Constant):
        if not isinstance(value, fx.Node):
            yield from _name(pattern.name, value, values, operators)
    elif isinstance(pattern, Viewed):
        yield from _match(pattern.pattern, value, values, operators)
        if isinstance(value, fx.Node) and value.target in VIEWS:
            yield from _match(pattern, value.args[0], values, operators if pattern.kept else (*operators, value))
    elif isinstance(pattern, Op) and isinstance(value, fx.Node):
        if value.target not in pattern.targets or value.kwargs != pattern.kwargs:
            return
        for named, inside in _name(pattern.name, value, values, (*operators, value)):
            for order in _list_orders(value):
                yield from _match_all(pattern.operands, order, named, inside)


def _match_all(
    patterns: Sequence[Pattern], given: Sequence[Any], values: dict[str, Any], operators: tuple[fx.Node, ...]
) -> Iterator[_Found]:
    if len(patterns) != len(given):
        return
    if not patterns:
        yield values, operators
        return
    for named, inside in _match(patterns[0], given[0], values, operators):
        yield from _match_all(patterns[1:], given[1:], named, inside)


def _list_orders(node: fx.Node) -> list[tuple[Any, ...]]:
    given: tuple[Any, ...] = node.args
    return [given, given[::-1]] if node.target in _COMMUTATIVE and len(given) == 2 else [given]


def _name(name: str, value: Any, values: dict[str, Any], operators: tuple[fx.Node, ...]) -> Iterator[_Found]:
    if not name:
        yield values, operators
    elif name not in values:
        yield {**values, name: value}, operators
    elif values[name] is value or (_is_number(value) and values[name] == value):
        yield values, operators


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_equal(wanted: float, given: float) -> bool:
    return math.isclose(wanted, given, rel_tol=_SAME_NUMBER)


def _read_type(node: fx.Node) -> torch.dtype | None:
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else None
