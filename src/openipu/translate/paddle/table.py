"""The table of Paddle's ops."""

from __future__ import annotations

from openipu.translate.paddle.ops import (
    creation,
    detection,
    elementwise,
    losses,
    norms,
    products,
    recurrent,
    reductions,
    shapes,
    windows,
)
from openipu.translate.rules import Table, collect

FAMILIES = (creation, detection, elementwise, losses, norms, products, recurrent, reductions, shapes, windows)

TABLE = Table(collect(*FAMILIES))
