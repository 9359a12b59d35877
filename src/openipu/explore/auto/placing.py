"""Writes a layout into the notes of a program: the stage and IPU of every node, and checkpoints between segments.

In: a program that nobody else reads at the moment, its chain, a layout. Out: the same program with other notes. Notes
are all that changes: results stay what they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from torch import fx

from openipu.explore.auto.segments import Chain
from openipu.explore.auto.types import Keep, Layout
from openipu.graph import NOTE, Note, Phase, Program, note_of
from openipu.plan.lowering.recompute import CHECKPOINT

BLOCK_NAME = "stage"


def write_layout(program: Program, chain: Chain, layout: Layout) -> dict[fx.Node, Note]:
    """Put every node into its stage. Returns the notes before, for `restore_notes`."""
    stage_of = {index: number for number, stage in enumerate(layout.stages) for index in stage.segments}
    before: dict[fx.Node, Note] = {}
    for node in program.micro.module.graph.nodes:
        if node.op != "call_function":
            continue
        note = before[node] = note_of(node)
        number = stage_of[chain.segment_of[node]]
        attributes = note.attributes
        if layout.keep is Keep.LAYER_INPUTS and note.phase is Phase.FORWARD and _leaves_segment(node, chain):
            attributes = {**attributes, CHECKPOINT: True}
        block = f"{BLOCK_NAME} {number}"
        place = layout.stages[number].ipu
        node.meta[NOTE] = replace(note, block=block, ipu=place, stage=number, attributes=attributes)
    return before


def restore_notes(before: dict[fx.Node, Note]) -> None:
    """Undo `write_layout`."""
    for node, note in before.items():
        node.meta[NOTE] = note


@contextmanager
def lay_out(program: Program, chain: Chain, layout: Layout) -> Iterator[None]:
    """While this lasts, the program runs in these stages."""
    before = write_layout(program, chain, layout)
    try:
        yield
    finally:
        restore_notes(before)


def _leaves_segment(node: fx.Node, chain: Chain) -> bool:
    """Another segment's forward pass reads this node, perhaps through a view."""
    own = chain.segment_of[node]
    for user in node.users:
        if note_of(user).phase is not Phase.FORWARD or user.op != "call_function":
            continue
        if chain.segment_of[user] != own:
            return True
    return False
