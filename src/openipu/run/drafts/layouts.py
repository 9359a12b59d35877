"""Operands that PyTorch's CPU kernels read as dense memory, whatever their strides are.

Eager PyTorch never hands such an operand over: its autograd saves the values that the forward kernel made. A rewrite
may put a slice or a transpose in front of any operator, so generated code makes these operands dense first. Each entry
was found by running the kernel with strided operands in each position: `tests/run/test_operand_layouts.py` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

aten = torch.ops.aten

MakeDense = Callable[[torch.Tensor], torch.Tensor]


def make_dense(value: torch.Tensor) -> torch.Tensor:
    """The value in row-major order: itself, if it lies so."""
    return value.contiguous()


def make_rows_dense(value: torch.Tensor) -> torch.Tensor:
    """The value with neighbouring elements in its last dimension; the other strides may be any."""
    return value if value.stride(-1) == 1 else value.contiguous()


def _all(make: MakeDense, *positions: int) -> Mapping[int, MakeDense]:
    return dict.fromkeys(positions, make)


# Operator -> position of an argument -> what has to be done with it.
DENSE_OPERANDS: Mapping[Any, Mapping[int, MakeDense]] = {
    # mean and rstd
    aten.native_layer_norm_backward.default: _all(make_dense, 3, 4),
    # images, weight and bias; the gradient, images, mean, rstd and weight
    aten.native_group_norm.default: _all(make_dense, 0, 1, 2),
    aten.native_group_norm_backward.default: _all(make_dense, 0, 1, 2, 3, 4),
    # query, key and value; in backward also the result of forward
    aten._scaled_dot_product_flash_attention_for_cpu.default: _all(make_rows_dense, 0, 1, 2),
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _all(make_rows_dense, 1, 2, 3, 4),
    # the table, indices, offsets and weights of samples; in backward indices, offsets, bags and their sizes
    aten._embedding_bag.default: _all(make_dense, 0, 1, 2, 6),
    aten._embedding_bag_backward.default: _all(make_dense, 1, 2, 3, 4),
    # over equal numbers in one place of memory, it returns what is not among them
    aten.median.dim: _all(make_dense, 0),
    # indices of the maxima; the logarithms, in whose layout the kernel makes its result
    aten.adaptive_max_pool3d_backward.default: _all(make_dense, 2),
    aten.nll_loss2d_backward.default: _all(make_dense, 1),
}


def _find_demands(target: Any) -> Mapping[int, MakeDense]:
    if target in DENSE_OPERANDS or not isinstance(target, torch._ops.OpOverload):
        return DENSE_OPERANDS.get(target, {})
    if torch.Tag.nondeterministic_seeded not in target.tags:
        return {}
    # Random numbers are sampled in the order of memory, which a rewrite must not decide.
    schema: Any = target._schema
    return _all(make_dense, *(place for place, entry in enumerate(schema.arguments) if str(entry.type) == "Tensor"))


def guard_operands(target: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """A callable of an operator that makes operands dense where its kernel needs that."""
    demands = _find_demands(target)
    if not demands:
        return call
    names = [argument.name for argument in target._schema.arguments]
    by_name = {names[place]: make for place, make in demands.items()}
    places = list(demands.items())

    def guarded(*args: Any, **kwargs: Any) -> Any:
        operands = list(args)
        for place, make in places:
            if place < len(operands) and isinstance(operands[place], torch.Tensor):
                operands[place] = make(operands[place])
        for name in kwargs.keys() & by_name.keys():
            if isinstance(kwargs[name], torch.Tensor):
                kwargs[name] = by_name[name](kwargs[name])
        return call(*operands, **kwargs)

    return guarded
