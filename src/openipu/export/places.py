"""Where a node is from, as comments and errors say it.

In: a node. Out: ", at model.py:12 in forward", or the title of a group of nodes.
"""

from __future__ import annotations

from pathlib import Path

from torch import fx

from openipu.graph import Note, Phase, note_of


def describe_place(node: fx.Node) -> str:
    """For an error: the user's line, else the module, else nothing."""
    note = note_of(node)
    if note.line is not None:
        return f", at {note.line}"
    return f", in {note.module}" if note.module else ""


def title_node(node: fx.Node) -> str:
    """For a comment, or a documented node: its module, line, IPU and stage, as far as they say something."""
    return title_note(note_of(node))


def title_note(note: Note) -> str:
    parts = [note.module] if note.module else []
    if note.line is not None:
        parts.append(f"{Path(note.line.file).name}:{note.line.line}")
    if note.phase is Phase.BACKWARD:
        parts.append("backward")
    if note.ipu or note.stage:
        parts.append(f"IPU {note.ipu}, stage {note.stage}")
    return ", ".join(" ".join(part.split()) for part in parts)
