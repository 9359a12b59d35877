"""In which order the parts of a compiled graph are called, and on which values.

In: calls of parts, by numbers. Out: a `Schedule`, which is stored as JSON beside the libraries of the parts; and a
function of all placeholders of the graph. A value is let go once nothing reads it any more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import torch

from openipu.errors import ArchiveError
from openipu.files.documents import parse_json
from openipu.files.origin import Origin
from openipu.files.values import Count

Run = Callable[[list[torch.Tensor]], Sequence[torch.Tensor]]


@dataclass(frozen=True)
class PartCall:
    """One call of a part: the numbers of what it reads and of what it makes."""

    part: Count
    arguments: list[Count]
    results: list[Count]
    freed: list[Count] = field(default_factory=list)  # what nothing reads afterwards


class _Document(msgspec.Struct, frozen=True):
    values: Count
    calls: list[PartCall]
    results: list[Count]


@dataclass(frozen=True)
class Schedule:
    """The calls of a graph. Its placeholders are the first of the numbered values."""

    values: int
    calls: list[PartCall]
    results: list[int]

    @classmethod
    def plan(cls, calls: Sequence[PartCall], placeholders: int, results: Sequence[int]) -> Schedule:
        """A schedule that frees each value after the last call that reads it."""
        kept = {*range(placeholders), *results}
        planned: list[PartCall] = []
        for call in reversed(calls):
            freed = sorted({*call.arguments, *call.results} - kept)
            kept |= {*freed}
            planned.append(PartCall(call.part, list(call.arguments), list(call.results), freed))
        values = placeholders + sum(len(call.results) for call in calls)
        return cls(values, planned[::-1], list(results))

    @property
    def parts(self) -> int:
        """How many there are."""
        return 1 + max(call.part for call in self.calls)

    def write(self) -> bytes:
        """The schedule as JSON."""
        calls = [[call.part, call.arguments, call.results, call.freed] for call in self.calls]
        names = ("part", "arguments", "results", "freed")
        rows = [dict(zip(names, call, strict=True)) for call in calls]
        document = {"values": self.values, "calls": rows, "results": self.results}
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, text: bytes) -> Schedule:
        """What `write` wrote."""
        origin = Origin("The schedule of a compiled program", ArchiveError, "The program is compiled again.")
        document = parse_json(text, _Document, origin)
        used = [number for call in document.calls for number in (*call.arguments, *call.results, *call.freed)]
        if not document.calls or max([*used, *document.results], default=0) >= document.values:
            raise origin.fail("names values that it does not have")
        return cls(document.values, document.calls, document.results)

    def bind(self, parts: Sequence[Run]) -> Run:
        """A function of all placeholders that returns all results."""
        calls = [(parts[call.part], call.arguments, call.results, call.freed) for call in self.calls]

        def run(given: list[torch.Tensor]) -> Sequence[torch.Tensor]:
            values: list[torch.Tensor | None] = [*given, *[None] * (self.values - len(given))]
            for part, arguments, results, freed in calls:
                made = part([values[number] for number in arguments])  # type: ignore[misc]
                for number, value in zip(results, made, strict=True):
                    values[number] = value.contiguous()  # as the parts that read it were compiled for
                del made
                for number in freed:
                    values[number] = None
            return [values[number] for number in self.results]  # type: ignore[misc]

        return run
