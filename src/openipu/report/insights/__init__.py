"""What a profile tells by itself: findings with the number, the cause and the remedy.

In: a `Profile`. Out: `Finding`s, the worst first. A rule is a function from a `Case` to findings; `RULES` lists all.
"""

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
    found = [finding for rule in RULES for finding in rule(case)]
    return Findings(sorted(found, key=lambda finding: _ORDER.index(finding.level)))


__all__ = ["RULES", "Evidence", "Finding", "Findings", "Level", "find_insights", "render_insights"]
