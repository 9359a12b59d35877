"""Arguments of Keras' layers that the original's do not have."""

from __future__ import annotations

from typing import Any


def refuse(layer: str, given: dict[str, Any], defaults: dict[str, Any] | None = None) -> None:
    """Raise for what is set to something else than its default, which is None unless it is named."""
    for name, value in given.items():
        default = (defaults or {}).get(name)
        if value != default and not (value is False and default is None):
            raise ValueError(f"IPU custom {layer} layer does not support {name} = {value}.")
