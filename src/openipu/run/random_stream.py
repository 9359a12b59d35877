"""The random numbers of a program.

In: an optional seed. Out: a context around each run. With a seed, the program draws from a stream of its own that goes
on from run to run and leaves the user's global stream as it was. Without one, it draws from the global stream, in the
order eager PyTorch would. Seeds come from a generator of the stream's own; operators that know PyTorch's global
generator alone have it to themselves for the while, whichever thread they run in.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from openipu.errors import InputError

_global_stream = threading.RLock()  # held while PyTorch's generator stands where a program wants it


class RandomStream:
    """A private position in PyTorch's CPU random numbers, or the global one."""

    def __init__(self, seed: int | None) -> None:
        self._state: torch.Tensor | None = None
        self._seed = seed
        if seed is not None:
            self._state = torch.Generator().manual_seed(seed).get_state()

    @property
    def state(self) -> torch.Tensor | None:
        """Where the private stream stands, as bytes to store; None where the global stream is used."""
        return None if self._state is None else self._state.clone()

    @state.setter
    def state(self, value: torch.Tensor | None) -> None:
        self._state = None if value is None else value.clone()

    def to_numbers(self) -> list[int]:
        """The seed, then where the stream stands. The global stream is described where the program has none."""
        seed = torch.initial_seed() if self._seed is None else self._seed
        state = torch.get_rng_state() if self._state is None else self._state
        return [seed, *state.view(torch.int64).tolist()]

    def from_numbers(self, numbers: Sequence[int]) -> None:
        """Go on where a stored stream stood, in a stream of the program's own."""
        expected = torch.get_rng_state()
        words = [number for number in numbers[1:] if -(1 << 63) <= number < 1 << 63]
        state = torch.tensor(words, dtype=torch.int64).view(torch.uint8)
        if state.shape != expected.shape or len(words) != len(numbers) - 1:
            raise InputError(
                f"A random state holds a seed and {expected.numel() // 8} numbers, not {len(numbers)} in all: "
                "use one that was read from a program of this version of PyTorch."
            )
        self._seed, self._state = int(numbers[0]), state

    def draw_seeds(self, count: int) -> torch.Tensor:
        """A seed for each micro-batch."""
        if self._state is None:
            with _global_stream:
                return _draw(count, torch.default_generator)
        generator = torch.Generator()
        generator.set_state(self._state)
        seeds = _draw(count, generator)
        self._state = generator.get_state()
        return seeds

    @contextmanager
    def use(self) -> Iterator[None]:
        """Let operators draw from this stream inside the block."""
        with _global_stream:
            if self._state is None:
                yield
                return
            outside = torch.get_rng_state()
            torch.set_rng_state(self._state)
            try:
                yield
            finally:
                self._state = torch.get_rng_state()
                torch.set_rng_state(outside)


def _draw(count: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randint(-(1 << 31), 1 << 31, (count,), dtype=torch.int64, generator=generator).to(torch.int32)
