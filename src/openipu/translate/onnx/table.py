"""The table of ONNX's ops."""

from __future__ import annotations

from openipu.translate.onnx.ops import (
    control,
    elementwise,
    indexing,
    losses,
    norms,
    products,
    random,
    recurrent,
    reductions,
    shapes,
    windows,
)
from openipu.translate.rules import Table, collect

TABLE = Table(
    collect(elementwise, shapes, reductions, products, windows, norms, indexing, losses, control, random, recurrent)
)
