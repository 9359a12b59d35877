"""What to do about a model that would not fit its IPUs, in PopTorch's own words.

In: a captured program and its plan. Out: a few lines for the warning: the option that makes it fit, and what each lever
saves and costs. Levers are planned in a few seconds or not at all: compiling must not wait for advice.
"""

from __future__ import annotations

from openipu.explore.levers import FrontEnd, advise, describe_advice
from openipu.graph import Program
from openipu.plan import Plan

_SECONDS = 3.0
_QUICK_PLAN_SECONDS = 0.3  # of a program that can be planned a dozen times in that time
_LATER = "`openipu plan` says which option would make it fit, and at what cost."


def advise_misfit(program: Program, plan: Plan) -> str:
    """Lines for the warning."""
    if plan.planning_seconds > _QUICK_PLAN_SECONDS:
        return _LATER
    return describe_advice(advise(program, plan, seconds=_SECONDS), FrontEnd.POPTORCH)
