"""The table of ONNX's ops."""

from __future__ import annotations

from openipu.translate.onnx.ops import (
    attention,
    control,
    detection,
    elementwise,
    features,
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
    training,
    windows,
)
from openipu.translate.rules import Table, collect

FAMILIES = (
    *(attention, control, elementwise, indexing, losses, norms, products, random, recurrent, reductions, resizing),
    *(shapes, signals, windows, detection, features, training),
)

TABLE = Table(collect(*FAMILIES))
