"""Where the micro-batches of a call come from: from the tensors of the call, or one after the other from a source.

In: the inputs of a call, or a `Source`. Out: the inputs of a few micro-batches when they are due, checked against what
the program was compiled for. A source is asked in order, and no sooner than its data are needed: a long loop holds no
more of them than it works on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from openipu.errors import InputError
from openipu.graph import GraphInput, InputKind, Program, RunOptions
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

    def take(self, first: int, count: int) -> dict[int, torch.Tensor]:
        """Inputs by leaf, of so many micro-batches as one tensor. The caller may add to it."""
        ...


class CallFeed:
    """The inputs of a whole call."""

    def __init__(self, leaves: Sequence[Any], entries: Sequence[GraphInput], options: RunOptions) -> None:
        self._parts = {entry.index: split_call(leaves[entry.index], entry, options) for entry in entries}

    def take(self, first: int, count: int) -> dict[int, torch.Tensor]:
        if count == 1:
            return {leaf: parts[first] for leaf, parts in self._parts.items()}
        return {leaf: _join_inputs(parts[first : first + count]) for leaf, parts in self._parts.items()}


class StreamFeed:
    """Inputs that arrive while the call runs."""

    def __init__(self, source: Source, reader: CallReader) -> None:
        self._source, self._reader = source, reader

    def take(self, first: int, count: int) -> dict[int, torch.Tensor]:
        return self._reader.read_part(self._source.take(first, count), count)


class SingleFeed(dict[int, torch.Tensor]):
    """The inputs of a call of one micro-batch, by leaf."""

    def take(self, first: int, count: int) -> dict[int, torch.Tensor]:
        return self


class CallReader:
    """Reads the inputs of one program's calls."""

    def __init__(self, program: Program, options: RunOptions, align: Align | None) -> None:
        """`align`: what is done to all leaves first."""
        self._name, self._options, self._align = program.name, options, align
        self._single = options.micro_batches == 1
        self._entries = program.micro.inputs_of(InputKind.INPUT)
        self._needed = max((entry.index for entry in self._entries), default=-1) + 1
        self._expected = [(entry.index, torch.Size(entry.shape), entry.dtype) for entry in self._entries]

    def read(self, leaves: Sequence[Any]) -> Feed:
        """The inputs of a call, from the flattened (args, kwargs) of all its micro-batches."""
        if self._align is not None:
            leaves = self._align(leaves)
        if len(leaves) < self._needed:
            raise InputError(
                f"{self._name} was compiled for at least {self._needed} inputs and got {len(leaves)}: "
                "pass the same structure of arguments as at compilation."
            )
        if not self._single:
            return CallFeed(leaves, self._entries, self._options)
        inputs = SingleFeed()
        for index, shape, dtype in self._expected:
            leaf = leaves[index]
            if type(leaf) is not torch.Tensor or leaf.dtype is not dtype or leaf.shape != shape or leaf.requires_grad:
                return CallFeed(leaves, self._entries, self._options)  # it has to be converted, or is wrong
            # Programs keep int64, which torch wants of an index, but the device gets no more than 32 bits of it.
            inputs[index] = leaf.to(torch.int32).to(torch.int64) if dtype is torch.int64 else leaf
        return inputs

    def stream(self, source: Source) -> Feed:
        """The inputs of a call that arrive while it runs."""
        return StreamFeed(source, self)

    def read_part(self, leaves: Sequence[Any], count: int) -> dict[int, torch.Tensor]:
        """The inputs of some micro-batches that arrived together."""
        if self._align is not None:
            leaves = self._align(leaves)
        if len(leaves) < self._needed:
            raise InputError(
                f"{self._name} was compiled for at least {self._needed} inputs, and its source gave {len(leaves)}."
            )
        return CallFeed(leaves, self._entries, RunOptions(device_iterations=count)).take(0, count)


def _join_inputs(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Neighbouring micro-batches of a call as one tensor. They are slices of it, so this is a view."""
    first = parts[0]
    if first.dim() == 0:
        return first
    size = (first.shape[0] * len(parts), *first.shape[1:])
    return first.as_strided(size, first.stride(), first.storage_offset())
