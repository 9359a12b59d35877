"""The stages of a pipeline as an IPU runs them: those that follow one another on the same IPU are one.

In: forward nodes with the stage that the user's blocks gave them. Out: a new number for each stage. A model with a
block for each layer has one stage more than its micro-batches change IPUs, and a strategy that counts blocks from 1
leaves no empty stage in front of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import fx

from openipu.graph import RunOptions, Strategy, note_of


def merge_stages(forward: Iterable[fx.Node], options: RunOptions) -> Mapping[int, int]:
    """The merged stage of each stage. Phases, and stages that take turns, stay as they are numbered."""
    ipus = {note_of(node).stage: note_of(node).ipu for node in forward}
    if options.strategy is not Strategy.PIPELINED:
        return {stage: stage for stage in ipus}
    merged: dict[int, int] = {}
    shift, previous = min(ipus, default=0), None
    for stage, ipu in sorted(ipus.items()):
        if ipu == previous:
            shift += 1
        merged[stage] = stage - shift
        previous = ipu
    return merged
