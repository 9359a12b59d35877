"""Stochastic rounding by a C++ kernel.

In: a graph with the calls of `stochastic_rounding.py`, behind all passes that look for them, and the kernel. Out: the
same graph, whose calls have the kernel as their last argument.
"""

from __future__ import annotations

from torch import fx

from openipu.run.kernels import Run
from openipu.run.rewrites.half.stochastic_rounding import round_in_place, round_stochastically, round_wide
from openipu.run.rewrites.in_place.accumulation import add_rounded_rows

_CALLS = frozenset({round_stochastically, round_in_place, round_wide, add_rounded_rows})


def bind_rounding(graph: fx.Graph, run: Run) -> None:
    """Let the kernel sample and round."""
    for node in graph.nodes:
        if node.target in _CALLS:
            node.args = (*node.args, run)
