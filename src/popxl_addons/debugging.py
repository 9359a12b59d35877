"""Printing tensors while a program runs, by levels as of logging."""

from __future__ import annotations

import os
from typing import Any, Literal, get_args

import popxl
from popxl import ops

__all__ = ["print_tensor", "print_text"]

Level = Literal["TRACE", "DEBUG", "INFO", "WARN"]

LEVELS = {name: height for height, name in enumerate(get_args(Level))}
MODEL_LOG_LEVEL = os.environ.get("MODEL_LOG_LEVEL", "INFO")
MODEL_LOG_LEVEL_VAL = LEVELS[MODEL_LOG_LEVEL]


def print_tensor(t: popxl.Tensor, *args: Any, level: Level = "DEBUG", **kwargs: Any) -> popxl.Tensor:
    """``ops.print_tensor``, if ``MODEL_LOG_LEVEL`` is at this level or below; else the tensor as it is."""
    return ops.print_tensor(t, *args, **kwargs) if LEVELS[level] >= MODEL_LOG_LEVEL_VAL else t


def print_text(text: str, num: popxl.Tensor | None = None, level: Level = "DEBUG") -> None:
    """Print a text, with a tensor if one is given, at the level as above."""
    if LEVELS[level] >= MODEL_LOG_LEVEL_VAL:
        ops.print_tensor(num if num is not None else popxl.constant(()), text)
