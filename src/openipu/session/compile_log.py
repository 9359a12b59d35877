"""What is logged of a compilation: the graph, the plan, and what each op would cost.

In: a program and its plan. Out: lines of the loggers `openipu.capture`, `openipu` and `openipu.ops`, as far as
their levels ask for them.
"""

from __future__ import annotations

import logging

from openipu.environment.log_levels import TRACE
from openipu.graph import Program
from openipu.plan import Plan

_graphs = logging.getLogger("openipu.capture")
_plans = logging.getLogger("openipu")
_ops = logging.getLogger("openipu.ops")


def log_compilation(program: Program, plan: Plan) -> None:
    """Log what was compiled. Details that nobody wants are not even planned."""
    if _graphs.isEnabledFor(logging.INFO):
        for name, graph in (("micro", program.micro), ("update", program.update)):
            if graph is not None:
                count = len(graph.module.graph.nodes)
                _graphs.info("%s: graph %s has %d nodes", program.name, name, count)
                for node in graph.module.graph.nodes if _graphs.isEnabledFor(TRACE) else ():
                    _graphs.log(TRACE, "%s: %s", program.name, node.format_node())
    if _plans.isEnabledFor(logging.INFO):
        _log_plan(plan)
    if _ops.isEnabledFor(logging.DEBUG):
        clock_hz = plan.timing.clock_hz
        for op in plan.ops:
            seconds = op.cycles / clock_hz
            chosen = f", planned as {dict(op.plan)}" if op.plan else ""
            _ops.debug("%s: %s %s: %.0f cycles, %.2f us%s", plan.name, op.name, op.op, op.cycles, seconds * 1e6, chosen)


def _log_plan(plan: Plan) -> None:
    fit, timing = plan.fit, plan.timing
    _plans.info(
        "%s on %s: the fullest tile needs %s of %s bytes; one call takes %s cycles (modelled)",
        plan.name,
        plan.system.name,
        f"{fit.peak_bytes:,}",
        f"{fit.limit_bytes:,}",
        f"{timing.call_cycles:,.0f}",
    )
    if _plans.isEnabledFor(logging.DEBUG):
        for name, seconds in plan.passes.items():
            _plans.debug("%s: pass %s took %.3f s", plan.name, name, seconds)
    if _plans.isEnabledFor(TRACE):
        for number, step in enumerate(plan.steps):
            _plans.log(
                TRACE, "%s: step %d, %s %s: %.0f cycles", plan.name, number, step.kind.value, step.name, step.cycles
            )
