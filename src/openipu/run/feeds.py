"""Where the micro-batches of a call come from: from the tensors of the call, or one after the other from a source.

In: the inputs of a call, or a `Source`. Out: the inputs of a few micro-batches when they are due, checked against what
the program was compiled for. A source is asked in order, and no sooner than its data are needed: a long loop holds no
more of them than it works on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch

from openipu.errors import InputError
from openipu.graph import GraphInput, RunOptions
from openipu.run.batching import split_call

Align = Callable[[Sequence[Any]], Sequence[Any]]


class Source(Protocol):
    """A stream of inputs."""

    def take(self, first: int, count: int) -> Sequence[torch.Tensor]:
        """The inputs of `count` micro-batches, from number `first` of the call on: one tensor for each leaf, in which
        the micro-batches lie behind one another."""
        ...


class Feed(Protocol):
    """What a run asks for its inputs."""

    def take(self, first: int, count: int) -> Mapping[int, torch.Tensor]:
        """Inputs by leaf, of so many micro-batches as one tensor."""
        ...


class CallFeed:
    """The inputs of a whole call."""

    def __init__(self, leaves: Sequence[Any], entries: Sequence[GraphInput], options: RunOptions) -> None:
        self._parts = {entry.index: split_call(leaves[entry.index], entry, options) for entry in entries}

    def take(self, first: int, count: int) -> Mapping[int, torch.Tensor]:
        if count == 1:
            return {leaf: parts[first] for leaf, parts in self._parts.items()}
        return {leaf: _join_inputs(parts[first : first + count]) for leaf, parts in self._parts.items()}


class StreamFeed:
    """Inputs that arrive while the call runs."""

    def __init__(self, source: Source, entries: Sequence[GraphInput], needed: int, name: str, align: Align) -> None:
        self._source, self._entries, self._needed, self._name, self._align = source, entries, needed, name, align

    def take(self, first: int, count: int) -> Mapping[int, torch.Tensor]:
        leaves = self._align(self._source.take(first, count))
        if len(leaves) < self._needed:
            raise InputError(
                f"{self._name} was compiled for at least {self._needed} inputs, and its source gave {len(leaves)}."
            )
        asked = RunOptions(device_iterations=count)
        return CallFeed(leaves, self._entries, asked).take(0, count)


def _join_inputs(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Neighbouring micro-batches of a call as one tensor. They are slices of it, so this is a view."""
    first = parts[0]
    if first.dim() == 0:
        return first
    size = (first.shape[0] * len(parts), *first.shape[1:])
    return first.as_strided(size, first.stride(), first.storage_offset())
