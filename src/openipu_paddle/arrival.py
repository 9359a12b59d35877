"""What the start-up hook calls once a program has imported Paddle."""

from __future__ import annotations

from openipu_paddle.activation import activate


def register(name: str) -> None:
    """Put IPUs into Paddle, which is imported."""
    activate()
