"""A ring of slots in shared memory between the process that loads data and the one that uses it.

In: elements, each a list of tensors that are alike from one to the next. Out: the same elements in the same order, as
views of the slots. Each slot has a tag: the epoch of its element, and how many rows of it count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

END = 0  # rows of a slot that marks the end of an epoch
WHOLE = -1  # rows of an element that is not cut


def share(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor, in memory that another process can have, too."""
    shared: torch.Tensor = tensor.share_memory_()  # type: ignore[no-untyped-call]
    return shared


@dataclass(frozen=True, slots=True)
class Tag:
    """What a slot holds."""

    epoch: int
    rows: int


class RingBuffer:
    """Both sides have one over the same memory, each with a position of its own."""

    def __init__(self, tensors: Sequence[torch.Tensor], full: torch.Tensor, tags: torch.Tensor) -> None:
        self._tensors = list(tensors)  # [slot, *shape] each
        self._full = full  # by slot: written and not yet released
        self._tags = tags  # by slot: epoch, rows
        self._position = 0
        self._held: int | None = None

    @classmethod
    def allocate(cls, leaves: Sequence[torch.Tensor], slots: int, rows: int | None = None) -> RingBuffer:
        """A ring for elements like this one, with another number of rows where one is given."""
        shapes = [tuple(leaf.shape) if rows is None else (rows, *leaf.shape[1:]) for leaf in leaves]
        tensors = [
            share(torch.empty((slots, *shape), dtype=leaf.dtype)) for shape, leaf in zip(shapes, leaves, strict=True)
        ]
        full = share(torch.zeros(slots, dtype=torch.bool))
        return cls(tensors, full, share(torch.zeros((slots, 2), dtype=torch.int64)))

    def __getstate__(self) -> dict[str, Any]:
        return {"tensors": self._tensors, "full": self._full, "tags": self._tags}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def indices_mem(self) -> torch.Tensor:
        """Which slots hold an element."""
        return self._full

    @property
    def is_full_here(self) -> bool:
        """Whether the slot at this side's position holds an element."""
        return bool(self._full[self._position])

    def write(self, leaves: Sequence[torch.Tensor], tag: Tag) -> None:
        """Fill the slot at the position, which must be free, and go on to the next."""
        for number, (target, leaf) in enumerate(zip(self._tensors, leaves, strict=True)):
            slot = target[self._position] if tag.rows == WHOLE else target[self._position][: tag.rows]
            if slot.shape != leaf.shape:
                raise ValueError(
                    f"Tensor {number} of an element has shape {tuple(leaf.shape)}, the first element's had "
                    f"{tuple(slot.shape)}: all elements must be alike. Drop or pad the last batch of a dataset, or use "
                    "rebatching."
                )
            slot.copy_(leaf)  # in the type of the first element
        self._publish(tag)

    def write_end(self, epoch: int) -> None:
        """Mark the end of an epoch in the slot at the position."""
        self._publish(Tag(epoch, END))

    def _publish(self, tag: Tag) -> None:
        self._tags[self._position, 0], self._tags[self._position, 1] = tag.epoch, tag.rows
        self._full[self._position] = True  # last: the other side looks at it first
        self._step()

    def read_tag(self) -> Tag:
        epoch, rows = self._tags[self._position].tolist()
        return Tag(epoch, rows)

    def take(self) -> list[torch.Tensor]:
        """The element at the position, as views: they are valid until `release`."""
        rows = self.read_tag().rows
        views = [tensor[self._position] for tensor in self._tensors]
        self._held = self._position
        self._step()
        return views if rows == WHOLE else [view[:rows] for view in views]

    def skip(self) -> None:
        """Give the slot at the position back unread."""
        self._full[self._position] = False
        self._step()

    def release(self) -> None:
        """Give back the slot that was taken."""
        if self._held is not None:
            self._full[self._held] = False
            self._held = None

    def _step(self) -> None:
        self._position = (self._position + 1) % len(self._full)
