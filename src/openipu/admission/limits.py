"""How much a program from a file may ask for.

In: nothing. Out: `Limits`, one value each. The defaults are far above what capture writes, and below what harms.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from openipu.graph.serial.reading import MOST_NODES


def measure_memory() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that are checked before a program is run."""

    document_bytes: int = 32 << 20  # of JSON
    nodes: int = MOST_NODES  # in all graphs together, bodies of loops included
    node_runs: int = 20_000_000  # in one micro-batch, with every pass of every loop
    memory_bytes: int = field(default_factory=measure_memory)  # tensors that live at once, weights and state included
