"""The system that a row's text means.

In: a row, whose `system` is written as its source does ("C2 Mk1 GC2 1.6GHz", "Bow Pod64", "M2000 (1 IPU)"). Out: a
`System` of the catalog with at least the row's IPUs.
"""

from __future__ import annotations

import re

from openipu.errors import TargetError
from openipu.machine import System, list_systems, resolve_system
from openipu.validation.figures.rows import FigureRow

_POD_SIZES = (4, 16, 64, 128, 256)


def find_system(row: FigureRow) -> System:
    """The catalog's entry for a row; a `TargetError` for a machine that nobody knows here."""
    text = row.system.lower()
    if text.strip() in list_systems():
        return resolve_system(text.strip())
    if "gc2 " in text or "mk1" in text or re.search(r"\bc2\b", text):
        return resolve_system("c2" if row.ipus <= 2 else "c2-8")
    if "c600" in text or "ipu21" in text:
        return resolve_system("c600")
    pod = re.search(r"pod[ -]?(\d+)", text)
    if "bow" in text:
        return _find_pod("bow-", int(pod.group(1)) if pod else row.ipus, row)
    if pod or "m2000" in text or "gc200" in text or "mk2" in text:
        return _find_pod("", int(pod.group(1)) if pod else row.ipus, row)
    if re.search(r"\bipu\b", text):  # a tutorial's "IPU hardware" or "IPU Model"
        return _find_pod("", row.ipus, row)
    raise TargetError(
        f"Row {row.id}: no system of the catalog is called {row.system!r}. "
        f"Known systems: {', '.join(list_systems())}. Write one of them into the column `system`."
    )


def _find_pod(prefix: str, ipus: int, row: FigureRow) -> System:
    for size in _POD_SIZES:
        if ipus <= size:
            return resolve_system(f"{prefix}pod{size}")
    raise TargetError(
        f"Row {row.id}: no pod of the catalog has {ipus} IPUs; the largest has {_POD_SIZES[-1]}. "
        "Describe it in a TOML file and give its path as the system."
    )
