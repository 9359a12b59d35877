"""Raw ops that call functions."""

from __future__ import annotations

from typing import Any, NoReturn


def resource_update(*args: Any, **kwargs: Any) -> NoReturn:
    """The update of variables as a function of its own."""
    raise NotImplementedError(
        "resource_update: the update of a program is found by its optimizer here. Use the optimizers of "
        "ipu.optimizers, or ipu.pipelining_ops.pipeline."
    )
