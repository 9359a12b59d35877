"""Shapes of plain arithmetic are those of PyTorch's meta kernels."""

import pytest
import torch

from openipu.capture.record.pointwise import make_pointwise_result

aten = torch.ops.aten


def make_meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("shape", [(), (5,), (2, 1, 3), (0, 4)])
def test_obvious_results_are_what_pytorch_says(shape, dtype):
    tensor, scalar = make_meta(*shape, dtype=dtype), make_meta(dtype=dtype)
    calls = [
        (aten.add.Tensor, (tensor, tensor)),
        (aten.mul.Tensor, (scalar, tensor)),
        (aten.mul.Tensor, (tensor, 0.5)),
        (aten.div.Tensor, (tensor, scalar)),
        (aten.div.Tensor, (tensor, 2)),
        (aten.sub.Tensor, (scalar, scalar)),
        (aten.sqrt.default, (tensor,)),
        (aten.neg.default, (tensor,)),
    ]
    for func, args in calls:
        expected, found = func(*args), make_pointwise_result(func, args, {})
        assert found is not None, func
        assert (found.shape, found.stride(), found.dtype) == (expected.shape, expected.stride(), expected.dtype)
        assert found.is_meta
        assert found.untyped_storage()._cdata != tensor.untyped_storage()._cdata


@pytest.mark.parametrize(
    ("func", "args"),
    [
        (aten.add.Tensor, (make_meta(2, 3), make_meta(3))),
        (aten.add.Tensor, (make_meta(2, 3), make_meta(2, 3, dtype=torch.float16))),
        (aten.add.Tensor, (make_meta(2, 3), make_meta(dtype=torch.float64))),
        (aten.add.Tensor, (make_meta(2, 3).t(), make_meta(3, 2).t().t().clone())),
        (aten.mul.Tensor, (make_meta(4, dtype=torch.int32), 2)),
        (aten.mul.Tensor, (make_meta(4), 2j)),
        (aten.mul.Tensor, (make_meta(4), True)),
        (aten.sqrt.default, (make_meta(2, 3).t(),)),
        (aten.exp.default, (make_meta(2),)),
    ],
    ids=["broadcast", "two formats", "wide scalar", "two layouts", "integers", "complex", "bool", "transposed", "exp"],
)
def test_anything_else_is_left_to_pytorch(func, args):
    assert make_pointwise_result(func, args, {}) is None


def test_keywords_are_left_to_pytorch():
    assert make_pointwise_result(aten.add.Tensor, (make_meta(2), make_meta(2)), {"alpha": 2}) is None
