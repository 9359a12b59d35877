"""Two plans side by side: the difference, in terms that add up exactly."""

from openipu.explore.compare.contributions import Grouping, sum_call, sum_peak
from openipu.explore.compare.difference import Change, Comparison, Term, compare_plans

__all__ = ["Change", "Comparison", "Grouping", "Term", "compare_plans", "sum_call", "sum_peak"]
