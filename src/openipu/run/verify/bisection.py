"""Which rule makes a call differ from the reference.

In: a `Trial` that differs. Out: a `Fault`. Rules are switched on one after the other, in the order in which they run;
the first one that brings the difference is at fault (as LLVM's opt-bisect does it for a compiler's passes).
"""

from __future__ import annotations

from dataclasses import dataclass

from openipu.run.engine.pass_list import list_rules
from openipu.run.verify.trial import Trial


@dataclass(frozen=True, slots=True)
class Fault:
    """What a difference comes from."""

    rule: str | None  # None: no rule
    number: int  # of the rule, from 1; 0: without any rule there is a difference already
    of: int
    without: frozenset[str]  # rules behind it, which are not needed for the difference

    def __str__(self) -> str:
        if self.rule is not None:
            return f"the rule {self.rule!r} (number {self.number} of {self.of})"
        if self.number == 0:
            return "what the engine does without any rule (generated code, kernels that replace an operator)"
        return (
            "code that was compiled for the program, or an earlier call: a new engine with all rules has no difference"
        )


def find_fault(trial: Trial) -> Fault:
    """Halve the list of rules until one is left."""
    rules = list_rules()

    def differs(count: int) -> bool:
        return bool(trial.run(rules[count:]))

    if not differs(len(rules)):
        return Fault(None, len(rules), len(rules), frozenset())
    if differs(0):
        return Fault(None, 0, len(rules), frozenset(rules))
    good, bad = 0, len(rules)
    while bad - good > 1:
        middle = (good + bad) // 2
        if differs(middle):
            bad = middle
        else:
            good = middle
    return Fault(rules[bad - 1], bad, len(rules), frozenset(rules[bad:]))
