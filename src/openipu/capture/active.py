"""The capture that is under way in this thread, and how code that runs inside forward speaks to it.

In: calls from front ends and user code inside forward. Out: marks in the recording. Outside a capture each of these
functions does what eager PyTorch would, so a model with marks also runs on the CPU.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from openipu.capture.model.twins import ModelTwins
from openipu.capture.record.notes import BlockPlace, NoteKeeper
from openipu.capture.record.recorder import Recorder
from openipu.capture.record.torch_private import OpOverload
from openipu.errors import OptionError
from openipu.graph import NOTE, note_of


@dataclass(frozen=True, slots=True)
class StreamMark:
    """An input or output that the user wants to cross the host link while the IPU computes."""

    is_input: bool
    mode: str
    source: fx.Node  # what was marked
    marked: fx.Node  # its new name, from there on


@dataclass(eq=False)
class ActiveCapture:
    """What a running capture collects besides the graph."""

    recorder: Recorder
    notes: NoteKeeper
    losses: list[torch.Tensor] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    training: bool = False
    twins: ModelTwins | None = None  # in the model's place while forward runs
    calls: list[object] = field(default_factory=list)  # keeps calls alive until they are in the finished graph
    streams: list[StreamMark] = field(default_factory=list)
    groups_convolutions: bool = False  # inside a multi-convolution
    carried: dict[str, torch.Tensor] = field(default_factory=dict)  # parameter -> its value after the next update

    def warn(self, message: str) -> None:
        """Once each."""
        if message not in self.warnings:
            self.warnings.append(message)


class _ThreadState(threading.local):
    current: ActiveCapture | None = None


_state = _ThreadState()


def find_active() -> ActiveCapture | None:
    """The running capture of this thread."""
    return _state.current


def set_active(capture: ActiveCapture | None) -> None:
    """For `capture_program` alone."""
    _state.current = capture


def is_capturing() -> bool:
    """Is forward being captured, rather than run?"""
    return _state.current is not None


def is_capturing_training() -> bool:
    """Is forward being captured with its gradients and update?"""
    return _state.current is not None and _state.current.training


def mark_loss(tensor: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """Reduce a tensor by "sum", "mean" or "none", and train on the result."""
    if reduction == "sum":
        loss = tensor.sum()
    elif reduction == "mean":
        loss = tensor.mean()
    elif reduction == "none":
        loss = tensor.clone()  # a tensor of its own, so that the mark is not also on what it was made from
    else:
        raise OptionError(f'The reduction of a loss is "sum", "mean" or "none", not {reduction!r}.')
    capture = _state.current
    if capture is not None:
        capture.losses.append(loss)
    return loss


def set_block(name: str | None, ipu: int = 0, stage: int = 0) -> BlockPlace:
    """From here on ops belong to this block. Returns the block before, to go back to with `restore_block`."""
    capture = _state.current
    if capture is None:
        return BlockPlace()
    before = capture.notes.block
    capture.notes.block = BlockPlace(name, ipu, stage)
    return before


def restore_block(block: BlockPlace) -> None:
    """Back to a block that `set_block` returned."""
    if _state.current is not None:
        _state.current.notes.block = block


def mark_tensor(tensor: torch.Tensor, attributes: Mapping[str, Any]) -> torch.Tensor:
    """Add to the Note.attributes of the op that made `tensor`: its share of memory, that it is a checkpoint."""
    capture = _state.current
    if capture is not None:
        node = skip_views(capture.recorder.node_of(tensor))
        note = note_of(node)
        node.meta[NOTE] = replace(note, attributes={**note.attributes, **attributes})
    return tensor


def skip_views(node: fx.Node) -> fx.Node:
    """The op whose memory a view shows: `linear` on three dimensions ends in a view of its matrix product."""
    while isinstance(node.target, OpOverload):
        schema = node.target._schema
        alias = schema.arguments[0].alias_info if schema.arguments else None
        shows = node.target is torch.ops.aten._unsafe_view.default or (alias is not None and not alias.is_write)
        if not shows or not node.args or not isinstance(node.args[0], fx.Node):  # _unsafe_view hides that it is one
            break
        node = node.args[0]
    return node
