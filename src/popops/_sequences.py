"""Pieces of one tensor to places of another, with lengths that are known only while a program runs.

In: rows, and for each piece its length and where it starts on both sides. Out: the other tensor, changed in place.
"""

from __future__ import annotations

import torch

from poplar import Graph, Tensor
from poplar._errors import poplar_error
from poplar._library import Target, call_library


def sequenceSlice(
    graph: Graph,
    tIn: Tensor,
    tOut: Tensor,
    tN: Tensor,
    tInOffset: Tensor,
    tOutOffset: Tensor,
    zeroUnused: bool,
    prog: Target,
    name: str = "",
) -> None:
    """`tOut[out : out + n] = tIn[in : in + n]` for each piece; other rows become zero, or stay."""
    if tIn.rank() < 2 or tOut.rank() < 2 or tIn[0].numElements() != tOut[0].numElements():
        raise poplar_error(
            f"sequenceSlice: rows of the same size are copied, and the shapes are {tIn.shape()} and {tOut.shape()}."
        )
    if not tN.rank() == tInOffset.rank() == tOutOffset.rank() == 1 or not (
        tN.shape() == tInOffset.shape() == tOutOffset.shape()
    ):
        raise poplar_error("sequenceSlice: lengths and both offsets have one dimension, of the same size.")
    rows = tOut.dim(0)

    def traced(
        source: torch.Tensor, old: torch.Tensor, sizes: torch.Tensor, starts: torch.Tensor, places: torch.Tensor
    ) -> torch.Tensor:
        steps = torch.arange(rows, dtype=torch.int64).unsqueeze(0) - places.to(torch.int64).unsqueeze(1)
        inside = (steps >= 0) & (steps < sizes.to(torch.int64).unsqueeze(1))  # [pieces, rows]
        read = torch.sum(torch.where(inside, steps + starts.to(torch.int64).unsqueeze(1), 0), 0)
        found = torch.index_select(source, 0, torch.clamp(read, 0, source.shape[0] - 1)).reshape(old.shape)
        used = torch.any(inside, 0).reshape([-1, *[1] * (old.dim() - 1)])
        return torch.where(used, found, torch.zeros_like(old) if zeroUnused else old)

    operands = [tIn, tOut, tN, tInOffset, tOutOffset]
    call_library(graph, prog, "popops::sequenceSlice", traced, operands, outputs=[tOut], name=name)
