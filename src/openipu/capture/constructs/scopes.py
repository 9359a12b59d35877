"""Parts of forward that carry a name, an attribute, or belong to one multi-convolution.

In: what a front end's context managers say. Out: notes on the ops recorded inside. Outside of a capture: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from openipu.capture.active import find_active
from openipu.capture.failures import locate
from openipu.errors import CaptureError, Term
from openipu.graph import NOTE, note_of

MULTI_CONVOLUTION = "multi_convolution"  # key of Note.attributes: the number of the group
_CONVOLUTIONS = (torch.ops.aten.convolution.default, torch.ops.aten.convolution_overrideable.default)


def push_name_scope(name: str) -> None:
    """Ops from here on are listed under this name."""
    capture = find_active()
    if capture is not None:
        capture.notes.enter_scope(name)


def pop_name_scope() -> None:
    """Back to the name before."""
    capture = find_active()
    if capture is not None:
        capture.notes.leave_scope()


@contextmanager
def attach_attributes(attributes: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Ops recorded inside carry these groups of attributes; inner ones are added to outer ones."""
    capture = find_active()
    if capture is None:
        yield
        return
    before = capture.notes.attributes
    merged = {group: {**before.get(group, {}), **values} for group, values in attributes.items()}
    capture.notes.attributes = {**before, **merged}
    try:
        yield
    finally:
        capture.notes.attributes = before


@contextmanager
def group_convolutions(settings: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> Iterator[None]:
    """Convolutions recorded inside form one multi-convolution. `settings`: for all of them, or one for each."""
    capture = find_active()
    if capture is None:
        yield
        return
    if capture.groups_convolutions:
        raise CaptureError(
            locate(f"Nested {Term.MULTI_CONVOLUTION} is not supported. End the outer one before the inner one begins.")
        )
    recorder = capture.recorder
    recorded = set(recorder.graph.nodes)
    capture.groups_convolutions = True
    try:
        yield
    finally:
        capture.groups_convolutions = False
    found = [node for node in recorder.graph.nodes if node not in recorded and node.target in _CONVOLUTIONS]
    if not found:
        raise CaptureError(
            locate(f"Unexpected end_multi_conv: there is no convolution in this {Term.MULTI_CONVOLUTION}. Remove it.")
        )
    each = [settings] * len(found) if isinstance(settings, Mapping) else list(settings)
    if len(each) != len(found):
        raise CaptureError(
            locate(
                f"This {Term.MULTI_CONVOLUTION} has settings for {len(each)} convolutions and holds {len(found)}. "
                "Give one value for all of them, or one for each."
            )
        )
    for node, own in zip(found, each, strict=True):
        note = note_of(node)
        group = {MULTI_CONVOLUTION: len(recorded)}  # a number that no other group of this graph has
        node.meta[NOTE] = replace(note, attributes={**note.attributes, **own, **group})
