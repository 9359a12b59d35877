"""What to do about a model that would not fit its IPUs, in PopTorch's own words.

In: a captured program and its plan. Out: a few lines for the warning and a record for the report: the option that makes
it fit, and what each lever saves and costs. Levers are planned as long as that is a matter of seconds, by the size of
the program and not by the clock, so that the advice is the same on every machine: compiling must not wait for advice.
"""

from __future__ import annotations

from openipu.explore.levers import FrontEnd, advise, describe_advice, record_advice
from openipu.graph import Program
from openipu.plan import Plan
from openipu.session import Advised

_MOST_OPS = 12_000  # planned again in all: some seconds
_FEWEST_PLANS = 12  # below that too little would be tried to be of use
_LATER = "`openipu plan` says which option would make it fit, and at what cost."


def advise_misfit(program: Program, plan: Plan) -> Advised:
    """Lines for the warning, and the levers for the report."""
    most_plans = _MOST_OPS // len(program.micro.module.graph.nodes)
    if most_plans < _FEWEST_PLANS:
        return Advised(_LATER)
    advice = advise(program, plan, most_plans=most_plans)
    return Advised(describe_advice(advice, FrontEnd.POPTORCH), record_advice(advice, FrontEnd.POPTORCH))
