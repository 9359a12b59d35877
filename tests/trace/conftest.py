"""A recorder for one test, whatever the environment says, and clocks that only the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from openipu.trace import TraceOptions, marks, recorder, start_tracing, stop_tracing


@dataclass
class Clock:
    """What the recorder reads instead of the machine's clocks."""

    ticks_ns: int = 5_000_000_000  # of `perf_counter_ns`
    epoch_ns: int = 1_700_000_000_000_000_000  # of `time_ns`, when that began

    @property
    def seconds(self) -> float:
        return self.ticks_ns / 1e9

    def advance(self, nanoseconds: int) -> None:
        self.ticks_ns += nanoseconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (marks, recorder):
        monkeypatch.setattr(module, "perf_counter_ns", lambda: made.ticks_ns)
    monkeypatch.setattr(recorder, "time", SimpleNamespace(time_ns=lambda: made.epoch_ns + made.ticks_ns))
    return made


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Call it to begin; it answers with the directory of the files."""

    def begin(**options) -> Path:
        stop_tracing()
        start_tracing(TraceOptions(enabled=True, directory=tmp_path / "traces", **options))
        return tmp_path / "traces"

    yield begin
    stop_tracing()
