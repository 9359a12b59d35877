"""Ops between replicas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.graph import Collective
from popxl._ir.operation import Rule
from popxl.context import gcg
from popxl.ops.collectives.collectives import CollectiveOps, exchange, reduce, to_collective_op
from popxl.ops.utils import make_in_place, make_one
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor import Tensor


def _find_group(group: ReplicaGrouping | None) -> ReplicaGrouping:
    return gcg().ir.replica_grouping() if group is None else group


def _reduce_all(x: Any, op: str, group: ReplicaGrouping) -> Any:
    if group.group_size == 1:
        return reduce(op, [x])
    return exchange(Collective.ALL_REDUCE, x, x.shape, lambda given: [reduce(op, given)] * len(given), group)


def replicated_all_reduce(t: Tensor, op: CollectiveOps = "add", group: ReplicaGrouping | None = None) -> Tensor:
    """The reduction of all replicas' tensors, for each of them."""
    name, chosen = to_collective_op(op), _find_group(group)
    rule = Rule(inputs=(), formula=lambda gradients, *_: [_reduce_all(gradients[0], name, chosen)])
    return make_one(
        "ReplicatedAllReduce",
        lambda x: _reduce_all(x, name, chosen),
        [t],
        rule=rule if name in ("add", "mean") else None,
        specs=[(t.shape, t.dtype)],
        name=f"{t.name}_all_reduce",
        meta_shape=t.meta_shape,
    )


def replicated_all_reduce_(t: Tensor, op: CollectiveOps = "add", group: ReplicaGrouping | None = None) -> Tensor:
    """As `replicated_all_reduce`, in place."""
    name, chosen = to_collective_op(op), _find_group(group)
    return make_in_place(
        "ReplicatedAllReduce",
        lambda x: _reduce_all(x, name, chosen),
        [t],
        specs=[(t.shape, t.dtype)],
        meta_shape=t.meta_shape,
    )


def _gather(x: Any, group: ReplicaGrouping) -> Any:
    """The tensors of a group behind one another, flat."""
    flat = x.reshape(-1)
    if group.group_size == 1:
        return flat.clone()
    size = (group.group_size * flat.numel(),)
    return exchange(Collective.ALL_GATHER, flat, size, lambda given: [torch.cat(list(given))] * len(given), group)


