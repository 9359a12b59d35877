"""Where ops of a foreign graph are from: its nodes stand in for the user's lines and modules.

In: an `Origin` around each foreign op. Out: notes that name it. Outside of a capture: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from openipu.capture.active import find_active
from openipu.capture.record.notes import Origin


@contextmanager
def at_origin(origin: Origin) -> Iterator[None]:
    """What is recorded inside comes from this op."""
    capture = find_active()
    if capture is None:
        yield
        return
    before = capture.notes.origin
    capture.notes.origin = origin
    try:
        yield
    finally:
        capture.notes.origin = before
