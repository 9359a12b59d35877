"""The table of ONNX's ops, and of those that PopART adds."""

from __future__ import annotations

from openipu.translate.onnx.graphcore import control as gc_control
from openipu.translate.onnx.graphcore import elementwise as gc_elementwise
from openipu.translate.onnx.graphcore import indexing as gc_indexing
from openipu.translate.onnx.graphcore import layers as gc_layers
from openipu.translate.onnx.graphcore import losses as gc_losses
from openipu.translate.onnx.graphcore import slices as gc_slices
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
GRAPHCORE = (gc_control, gc_elementwise, gc_indexing, gc_layers, gc_losses, gc_slices)

TABLE = Table(collect(*FAMILIES, *GRAPHCORE))
