"""Streams of a program while it is captured.

In: what the host gives for a run, all transfers of a stream on a first dimension. Out: the transfer that each load
takes, and what the host gets. Outside of loops the number of a transfer is known; inside it counts with the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from popxl._ir.aliases import Traffic
from popxl.streams import DeviceToHostStream, HostToDeviceStream, Stream

Number = Any  # a whole number, or a tensor of the loop


def shape_transfers(stream: Stream, transfers: int) -> tuple[int, ...]:
    """The shape of all transfers of a stream. One alone is as it is, so that its first dimension counts samples."""
    return stream.shape if transfers == 1 and stream.shape else (transfers, *stream.shape)


class Streams:
    """All streams of one capture."""

    def __init__(
        self,
        transfers: int,
        given: Mapping[HostToDeviceStream, torch.Tensor],
        wanted: Mapping[DeviceToHostStream, int],
    ) -> None:
        self.transfers = transfers
        self.given = dict(given)
        self.wanted = dict(wanted)
        self.written: dict[DeviceToHostStream, torch.Tensor] = {}
        self._next: dict[Stream, Number] = {}

    def load(self, stream: HostToDeviceStream, written: bool) -> torch.Tensor:
        """The next transfer; a copy if it will be `written` to."""
        number = self._count(stream)
        data = self.given[stream]
        found = data.reshape(stream.shape) if self.transfers == 1 else self._select(data, number)
        return found.clone() if written else found

    def store(self, stream: DeviceToHostStream, value: torch.Tensor) -> None:
        """Keep the next transfer. With one transfer the last one that is stored is it."""
        number = self._count(stream)
        if self.transfers == 1:
            self.written[stream] = value.reshape(shape_transfers(stream, 1))
            return
        self.open(stream)
        kept = self.written[stream]
        if isinstance(number, int):
            place = torch.tensor([number % self.transfers])
        else:
            place = torch.remainder(number, self.transfers).reshape(1).long()
        self.written[stream] = kept.index_copy(0, place, value.unsqueeze(0))

    def open(self, stream: DeviceToHostStream) -> None:
        """Room for all transfers."""
        if stream not in self.written:
            self.written[stream] = torch.zeros(shape_transfers(stream, self.transfers), dtype=stream.dtype._held)

    def _count(self, stream: Stream) -> Number:
        number = self._next.get(stream, 0)
        self._next[stream] = number + 1
        return number

    def _select(self, data: torch.Tensor, number: Number) -> torch.Tensor:
        if isinstance(number, int):
            return data[number % self.transfers]
        place = torch.remainder(number, self.transfers).reshape(1).long()
        return torch.index_select(data, 0, place).reshape(data.shape[1:])

    @contextmanager
    def inside(
        self, traffic: Traffic, count: torch.Tensor | None, held: Mapping[DeviceToHostStream, torch.Tensor]
    ) -> Iterator[None]:
        """One pass of a loop, of which `count` were before."""
        before_next, before_written = dict(self._next), dict(self.written)
        self.written.update(held)
        if count is not None and self.transfers > 1:
            used: dict[Any, int] = {**traffic.loads, **traffic.stores}
            for stream, each in used.items():
                self._next[stream] = self._next.get(stream, 0) + count * each
        try:
            yield
        finally:
            self._next, self.written = before_next, before_written

    def pass_by(self, traffic: Traffic, times: int) -> None:
        """A loop is over."""
        used: dict[Any, int] = {**traffic.loads, **traffic.stores}
        for stream, each in used.items():
            self._next[stream] = self._next.get(stream, 0) + times * each
