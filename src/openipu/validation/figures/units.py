"""Units of published figures as factors of SI units.

In: a unit as a file writes it. Out: how many seconds, bytes (a second), operations or items (a second) it is. What is a
plain count stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

_SCALES: Mapping[str, float] = {
    "h": 3600.0,
    "min": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
    "TB/s": 1e12,
    "GB/s": 1e9,
    "KiB": 1024.0,
    "TFLOPS": 1e12,
    "Gsamples/s": 1e9,
    "%": 0.01,
}


def find_scale(unit: str) -> float:
    """What one of this unit is in SI. `us/hop` is microseconds; an unknown unit counts as it stands."""
    if unit in _SCALES:
        return _SCALES[unit]
    per_something = unit.partition("/")[0]
    return _SCALES.get(per_something, 1.0)
