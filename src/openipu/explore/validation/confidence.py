"""How wide a range to state, by kind of work.

In: a kind. Out: a spread, the natural logarithm of the factor either way that nine of ten published values lie within.
`tools/calibrate.py` measures the spread of the half of the rows that constants were fitted on, and how many of the
other half lie inside. Kinds with few rows have a spread by judgement, marked so.
"""

from __future__ import annotations

# From the 90th percentile of the fitted half, widened where too few of the held-out half lie inside.
ON_TILE = 0.02  # 0.006; never narrower than what a timer resolves
DENSE_MATMUL = 0.14
DENSE_CONVOLUTION = 0.18
GROUPED_CONVOLUTION = 0.18
NARROW_CONVOLUTION = 0.70

# By judgement: fewer than ten rows, or several mechanisms in one kind.
LOCAL_MEMORY = 0.05  # the width of a load is known, the loop around it is not
EXCHANGE = 0.10
LINKS = 0.25  # latencies fitted on few rows
HOST = 0.10
ELEMENTWISE = 0.15
REDUCTION = 0.35
SPARSE = 0.45
USER_VERTEX = 0.45  # what a compiler makes of C++ is guessed instruction by instruction
LARGEST_SIZE = 0.35
OTHER_COMPILER = 0.70
