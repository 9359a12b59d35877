"""Number formats, seeds and values of the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import popxl
from popxl.fp8_utils import host_pow2scale_cast_from_fp8, host_pow2scale_cast_to_fp8
from popxl.utils import to_numpy


def test_formats_are_found_by_every_name() -> None:
    assert popxl.dtype.as_dtype("float16") is popxl.half is popxl.float16
    assert popxl.dtype.as_dtype(np.float32) is popxl.dtype.as_dtype(float) is popxl.float
    assert popxl.dtype.as_dtype(torch.int32) is popxl.dtype.as_dtype(np.ones(2, np.int32)) is popxl.int32
    assert popxl.dtype.from_name("uint32").as_numpy() == np.uint32
    assert popxl.float32.as_torch() is torch.float32
    assert repr(popxl.int8) == "popxl.int8"
    assert (popxl.uint8.is_int, popxl.uint8.is_signed, popxl.float16.is_floating_point) == (True, False, True)
    with pytest.raises(ValueError, match="that has a name"):
        popxl.dtype.from_name("float12")
    with pytest.raises(ValueError, match="compatible with value"):
        popxl.dtype.as_dtype("float12")
    with pytest.raises(TypeError, match="Cannot create"):
        popxl.dtype()
    with pytest.raises(TypeError, match="corresponding PyTorch"):
        popxl.uint32.as_torch()


@pytest.mark.parametrize("value", [3, 2.5, True, [1, 2], np.ones(2), torch.ones(2, dtype=torch.int64)])
def test_wide_numbers_are_narrowed_unless_told(value: Any) -> None:
    assert to_numpy(value).dtype.itemsize <= 4
    if np.asarray(value).dtype != np.bool_:
        assert to_numpy(value, downcast=False).dtype.itemsize == 8
    assert to_numpy(value, popxl.float16).dtype == np.float16


def test_seeds_have_a_pair_for_each_part() -> None:
    seeds = popxl.create_seeds(10, 1, batches_per_step=3, replicas=2)
    assert (seeds.shape, seeds.dtype) == ((3, 2, 2), np.uint32)
    np.testing.assert_array_equal(seeds, popxl.create_seeds(11, 0, 3, replicas=2))
    assert popxl.create_seeds(10).shape == (2,)


@pytest.mark.parametrize("form", [popxl.float8_143, popxl.float8_152])
def test_numbers_of_eight_bits_come_back(form: Any) -> None:
    values = np.array([0.0, 1.0, -2.0, 0.5, 12.0], np.float32)
    narrow = host_pow2scale_cast_to_fp8(values, form, 1)
    assert narrow.dtype == form.as_numpy()
    np.testing.assert_array_equal(host_pow2scale_cast_from_fp8(narrow, popxl.float32, -1), values)
    assert np.isnan(host_pow2scale_cast_from_fp8(host_pow2scale_cast_to_fp8(np.float32([1e9]), form)))[0]
