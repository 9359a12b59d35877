"""Stands in for YouTokenToMe, which does not build for this Python: it can be imported, and nothing else."""

from __future__ import annotations

from typing import Any


class OutputType:
    ID, SUBWORD = 1, 2


class BPE:
    def __init__(self, *args: Any, **options: Any) -> None:
        raise ImportError("youtokentome is not here: choose a tokenizer of another kind.")
