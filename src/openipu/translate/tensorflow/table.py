"""The table of TensorFlow's ops."""

from __future__ import annotations

from openipu.translate.rules import Table, collect
from openipu.translate.tensorflow.ops import (
    collectives,
    control,
    convolutions,
    elementwise,
    indexing,
    lists,
    losses,
    norms,
    pools,
    products,
    quarter,
    random,
    recurrent,
    reductions,
    sampling,
    shapes,
    training,
)

FAMILIES = (
    *(collectives, control, convolutions, elementwise, indexing, lists, losses, norms, pools, products, quarter),
    *(random, recurrent, reductions, sampling, shapes, training),
)
RULES = tuple(collect(*FAMILIES))
TABLE = Table(RULES)
