"""`ipu.functional_ops`: functions whose code is shared."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def outlined_function(
    func: Callable[..., Any] | None = None,
    unique_sharding: bool = False,
    keep_input_layouts: bool | None = None,
    name: str | None = None,
) -> Any:
    """Decorator: calls of the function share one piece of code. Equal ops always share theirs in openipu's plan."""
    if func is None:
        return functools.partial(
            outlined_function, unique_sharding=unique_sharding, keep_input_layouts=keep_input_layouts, name=name
        )

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        from tensorflow.python.framework import ops

        with ops.name_scope(name or getattr(func, "__name__", "function")):
            return func(*args, **kwargs)

    return call


function = outlined_function  # its older name


def _convert_to_list(xs: Any) -> list[Any]:
    """One value, or several, as a list."""
    return list(xs) if isinstance(xs, (list, tuple)) else [xs]
