"""`ipu_shard_guard` for programs of Paddle's new form, whose ops Paddle itself does not tag.

In: ops that a script builds under a guard. Out: tags on them, and the tags of a program by the names of its results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from openipu.translate.paddle import INDEX, STAGE

Tags = Mapping[str, int]


def install(paddle: Any) -> None:
    """Replace the guard; `set_ipu_shard` calls the one of its own module."""
    original = paddle.base.framework.ipu_shard_guard

    @contextmanager
    def ipu_shard_guard(index: int = -1, stage: int = -1) -> Iterator[None]:
        block = paddle.static.default_main_program().global_block()
        before = {op.id() for op in block.ops}
        with original(index, stage):
            yield
        for op in block.ops:
            # an inner guard has tagged its own; parameters, which go where they are read, cannot be written with tags
            if op.name().startswith("pd_op.") and op.id() not in before and not op.has_attr(INDEX):
                op.set_int_attr(INDEX, index)
                op.set_int_attr(STAGE, stage)

    for module in (paddle.base.framework, paddle.base, paddle.static):
        module.ipu_shard_guard = ipu_shard_guard


def read_tags(op: Any) -> Tags:
    """The tags of one op of Paddle's."""
    return {name: op.int_attr(name) for name in (INDEX, STAGE) if op.has_attr(name)}
