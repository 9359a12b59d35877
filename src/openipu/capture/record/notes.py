"""Where each node is from.

In: module hooks, `set_block`, the user's stack while forward runs, autograd's sequence numbers while backward runs.
Out: a `Note` for the node being recorded. An autograd node carries the sequence number that was current when its
forward op was recorded, so a backward op finds the note of the op that it differentiates, without any hook on tensors.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from openipu.capture.lines import find_user_line
from openipu.capture.record.torch_private import read_backward_sequence, read_next_sequence
from openipu.graph import Note, Phase, SourceLine


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """The part of the program that the user is in: a pipeline block, its IPU and stage."""

    name: str | None = None
    ipu: int = 0
    stage: int = 0


@dataclass(frozen=True, slots=True)
class Origin:
    """An op of a foreign graph, which stands in for the user's line and module."""

    scope: str  # in place of a module's name
    line: SourceLine | None = None
    ipu: int = 0
    stage: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)
    phase: Phase = Phase.FORWARD  # of a graph that has its backward pass and its update written out


class NoteKeeper:
    """Makes the notes of one capture."""

    def __init__(self, root: nn.Module | None) -> None:
        self._module_names = {} if root is None else {id(module): name for name, module in root.named_modules()}
        self._thread = threading.get_ident()  # module hooks are global: other threads' modules are not ours
        self._outer_modules: list[str] = []
        self._module = ""
        self.block = BlockPlace()
        self.origin: Origin | None = None  # the foreign op that is being translated
        self.attributes: dict[str, Any] = {}  # of all ops from here on
        self.phase = Phase.FORWARD  # of all ops of forward from here on
        self._sequences: list[int] = []
        self._forward_notes: list[Note] = []
        self._last_sequence = -1
        self._backward_note: Note | None = None

    def enter_module(self, module: nn.Module, args: Any) -> None:
        """Forward pre-hook of every module."""
        if threading.get_ident() != self._thread:
            return
        self._outer_modules.append(self._module)
        name = self._module_names.get(id(module))
        self._module = name if name is not None else f"{self._module}/{type(module).__name__}".lstrip("/")

    def leave_module(self, module: nn.Module, args: Any, output: Any) -> None:
        """Forward hook of every module. A block begun inside lasts beyond the module; the module path does not."""
        if self._outer_modules and threading.get_ident() == self._thread:
            self._module = self._outer_modules.pop()

    def enter_scope(self, name: str) -> None:
        """A part of forward that the user named: as if it were a module."""
        self._outer_modules.append(self._module)
        self._module = f"{self._module}/{name}".lstrip("/")

    def leave_scope(self) -> None:
        if self._outer_modules:
            self._module = self._outer_modules.pop()

    def start_backward(self, loss_note: Note) -> None:
        """From here on nodes are backward nodes. The seed gradient belongs to the loss."""
        self._last_sequence = read_next_sequence() - 1
        self._backward_note = replace(loss_note, phase=Phase.BACKWARD)

    def make_note(self) -> Note:
        """The note of the node that is being recorded now."""
        return self._note_forward() if self._backward_note is None else self._note_backward(self._backward_note)

    def _note_forward(self) -> Note:
        note = self._describe_place()
        # The op's autograd node, if it has one, was made just before the op arrived here. The first op wins: what
        # follows without a node of its own has the same number.
        sequence = read_next_sequence() - 1
        if not self._sequences or sequence > self._sequences[-1]:
            self._sequences.append(sequence)
            self._forward_notes.append(note)
        return note

    def _describe_place(self) -> Note:
        origin, block = self.origin, self.block
        if origin is not None:
            attributes = {**self.attributes, **origin.attributes}
            return Note(origin.phase, origin.scope, origin.line, None, origin.ipu, origin.stage, attributes)
        attributes = dict(self.attributes)
        return Note(self.phase, self._module, find_user_line(), block.name, block.ipu, block.stage, attributes)

    def _note_backward(self, previous: Note) -> Note:
        sequence = read_backward_sequence()
        # Sums of gradients run between autograd nodes, and a recomputed forward makes numbers that no forward op had:
        # both belong where the last known op was.
        if sequence is None or sequence > self._last_sequence:
            return previous
        position = bisect.bisect_right(self._sequences, sequence) - 1
        if position < 0:
            return previous
        self._backward_note = replace(self._forward_notes[position], phase=Phase.BACKWARD)
        return self._backward_note
