"""The parts of a program: what computes, what trains it.

In: a `PaddleProgram`, the names that are fetched. Out: the ops of its forward pass, its loss, and its optimizer as one
description; Paddle's own backward ops are left out, because capture differentiates by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from openipu.errors import TranslationError
from openipu.translate.paddle.program import PaddleOp, PaddleProgram

BACKWARD, OPTIMIZE, LOSS = 1, 2, 256  # bits of OpRole
_OTHER = 4 | 8 | 16  # RPC, distribution, learning-rate schedules of ops
_NO_COMPUTATION = frozenset({"feed", "fetch", "data", "nop"})


@dataclass(frozen=True, eq=False)
class Slice:
    """Forward ops in order, the loss (where the program trains), and the ops that update."""

    forward: tuple[PaddleOp, ...]
    loss: str | None
    updates: tuple[PaddleOp, ...]
    schedules: tuple[PaddleOp, ...]  # compute the learning rate


def slice_program(program: PaddleProgram, wanted: Iterable[str] = (), *, training: bool = False) -> Slice:
    """Cut a program. With `wanted`, forward ops that reach none of these names, nor the loss, are left out."""
    ops = [op for op in program.main.ops if op.type not in _NO_COMPUTATION]
    forward = [op for op in ops if not op.role & (BACKWARD | OPTIMIZE | _OTHER)]
    updates = tuple(op for op in ops if op.role & OPTIMIZE)
    schedules = tuple(op for op in ops if op.role & 16)
    loss = _find_loss(ops) if training else None
    names = [*wanted, *([loss] if loss is not None else [])]
    persistable = {entry.name for entry in program.main.variables.values() if entry.persistable}
    return Slice(tuple(keep_needed(forward, names, persistable) if names else forward), loss, updates, schedules)


def keep_needed(ops: Sequence[PaddleOp], wanted: Iterable[str], kept: set[str] | frozenset[str]) -> list[PaddleOp]:
    """The ops that some names depend on, and those that write what is kept between runs."""
    needed = set(wanted)
    found = []
    for op in reversed(ops):
        outputs = op.list_outputs()
        if any(name in needed for name in outputs) or any(name in kept for name in outputs):
            found.append(op)
            needed.update(op.list_inputs())
    return found[::-1]


def _find_loss(ops: Sequence[PaddleOp]) -> str:
    marked = [op for op in ops if op.role & LOSS and not op.role & (BACKWARD | OPTIMIZE)]
    if marked:
        outputs = marked[-1].outputs.get("Out") or tuple(marked[-1].list_outputs())
        return outputs[0]
    for op in ops:  # programs of other writers: the first gradient is that of the loss
        if op.role & BACKWARD and op.type == "fill_constant":
            name = op.list_outputs()[0]
            if name.endswith("@GRAD"):
                return name.removesuffix("@GRAD")
    raise TranslationError(
        "The program has no loss to train on. Call optimizer.minimize(loss) before it is compiled, or compile it for "
        "inference: set_graph_config(is_training=False)."
    )
