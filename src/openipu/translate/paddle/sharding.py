"""Which IPU each op of a Paddle program runs on.

In: ops, with or without the tags of `ipu_shard_guard`. Out: the same ops, spread evenly; or an error for a tag that
names no IPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openipu.errors import OptionError
from openipu.translate.paddle.program import PaddleOp

INDEX, STAGE = "ipu_index", "ipu_stage"


def shard_evenly(ops: Sequence[PaddleOp], ipus: int) -> tuple[PaddleOp, ...]:
    """As many ops on each IPU, in order."""
    each = max(1, -(-len(ops) // ipus))
    return tuple(
        replace(op, attributes={**op.attributes, INDEX: number // each, STAGE: number // each})
        for number, op in enumerate(ops)
    )


def check_places(ops: Sequence[PaddleOp], ipus: int, file: str = "") -> None:
    """Refuse an op on an IPU that the program does not have."""
    for op in ops:
        index = op.attributes.get(INDEX, 0)
        if not isinstance(index, int) or index >= ipus:
            made = next(iter(op.list_outputs()), op.type)
            raise OptionError(
                f"{file + ': ' if file else ''}op {op.number} ({op.type}, which makes {made!r}) is to run on IPU "
                f"{index}, and a replica of the program has {ipus}: raise num_ipus of set_graph_config, or lower the "
                "index of ipu_shard_guard."
            )
