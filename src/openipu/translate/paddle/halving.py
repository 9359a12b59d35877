"""A program of float32 as one of half.

In: ops. Out: the same ops, whose constants and conversions are of half where they were of float32. Weights and inputs
are converted by who holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from openipu.translate.paddle.program import NUMBERS, PaddleOp

_FORMATS = ("dtype", "out_dtype", "in_dtype")
_HALF, _FLOAT = NUMBERS[torch.float16], NUMBERS[torch.float32]


def halve_ops(ops: Sequence[PaddleOp]) -> tuple[PaddleOp, ...]:
    """Ops that compute in half."""
    return tuple(replace(op, attributes={**op.attributes, **_halve(op.attributes)}) for op in ops)


def _halve(attributes: Any) -> dict[str, int]:
    return {name: _HALF for name in _FORMATS if attributes.get(name) == _FLOAT}
