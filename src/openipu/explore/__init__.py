"""Many plans: validation against published figures, workloads, sweeps, comparison, automatic split.

Stands above `openipu.jobs`: every part here builds jobs or rows, plans them with the code that plans users' programs,
and looks at many plans at once.
"""

from openipu.explore.misfit import make_advisor

__all__ = ["make_advisor"]
