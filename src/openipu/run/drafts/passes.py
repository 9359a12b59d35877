"""Passes: changes of a draft, in the order of a list.

A pass is made of rules (`rules.py`) where these can say it; otherwise it is a function. Both have the same record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import Rule, apply_rules
from openipu.run.optimization import Optimization

_Setting = TypeVar("_Setting")  # what the passes of a list may ask for


def _always(setting: Any) -> bool:
    return True


@dataclass(frozen=True)
class Pass(Optimization, Generic[_Setting]):
    """One change of a draft, and when it is made."""

    apply: Callable[[Draft, _Setting], None]
    when: Callable[[_Setting], bool] = _always
    needed: bool = field(default=False, kw_only=True)  # for what a program means: it is never switched off


def by_rules(
    rules: Sequence[Rule] | Callable[[Draft, _Setting], Sequence[Rule]],
) -> Callable[[Draft, _Setting], None]:
    """What a pass does that is made of rules, some of which know a draft or a kernel."""

    def apply(draft: Draft, setting: _Setting) -> None:
        apply_rules(draft.graph, rules(draft, setting) if callable(rules) else rules)

    return apply


def apply_passes(
    passes: Sequence[Pass[_Setting]], draft: Draft, setting: _Setting, without: Collection[str] = ()
) -> None:
    """Run those passes that the setting calls for, in order; `without` are the names of some to leave out."""
    for entry in passes:
        if entry.when(setting) and (entry.needed or entry.name not in without):
            entry.apply(draft, setting)
