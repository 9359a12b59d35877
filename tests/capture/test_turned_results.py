"""Results of ops on tensors in any order lie as they do on a CPU."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from openipu.capture.record.turned_results import _RULES, find_strides, make_turned_result

aten = torch.ops.aten
I32, I64, BOOL = torch.int32, torch.int64, torch.bool
LAST = torch.channels_last


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def turned(*shape: int) -> torch.Tensor:
    return zeros(*shape).contiguous(memory_format=LAST)


IMAGES, GRADIENT = turned(2, 4, 9, 11), turned(2, 6, 5, 9)
FILTER = zeros(3, 2, 4, 6).permute(3, 2, 0, 1)  # as TensorFlow has it
WINDOW = ([2, 1], [1, 0], [1, 2], False, [0, 0], 1)
ROWS = zeros(7, dtype=I64)
NORM = (zeros(4), zeros(4))
CALLS: list[tuple[Any, tuple[Any, ...]]] = [
    *((func, (IMAGES, IMAGES)) for func in (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor)),
    (aten.add.Tensor, (IMAGES.permute(0, 2, 3, 1), zeros(4))),
    (aten.mul.Tensor, (zeros(1, 4, 1, 1), IMAGES)),
    (aten.add.Tensor, (zeros(5, dtype=I64), zeros(5, dtype=I64))),
    (aten.add.Tensor, (zeros(5, 3, dtype=I32).t(), zeros(dtype=I32))),
    (aten.sub.Tensor, (zeros(5, 1), zeros(1, 3))),
    (aten.mul.Tensor, (zeros(3, 1, 2).expand(3, 4, 2), zeros())),
    *((func, (zeros(), zeros())) for func in (aten.pow.Tensor_Tensor, aten.maximum.default, aten.minimum.default)),
    *((func, (IMAGES,)) for func in (aten.relu.default, aten.exp.default, aten.log.default, aten.sqrt.default)),
    *((func, (zeros(4, 3).t(),)) for func in (aten.rsqrt.default, aten.neg.default, aten.tanh.default)),
    *((func, (IMAGES,)) for func in (aten.sigmoid.default, aten.reciprocal.default, aten.abs.default)),
    (aten.pow.Tensor_Scalar, (IMAGES, 2)),
    (aten.eq.Tensor, (zeros(5, 1, dtype=I64), zeros(3, dtype=I64))),
    *((func, (IMAGES, zeros())) for func in (aten.ne.Tensor, aten.ge.Tensor, aten.gt.Tensor)),
    *((func, (zeros(4, 3).t(), zeros(3, 4))) for func in (aten.le.Tensor, aten.lt.Tensor)),
    *((func, (IMAGES, 1)) for func in (aten.eq.Scalar, aten.ne.Scalar, aten.ge.Scalar)),
    *((func, (IMAGES, 0.5)) for func in (aten.gt.Scalar, aten.le.Scalar, aten.lt.Scalar)),
    (aten.where.self, (IMAGES > 0, IMAGES, zeros())),
    (aten.threshold_backward.default, (IMAGES, IMAGES, 0)),
    (aten.threshold_backward.default, (zeros(2, 4, 9, 11), IMAGES, 0)),
    (aten.sum.dim_IntList, (IMAGES, [0, 2, 3])),
    (aten.sum.dim_IntList, (zeros(3, 4, 5), [0], True)),
    (aten.mean.dim, (IMAGES.permute(0, 2, 3, 1), [0, 1, 2], True)),
    (aten.convolution.default, (IMAGES, FILTER, zeros(6), *WINDOW)),
    (aten.convolution.default, (IMAGES, FILTER, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)),
    (aten.convolution.default, (IMAGES, zeros(8, 2, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 2)),
    (aten.convolution.default, (GRADIENT, FILTER, None, [2, 1], [1, 0], [1, 2], True, [0, 0], 1)),
    (aten.convolution.default, (GRADIENT, FILTER, None, [2, 1], [0, 0], [1, 1], True, [1, 0], 1)),
    (aten.convolution_backward.default, (GRADIENT, IMAGES, FILTER, None, *WINDOW, [False, True, False])),
    (aten.max_pool2d_with_indices.default, (IMAGES, [3, 2], [2, 1], [1, 0], [1, 1])),
    (
        aten.max_pool2d_with_indices_backward.default,
        (turned(2, 4, 4, 5), IMAGES, [2, 2], [2, 2], [0, 0], [1, 1], False, zeros(2, 4, 4, 5, dtype=I64)),
    ),
    (aten._native_batch_norm_legit.no_stats, (IMAGES, *NORM, True, 0.1, 1e-5)),
    (aten._native_batch_norm_legit_no_training.default, (IMAGES, *NORM, zeros(4), zeros(4), 0.1, 1e-5)),
    (
        aten.native_batch_norm_backward.default,
        (IMAGES, IMAGES, zeros(4), None, None, *NORM, True, 1e-5, [True, True, True]),
    ),
    (aten.native_layer_norm.default, (zeros(3, 5, 4), [4], *NORM, 1e-5)),
    (
        aten.native_layer_norm_backward.default,
        (zeros(3, 5, 4), zeros(3, 5, 4), [4], zeros(3, 5, 1), zeros(3, 5, 1), *NORM, [True, True, True]),
    ),
    (aten.bmm.default, (zeros(3, 5, 4).transpose(1, 2), zeros(3, 5, 2))),
    (aten.embedding.default, (zeros(9, 4), zeros(2, 3, dtype=I64))),
    *((func, (zeros(9, 4), 0, ROWS, zeros(7, 4))) for func in (aten.index_add.default, aten.index_copy.default)),
    (aten.cat.default, ([zeros(3), zeros(4)],)),
]
SIZES_ALONE = (aten.convolution_backward.default,)  # the order of a weight's gradient is the library's choice
IMAGES_ALONE = (aten._native_batch_norm_legit_no_training.default,)  # statistics that nobody reads are not made
LEFT: list[tuple[Any, tuple[Any, ...]]] = [
    (aten.add.Tensor, (zeros(5), zeros(4))),
    (aten.add.Tensor, (zeros(5), zeros(5, dtype=torch.float16))),
    (aten.add.Tensor, (zeros(5, dtype=I64), 0.5)),
    (aten.mul.Tensor, (zeros(5), True)),
    (aten.relu.default, (zeros(0, 4),)),
    (aten.relu.default, (zeros(4, dtype=I64),)),
    (aten.where.self, (zeros(7, dtype=BOOL), zeros(7), zeros(1, dtype=torch.float16))),
    (aten.sum.dim_IntList, (IMAGES, [0])),
    (aten.sum.dim_IntList, (IMAGES, [0, 0, 2, 3])),
    (aten.mean.dim, (IMAGES, [4])),
    (aten.convolution.default, (IMAGES, zeros(6, 3, 3, 3), None, *WINDOW)),
    (aten.convolution.default, (IMAGES, zeros(6, 4, 12, 2), None, *WINDOW)),
    (aten.convolution.default, (IMAGES, FILTER, zeros(5), *WINDOW)),
    (aten.max_pool2d_with_indices.default, (IMAGES, [10, 2], [1, 1], [0, 0], [1, 1])),
    (aten.bmm.default, (zeros(3, 5, 4), zeros(3, 5, 2))),
    (aten.cat.default, ([zeros(3, 1), zeros(4, 1)],)),
]


def to_meta(value: Any) -> Any:
    def move(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")

    return pytree.tree_map_only(torch.Tensor, move, value)


def describe(values: Any, order: bool) -> list[Any]:
    found = []
    for value in pytree.tree_leaves(values):
        if value is not None:
            strides = [stride for size, stride in zip(value.shape, value.stride(), strict=True) if size > 1]
            found.append((tuple(value.shape), strides if order else None, value.dtype))
    return found


@pytest.mark.parametrize(("func", "args"), CALLS, ids=lambda value: str(value) if hasattr(value, "_schema") else "")
def test_results_are_those_of_a_cpu(func: Any, args: tuple[Any, ...]) -> None:
    found = make_turned_result(func, to_meta(args), {})
    assert found is not None
    order = func not in SIZES_ALONE
    results = 1 if func in IMAGES_ALONE else None
    assert describe(found, order)[:results] == describe(func(*args), order)[:results]
    assert all(value is None or value.is_meta for value in pytree.tree_leaves(found))


def test_every_rule_is_compared() -> None:
    assert set(_RULES) == {func for func, _ in CALLS}


@pytest.mark.parametrize(("func", "args"), LEFT, ids=lambda value: str(value) if hasattr(value, "_schema") else "")
def test_what_is_not_obvious_is_left_to_pytorch(func: Any, args: tuple[Any, ...]) -> None:
    assert make_turned_result(func, to_meta(args), {}) is None


def test_counting_up() -> None:
    meta = {"device": torch.device("meta"), "pin_memory": False}
    assert describe(make_turned_result(aten.arange.default, (7,), {**meta, "dtype": I32}), True) == [((7,), [1], I32)]
    assert make_turned_result(aten.arange.default, (7.5,), meta) is None


def test_orders_of_two_operands_are_joined_as_on_a_cpu() -> None:
    """All pairs of orders of three dimensions, with and without a dimension to spread."""
    sizes = (2, 3, 4)
    for first, second in itertools.product(itertools.permutations(range(3)), repeat=2):
        for spread in (None, 0, 1, 2):
            operands = []
            for order, wide in ((first, None), (second, spread)):
                own = [1 if number == wide else size for number, size in enumerate(sizes)]
                tensor = torch.zeros([own[number] for number in order])
                operands.append(tensor.permute([order.index(number) for number in range(3)]))
            for pair in (operands, operands[::-1]):
                assert find_strides(sizes, pair) == torch.add(*pair).stride(), (first, second, spread)
