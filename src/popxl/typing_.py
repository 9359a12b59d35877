"""Names that stand in annotations only."""

from __future__ import annotations

from typing import Any


def NewAliasAnnotation(name: str, tp: Any) -> Any:  # noqa: N802 (popxl's own name)
    """A mark for annotations that type checkers read as `tp`."""

    def symbol() -> None:
        raise NotImplementedError(f"{name} stands in annotations only. Use {tp} for values.")

    symbol.__name__ = name
    return symbol
