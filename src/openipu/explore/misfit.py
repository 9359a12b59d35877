"""What to do about a program that would not fit its IPUs, in the words of a front end.

In: a captured program and its plan. Out: a few lines for the warning and a record for the report: the option that makes
it fit, and what each lever saves and costs. Levers are planned as long as that is a matter of seconds, by the size of
the program and not by the clock, so that the advice is the same on every machine: compiling must not wait for advice.
What it takes is imported when a program does not fit: most do, and their first result must not wait for that either.
"""

from __future__ import annotations

from collections.abc import Callable

from openipu.graph import Program
from openipu.plan import Plan
from openipu.session import Advised

_MOST_OPS = 12_000  # planned again in all: some seconds
_FEWEST_PLANS = 12  # below that too little would be tried to be of use
_LATER = "`openipu plan` says which option would make it fit, and at what cost."


def make_advisor(words: str) -> Callable[[Program, Plan], Advised]:
    """What compilations of a front end, one of `levers.FrontEnd`, ask where a program does not fit."""

    def advise_misfit(program: Program, plan: Plan) -> Advised:
        most_plans = _MOST_OPS // max(1, len(program.micro.module.graph.nodes))
        if most_plans < _FEWEST_PLANS:
            return Advised(_LATER)
        from openipu.explore.levers import FrontEnd, advise, describe_advice, record_advice

        front_end = FrontEnd(words)
        advice = advise(program, plan, most_plans=most_plans)
        return Advised(describe_advice(advice, front_end), record_advice(advice, front_end))

    return advise_misfit
