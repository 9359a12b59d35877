"""Ops between tensors of several IPUs of one replica."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from popxl._ir.operation import Rule, make_op
from popxl.context import ipu
from popxl.errors import UndefinedValue
from popxl.ops.collectives.collectives import CollectiveOps, reduce, to_collective_op
from popxl.ops.shapes import identity
from popxl.tensor import Tensor


def all_reduce(ts: list[Tensor], ipus: list[int] | None = None, op: CollectiveOps = "add") -> list[Tensor]:
    """The reduction of tensors on different IPUs, on each of them."""
    return _reduce(ts, ipus, op, sums_gradients=True, spreads=True)


def all_reduce_identical_inputs(
    ts: list[Tensor], ipus: list[int] | None = None, op: CollectiveOps = "add"
) -> list[Tensor]:
    """Tensors that are the same on all IPUs pass unchanged; their gradients are reduced."""
    return _reduce(ts, ipus, op, sums_gradients=True, spreads=False)


def all_reduce_identical_grad_inputs(
    ts: list[Tensor], ipus: list[int] | None = None, op: CollectiveOps = "add"
) -> list[Tensor]:
    """The reduction; gradients, which are the same on all IPUs, pass unchanged."""
    return _reduce(ts, ipus, op, sums_gradients=False, spreads=True)


def _reduce(
    ts: list[Tensor], ipus: list[int] | None, op: CollectiveOps, *, sums_gradients: bool, spreads: bool
) -> list[Tensor]:
    name = to_collective_op(op)
    if ipus is None:
        try:
            ipus = [t.ipu for t in ts]
        except UndefinedValue as error:
            raise ValueError(
                "Which IPU a tensor of `ts` is on is not known for all of them: name the IPUs by `ipus`."
            ) from error
    if len(ts) != len(ipus):
        raise ValueError(f"There are {len(ts)} tensors in `ts` and {len(ipus)} numbers in `ipus`: give one for each.")

    def run(*values: Any) -> Sequence[Any]:
        if not spreads:
            return [value.clone() for value in values]
        total = reduce(name, values)
        return [total.clone() for _ in values]

    def differentiate(gradients: Sequence[Any], *_: Any) -> Sequence[Any]:
        if not sums_gradients:
            return [gradient.clone() for gradient in gradients]
        total = reduce(name, gradients)
        return [total.clone() for _ in gradients]

    made = make_op("AllReduce", run, ts, rule=Rule(inputs=(), formula=differentiate))
    found = []
    for tensor, place in zip(made, ipus, strict=True):
        with ipu(place):
            found.append(identity(tensor))
    return found
