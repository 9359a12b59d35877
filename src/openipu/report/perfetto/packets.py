"""Packets of a Perfetto trace: tracks, slices and counters, on one sequence, with every text written once.

In: tracks, and events on them in order of time. Out: the bytes of a `Trace` message. The field numbers are those of
Perfetto's published `trace_packet.proto`, `track_event.proto` and `track_descriptor.proto`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from openipu.report.perfetto.wire import message, number, real, text

_SEQUENCE = 1
_CLEARED, _NEEDED = 1, 2  # flags of a sequence: texts begin anew; texts of before are used
_BYTES = 3  # a counter's unit
_IN_THE_ORDER_GIVEN = 3  # of the tracks below a process


class _Event(IntEnum):
    BEGIN = 1
    END = 2
    COUNTER = 4


class _Texts(IntEnum):
    """Lists of texts that events name by number: their fields in `InternedData`."""

    CATEGORY = 1
    NAME = 2
    ANNOTATION = 3
    VALUE = 29


@dataclass(frozen=True, slots=True)
class Track:
    """Where events lie."""

    uuid: int


class PacketWriter:
    """Collects the packets of one trace."""

    def __init__(self) -> None:
        self._packets: list[bytes] = []
        self._tracks = 0
        self._numbers: dict[_Texts, dict[str, int]] = {kind: {} for kind in _Texts}
        self._new: list[bytes] = []  # texts that the next packet brings along
        self._packet(number(13, _CLEARED), number(87, 1))

    def add_process(self, name: str) -> Track:
        """A group of tracks with a heading."""
        track = self._name_track()
        process = message(3, number(1, track.uuid), text(6, name))
        self._packet(message(60, number(1, track.uuid), process, number(11, _IN_THE_ORDER_GIVEN)))
        return track

    def add_track(self, process: Track, name: str, *, counts_bytes: bool = False) -> Track:
        """A lane of slices, or of a counter."""
        track = self._name_track()
        counter = message(8, number(3, _BYTES)) if counts_bytes else b""
        place = number(12, track.uuid)
        self._packet(message(60, number(1, track.uuid), text(2, name), number(5, process.uuid), counter, place))
        return track

    def begin(self, track: Track, time_ns: int, name: str, category: str, details: Mapping[str, object]) -> None:
        """A slice begins, inside of those that are open on its track."""
        parts = [number(3, self._find(_Texts.CATEGORY, category)), number(10, self._find(_Texts.NAME, name))]
        parts += [self._annotate(key, value) for key, value in details.items()]
        self._event(_Event.BEGIN, track, time_ns, *parts)

    def end(self, track: Track, time_ns: int) -> None:
        """The slice that began last ends."""
        self._event(_Event.END, track, time_ns)

    def count(self, track: Track, time_ns: int, value: int) -> None:
        """A counter has this value from now on."""
        self._event(_Event.COUNTER, track, time_ns, number(30, value))

    def finish(self) -> bytes:
        """The whole trace."""
        return b"".join(self._packets)

    def _name_track(self) -> Track:
        self._tracks += 1
        return Track(self._tracks)

    def _annotate(self, key: str, value: object) -> bytes:
        name = number(1, self._find(_Texts.ANNOTATION, key))
        if isinstance(value, int):
            return message(4, name, number(4, value))
        if isinstance(value, float):
            return message(4, name, real(5, value))
        return message(4, name, number(17, self._find(_Texts.VALUE, str(value))))

    def _find(self, kind: _Texts, value: str) -> int:
        """The number of a text. Its first use brings the text itself."""
        known = self._numbers[kind]
        if value not in known:
            known[value] = len(known) + 1
            self._new.append(message(kind, number(1, known[value]), text(2, value)))
        return known[value]

    def _event(self, kind: _Event, track: Track, time_ns: int, *parts: bytes) -> None:
        event = message(11, number(9, kind), number(11, track.uuid), *parts)
        texts = message(12, *self._new) if self._new else b""
        self._new.clear()
        self._packet(number(8, time_ns), texts, event, number(13, _NEEDED))

    def _packet(self, *parts: bytes) -> None:
        self._packets.append(message(1, number(10, _SEQUENCE), *parts))
