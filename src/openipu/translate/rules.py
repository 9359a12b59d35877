"""The tables of translation: which function translates which op, from which version on.

In: functions that are decorated with `rule`. Out: a `Table`. A rule says which of its inputs it must know when the
program is compiled: on an IPU every shape is static.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import torch

from openipu.errors import TranslationError
from openipu.translate.custom import USUAL_DOMAIN, find_registered, make_handler

if TYPE_CHECKING:
    from openipu.translate.foreign import ForeignNode
    from openipu.translate.site import Site

Results = torch.Tensor | None | Sequence[torch.Tensor | None]
Handler = Callable[["Site"], Results]
H = TypeVar("H", bound=Handler)


@dataclass(frozen=True, slots=True)
class Rule:
    """How one op is written in torch, from a version of its operator set on."""

    op: str
    handler: Handler
    since: int = 1
    until: int | None = None  # the last version that has the op
    static: tuple[int, ...] = ()  # inputs whose values decide the graph
    domain: str = ""
    folds: bool = True  # what it makes of constants is a constant; not so random numbers
    writes: tuple[int, ...] = ()  # inputs that a run changes: running statistics, variables that are assigned
    decide: Callable[[ForeignNode], Sequence[int]] | None = None  # further inputs that are static, by node

    def list_static(self, node: ForeignNode) -> tuple[int, ...]:
        """Inputs of a node whose values decide the graph."""
        return self.static if self.decide is None else (*self.static, *self.decide(node))


class Table:
    """Rules by op. Of several for one op, the newest that a node's version has holds."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules: dict[tuple[str, str], list[Rule]] = {}
        for entry in rules:
            self._rules.setdefault((entry.domain, entry.op), []).append(entry)
        for entries in self._rules.values():
            entries.sort(key=lambda entry: entry.since)

    def __deepcopy__(self, memo: dict[int, object]) -> Table:
        """Rules do not change: copies of a model share them."""
        return self

    def find(self, node: ForeignNode) -> Rule | None:
        """The rule of a node, or None. What a user has registered comes first."""
        registered = find_registered(node)
        if registered is not None:
            own = make_handler(registered)
            return Rule(node.op, own, domain=node.domain, folds=False, writes=registered.writes or ())
        found = None
        for entry in self._rules.get((node.domain, node.op), ()):
            if entry.since <= node.version and (entry.until is None or node.version <= entry.until):
                found = entry
        return found

    def need(self, node: ForeignNode, file: str) -> Rule:
        """The rule of a node, or an error that names it."""
        found = self.find(node)
        if found is not None:
            return found
        known = [entry.since for entry in self._rules.get((node.domain, node.op), ())]
        if known:
            problem = f"{node.op} is not part of operator set {node.version} of {node.domain or USUAL_DOMAIN}"
        else:
            problem = f"{node.domain + '.' if node.domain else ''}{node.op} is unknown"
        raise TranslationError(
            f"{file or 'The graph'}: {node.title}: {problem}. Register what it computes with "
            f'openipu.register_custom_op("{node.op}", "{node.domain or USUAL_DOMAIN}", {node.version}, forward=…).'
            f"{node.quoted}"
        )

    def list_rules(self) -> list[Rule]:
        """Every rule of the table."""
        return [entry for entries in self._rules.values() for entry in entries]

    def list_ops(self) -> list[tuple[str, str]]:
        """Every (domain, op) of the table."""
        return sorted(self._rules)


def rule(
    *ops: str,
    since: int = 1,
    until: int | None = None,
    static: Sequence[int] = (),
    domain: str = "",
    folds: bool = True,
    writes: Sequence[int] = (),
    decide: Callable[[ForeignNode], Sequence[int]] | None = None,
) -> Callable[[H], H]:
    """Mark a function as the rule of one or more ops; `collect` finds it in its module."""

    def mark(handler: H) -> H:
        settings = (since, until, tuple(static), domain, folds, tuple(writes), decide)
        entries = [Rule(op, handler, *settings) for op in ops]
        found: list[Rule] = getattr(handler, "_rules", [])
        handler._rules = [*found, *entries]  # type: ignore[attr-defined]
        return handler

    return mark


def collect(*modules: object) -> list[Rule]:
    """All rules of some modules."""
    found: list[Rule] = []
    for module in modules:
        for value in vars(module).values():
            if getattr(value, "__module__", None) == getattr(module, "__name__", ""):
                found.extend(getattr(value, "_rules", []))
        found.extend(getattr(module, "RULES", []))
    return found
