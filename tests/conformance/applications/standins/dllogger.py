"""Stands in for NVIDIA's dllogger, which is on GitHub alone: what is logged is not kept."""

from __future__ import annotations

from typing import Any


class Verbosity:
    OFF, DEFAULT, VERBOSE = -1, 0, 1


class Backend:
    def __init__(self, *args: Any, **options: Any) -> None:
        pass


StdOutBackend = JSONStreamBackend = Backend


def init(*args: Any, **options: Any) -> None:
    pass


metadata = log = flush = init