def _scatter(x: Any, op: str, group: ReplicaGrouping) -> Any:
    """Each replica's share of the reduced tensor, flat; of its own tensor where `op` is local."""
    flat, count = x.reshape(-1), group.group_size
    share = -(-flat.numel() // count)
    flat = F.pad(flat, (0, share * count - flat.numel())) if share * count != flat.numel() else flat
    if count == 1:
        return flat.clone() if op == "local" else reduce(op, [flat])

    def combine(given: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        whole = list(given) if op == "local" else [reduce(op, given)] * len(given)
        return [value[place * share : (place + 1) * share] for place, value in enumerate(whole)]

    kind = Collective.INDEX if op == "local" else Collective.REDUCE_SCATTER  # a local share crosses no link
    return exchange(kind, flat, (share,), combine, group)


def _move_front(x: Any, axis: int) -> Any:
    return torch.movedim(x, axis, 0)


def replicated_all_gather(
    t: Tensor,
    axis: int = 0,
    group: ReplicaGrouping | None = None,
    output_shape: Literal["new_axis", "concat", "meta_shape", "auto"] = "auto",
) -> Tensor:
    """All replicas' tensors, joined along an axis, on a new one, or as the whole of which they are shares.

    Its gradient is a replica's own share of the gradient: what comes back is taken to be the same on all of them.
    """
    chosen = _find_group(group)
    if not isinstance(axis, int):
        raise ValueError(f"The axis is a whole number, not {axis!r}.")
    form = ("meta_shape" if t.meta_shape else "concat") if output_shape == "auto" else output_shape
    count = chosen.group_size
    if form == "new_axis":
        shape: tuple[int, ...] = (count, *t.shape)
    elif form == "concat":
        shape = tuple(size * count if place == axis else size for place, size in enumerate(t.shape or (1,)))
    elif form == "meta_shape":
        shape = tuple(t.meta_shape)
    else:
        raise ValueError(f"output_shape is 'new_axis', 'concat', 'meta_shape' or 'auto', not {output_shape!r}.")

    def run(x: Any) -> Any:
        if form == "meta_shape":
            return _gather(x, chosen)[: math.prod(shape)].reshape(shape)
        if form == "new_axis" or not t.shape:
            return _gather(x, chosen).reshape(shape)
        front = _move_front(x, axis)
        joined = _gather(front, chosen).reshape([count * front.shape[0], *front.shape[1:]])
        return torch.movedim(joined, 0, axis)

    def differentiate(gradients: Sequence[Any], *_: Any) -> Sequence[Any]:
        gradient = gradients[0]
        if form == "concat" and t.shape:
            front = _move_front(gradient, axis)
            part = _scatter(front, "local", chosen).reshape([front.shape[0] // count, *front.shape[1:]])
            return [torch.movedim(part, 0, axis)]
        return [_scatter(gradient, "local", chosen).reshape(t.shape)]

    return make_one(
        "ReplicatedAllGather",
        run,
        [t],
        rule=Rule(inputs=(), formula=differentiate),
        specs=[(shape, t.dtype)],
        name=f"{t.name}_all_gathered",
    )


def _make_share(t: Tensor, op: str, group: ReplicaGrouping | None, sharded: bool, kind: str, suffix: str) -> Tensor:
    chosen = _find_group(group)
    share = -(-t.nelms // chosen.group_size)

    def differentiate(gradients: Sequence[Any], *_: Any) -> Sequence[Any]:
        return [_gather(gradients[0], chosen)[: t.nelms].reshape(t.shape)]

    return make_one(
        kind,
        lambda x: _scatter(x, op, chosen),
        [t],
        rule=Rule(inputs=(), formula=differentiate) if op in ("add", "local") else None,
        specs=[((share,), t.dtype)],
        name=f"{t.name}{suffix}",  # lists of tensors are sorted by name: a share stands where its whole did
        meta_shape=t.shape if sharded else (),
    )


def replicated_reduce_scatter(
    t: Tensor,
    op: CollectiveOps = "add",
    group: ReplicaGrouping | None = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
) -> Tensor:
    """Each replica's share of the reduction of all tensors."""
    sharded = configure_output_for_replicated_tensor_sharding
    return _make_share(t, to_collective_op(op), group, sharded, "ReplicatedReduceScatter", "_reduce_scattered")


def replica_sharded_slice(t: Tensor, group: ReplicaGrouping | None = None) -> Tensor:
    """Each replica's share of its own tensor."""
    return _make_share(t, "local", group, True, "ReplicaShardedSlice", "_sharded_slice")


def replicated_slice(t: Tensor, axis: int = 0, group: ReplicaGrouping | None = None) -> Tensor:
    """Each replica's part of an axis of its own tensor; an axis that is used up is left out."""
    chosen = _find_group(group)
    size, count = t.shape[axis], chosen.group_size
    if size % count:
        raise ValueError(f"The {count} replicas of a group must equally divide axis {axis} of {size}.")
    kept = [size // count] if size != count else []
    rest = [entry for place, entry in enumerate(t.shape) if place != axis % t.rank]
    shape = (*rest[: axis % t.rank], *kept, *rest[axis % t.rank :])

    def run(x: Any) -> Any:
        part = _scatter(_move_front(x, axis), "local", chosen).reshape([*kept, *rest])
        return torch.movedim(part, 0, axis) if kept else part

    def differentiate(gradients: Sequence[Any], *_: Any) -> Sequence[Any]:
        front = _move_front(gradients[0], axis) if kept else gradients[0]
        return [torch.movedim(_gather(front, chosen).reshape([size, *rest]), 0, axis)]

    return make_one("ReplicatedSlice", run, [t], rule=Rule(inputs=(), formula=differentiate), specs=[(shape, t.dtype)])
