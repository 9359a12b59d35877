"""What a profile tells by itself: findings with the number, the cause and the remedy.

In: a `Profile`. Out: `Finding`s, the worst first. A rule is a function from a `Case` to findings; `RULES` lists all.
"""

from dataclasses import replace

from openipu.report.insights import memory, pipeline, time
from openipu.report.insights.finding import Case, Evidence, Finding, Findings, Level
from openipu.report.insights.text import render_insights
from openipu.report.profile import Profile

RULES = (
    memory.explain_fullest_tile,
    memory.compare_tiles,
    memory.compare_ipus,
    memory.weigh_code,
    pipeline.find_bubbles,
    pipeline.find_slow_stage,
    time.find_exchange,
    time.find_links,
    time.find_host_bound,
    time.find_poor_matrix_use,
    time.find_float_matmuls,
    time.find_sync,
    time.find_idle_tiles,
    time.find_layout,
    time.find_update,
    time.find_guesses,
)
_ORDER = tuple(Level)


def find_insights(profile: Profile) -> Findings:
    """All findings: problems, then advice, then notes; within a level in the order of the rules."""
    case = Case(profile)
    found = [_put_fit_first(finding, case) for rule in RULES for finding in rule(case)]
    return Findings(sorted(found, key=lambda finding: _ORDER.index(finding.level)))


def _put_fit_first(finding: Finding, case: Case) -> Finding:
    """Where memory is short, advice that takes more of it has to wait."""
    if case.profile.fit.fits or not finding.takes_memory:
        return finding
    return replace(finding, remedy=f"Make it fit first: some of this takes more memory. {finding.remedy}")


__all__ = ["RULES", "Evidence", "Finding", "Findings", "Level", "find_insights", "render_insights"]
