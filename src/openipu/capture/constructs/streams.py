"""Inputs and outputs that are to cross the host link while the IPU computes.

In: marks of the user on tensors of forward. Out: the attribute "overlap" on the note of the input, or of the op that
makes the output, once it is clear that the mark is where an overlapped transfer can begin or end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from openipu.capture.active import ActiveCapture, StreamMark, find_active
from openipu.capture.model.results import Result
from openipu.errors import CaptureError, Term
from openipu.graph import NOTE, GraphInput, InputKind, OutputKind, note_of

OVERLAP = "overlap"  # key of Note.attributes


def mark_stream(tensor: torch.Tensor, mode: str, *, is_input: bool) -> torch.Tensor:
    """The tensor under a new name, marked as an overlapped input or output. Outside of a capture: the tensor."""
    capture = find_active()
    if capture is None:
        return tensor
    source = capture.recorder.node_of(tensor)
    marked: torch.Tensor = torch.ops.aten.alias(tensor)
    capture.streams.append(StreamMark(is_input, mode, source, capture.recorder.node_of(marked)))
    return marked


def check_streams(capture: ActiveCapture, inputs: Sequence[GraphInput], results: Sequence[Result]) -> None:
    """Check the marks of a finished trace and put them into the notes."""
    user_inputs = [entry.node for entry in inputs if entry.kind is InputKind.INPUT]
    returned = [capture.recorder.node_of(entry.tensor) for entry in results if entry.kind is OutputKind.OUTPUT]
    for mark in capture.streams:
        if mark.is_input:
            _check_input(mark, user_inputs)
        else:
            uses = returned.count(mark.marked) + returned.count(mark.source)
            if uses == 0 or mark.marked not in returned:
                raise CaptureError(
                    f"{Term.OUTPUT_STREAM} applied on a node which is not a tensor output to the model. "
                    f"Apply it to what forward returns, just before it returns.{_locate(mark)}"
                )
            if uses > 1:
                raise CaptureError(
                    f"{Term.OUTPUT_STREAM} cannot be used with a tensor that is returned twice. Please check "
                    f"all returned tensors including those nested in tuples/lists.{_locate(mark)}"
                )
        note = note_of(mark.source)
        mark.source.meta[NOTE] = replace(note, attributes={**note.attributes, OVERLAP: mark.mode})


def _check_input(mark: StreamMark, user_inputs: list[str]) -> None:
    if mark.source.name not in user_inputs:
        raise CaptureError(
            f"{Term.INPUT_STREAM} applied on a node which is not a tensor input to the model. "
            f"Apply it to the arguments of forward, before any other op.{_locate(mark)}"
        )
    if len(mark.source.users) > 1:
        raise CaptureError(
            f"{Term.INPUT_STREAM} must be the only op applied to an input. This is not the case for input "
            f"{user_inputs.index(mark.source.name)} to the model. Use what it returns in place of the input."
            f"{_locate(mark)}"
        )


def _locate(mark: StreamMark) -> str:
    line = note_of(mark.marked).line
    return f"\n  at {line}" if line is not None else ""
