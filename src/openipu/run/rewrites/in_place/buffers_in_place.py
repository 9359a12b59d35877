"""Buffers that a program writes a part of, such as the keys and values of a step of generation.

In: a draft of an inference program. Out: the same draft, in which that part is written where the buffer lies, if
nothing else reads the old one. Otherwise the whole buffer is copied, and copied back when the program has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from openipu.graph import InputKind, OutputKind
from openipu.run.drafts.aliasing import find_owner
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.ownership import reads_once

WRITERS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.index_copy.default: torch.Tensor.index_copy_,
    torch.ops.aten.index_put.default: torch.Tensor.index_put_,
}


def write_in_place(draft: Draft) -> None:
    """Let new values of buffers be written into the old ones."""
    buffers = {entry.name: entry.node for entry in draft.inputs if entry.kind is InputKind.BUFFER}
    for result, entry in zip(draft.results, draft.outputs, strict=True):
        if entry.kind is not OutputKind.BUFFER or result.target not in WRITERS:
            continue
        old = result.args[0]
        if not isinstance(old, fx.Node) or old.name != buffers.get(entry.name):
            continue
        if len(old.users) > 1 or not reads_once(result, old):
            continue
        # Whoever gets it, or a part of it, must not see it change in the next run.
        if sum(find_owner(other) is result for other in draft.results) == 1:
            result.target = WRITERS[result.target]
