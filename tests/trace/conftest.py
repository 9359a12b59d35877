"""A recorder for one test, whatever the environment says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openipu.trace import TraceOptions, start_tracing, stop_tracing


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Call it to begin; it answers with the directory of the files."""

    def begin(**options) -> Path:
        stop_tracing()
        start_tracing(TraceOptions(enabled=True, directory=tmp_path / "traces", **options))
        return tmp_path / "traces"

    yield begin
    stop_tracing()
