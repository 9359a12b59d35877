"""The table of ONNX's ops."""

from __future__ import annotations

from openipu.translate.onnx.ops import (
    attention,
    control,
    elementwise,
    indexing,
    losses,
    norms,
    products,
    random,
    recurrent,
    reductions,
    resizing,
    shapes,
    signals,
    windows,
)
from openipu.translate.rules import Table, collect

FAMILIES = (
    *(attention, control, elementwise, indexing, losses, norms, products, random, recurrent, reductions, resizing),
    *(shapes, signals, windows),
)

TABLE = Table(collect(*FAMILIES))
