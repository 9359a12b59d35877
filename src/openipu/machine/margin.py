"""How sure a verdict on memory is.

In: bytes of the fullest tile, and what a tile has for them. Out: the probability that the program fits a real IPU. The
model's bytes are off by some factor, whose logarithm is taken to be spread as a logistic distribution around nothing.
So at the limit either is as likely, and a verdict is sure only some way from it.
"""

from __future__ import annotations

import math

# Scale of that distribution, rounded, from the published marks of what ran on Mk1 and what did not that were held out
# when the limit was fitted (tools/calibrate.py), both kinds weighed alike: 0.095. The half that fitted it wants 0.06.
MARGIN_SPREAD = 0.1
_SURE = 30.0  # spreads: nothing changes beyond


def estimate_fit_probability(peak_bytes: float, limit_bytes: float) -> float:
    """Between 0 and 1; 0.5 where the fullest tile needs exactly what it has."""
    if limit_bytes <= 0:
        return 0.0 if peak_bytes > 0 else 0.5
    if peak_bytes <= 0:
        return 1.0
    distance = math.log(limit_bytes / peak_bytes) / MARGIN_SPREAD
    return 1.0 / (1.0 + math.exp(-max(-_SURE, min(_SURE, distance))))
