"""What an engine asks of the host while a program runs: streams, functions, printed tensors.

In: numbers of streams and functions, arrays. Out: arrays. A front end implements it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from openipu.graph.mapped.codelets import Array
from openipu.graph.mapped.elements import ElementType


class Host(Protocol):
    """The host's side of a run."""

    def feed(self, stream: int, elements: int, replica: int) -> Array:
        """The next elements of a stream to the device."""
        ...

    def drain(self, stream: int, values: Array, replica: int) -> None:
        """Elements of a stream from the device, as one row."""
        ...

    def call(self, function: int, inputs: Sequence[Array], replica: int) -> Sequence[Array]:
        """Run a function of the host."""
        ...

    def show(self, title: str, values: Array, element: ElementType) -> None:
        """A printed tensor."""
        ...
