"""What each op of a program in Paddle's new form is for: forward, backward, or an update.

In: ops by legacy names, in order. Out: the bits of OpRole that the legacy form has, and the loss. The new form says
none of this, but its backward pass begins with ones in the shape of the loss and has ops called `…_grad`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openipu.translate.paddle.program import PaddleOp
from openipu.translate.paddle.slicing import BACKWARD, LOSS, OPTIMIZE

GRADIENT = "_grad"
_NO_COMPUTATION = ("feed", "fetch")


@dataclass(frozen=True, slots=True)
class Roles:
    """A role for each op, by place, and which names are gradients that nothing has changed yet."""

    roles: tuple[int, ...]
    loss: str | None
    gradients: frozenset[str]


def find_roles(ops: Sequence[PaddleOp], optimizers: frozenset[str]) -> Roles:
    """The roles of all ops."""
    first = next((place for place, op in enumerate(ops) if op.type.endswith(GRADIENT)), None)
    if first is None:
        updating = [OPTIMIZE if op.type in optimizers else 0 for op in ops]
        return Roles(tuple(updating), None, frozenset())
    seed, loss = _find_loss(ops, first)
    last = max(place for place, op in enumerate(ops) if op.type.endswith(GRADIENT))
    derived: set[str] = set()  # of a gradient, in whatever way
    gradients: set[str] = set()
    roles = [0] * len(ops)
    for place, op in enumerate(ops):
        reads, makes = op.list_inputs(), op.list_outputs()
        if place == seed or op.type.endswith(GRADIENT):
            roles[place] = BACKWARD
        elif op.type in optimizers:
            roles[place] = OPTIMIZE
            continue
        elif any(name in derived for name in reads):
            known = [name in gradients for name in reads]
            # behind the last gradient op, sums of gradients alone still belong to the backward pass
            summed = op.type == "sum" and all(known) and len(reads) > 1
            roles[place] = BACKWARD if place < last or summed else OPTIMIZE
        if roles[place]:
            derived.update(makes)
        if roles[place] & BACKWARD:
            gradients.update(makes)
    _spread_back(ops, roles, set() if loss is None else _find_ancestors(ops, loss))
    if loss is not None:
        maker = next((place for place in range(first - 1, -1, -1) if loss in ops[place].list_outputs()), None)
        if maker is not None and not roles[maker]:
            roles[maker] |= LOSS
    return Roles(tuple(roles), loss, frozenset(gradients))


def _find_loss(ops: Sequence[PaddleOp], first: int) -> tuple[int | None, str | None]:
    """Where the ones that backward begins with are made, and of what they have the shape."""
    reads = set(ops[first].list_inputs())
    for place in range(first - 1, -1, -1):
        if ops[place].type == "fill_any_like" and reads & set(ops[place].list_outputs()):
            return place, ops[place].one_input("X")
    return None, None


def _find_ancestors(ops: Sequence[PaddleOp], wanted: str) -> set[int]:
    """The places of ops that a value depends on."""
    needed, found = {wanted}, set()
    for place in range(len(ops) - 1, -1, -1):
        if needed.intersection(ops[place].list_outputs()):
            found.add(place)
            needed.update(ops[place].list_inputs())
    return found


def _spread_back(ops: Sequence[PaddleOp], roles: list[int], forward: set[int]) -> None:
    """What only updates, or only backward, read belongs to them, such as constants and decayed weights."""
    readers: dict[str, set[int]] = {}
    for place in range(len(ops) - 1, -1, -1):
        op = ops[place]
        found = set().union(*(readers.get(name, set()) for name in op.list_outputs()))
        if not roles[place] and place not in forward and found and 0 not in found and op.type not in _NO_COMPUTATION:
            roles[place] = OPTIMIZE if OPTIMIZE in found else BACKWARD
        for name in op.list_inputs():
            readers.setdefault(name, set()).add(roles[place])
