"""Inputs of one call are cut into micro-batches on dimension 0."""

import pytest
import torch

from openipu.errors import InputError
from openipu.graph import GraphInput, InputKind, RunOptions
from openipu.run import split_micro_batch
from openipu.run.batching import split_call

OPTIONS = RunOptions(training=True, device_iterations=2, gradient_accumulation=3, replicas=2)  # 2 x 3 x 2 = 12
ENTRY = GraphInput("x", InputKind.INPUT, "x", (2, 5), torch.float32, 0)


def test_the_first_micro_batch_is_a_view_of_the_first_samples():
    whole = torch.arange(24.0).view(24, 1)
    first = split_micro_batch(whole, OPTIONS)
    assert first.shape == (2, 1)  # 24 / 12
    assert first.data_ptr() == whole.data_ptr()


def test_meta_tensors_are_cut_without_data():
    assert split_micro_batch(torch.empty(24, 3, device="meta"), OPTIONS).shape == (2, 3)


@pytest.mark.parametrize("leaf", [3, "text", None, torch.tensor(1.0)])
def test_scalars_and_host_values_pass_unchanged(leaf):
    assert split_micro_batch(leaf, OPTIONS) is leaf


def test_a_batch_that_does_not_divide_is_refused_with_shape_and_product():
    with pytest.raises(InputError, match=r"\(7, 3\).*first dimension \(7\).*= 12"):
        split_micro_batch(torch.zeros(7, 3), OPTIONS)


def test_an_empty_batch_is_refused():
    with pytest.raises(InputError, match="multiple"):
        split_micro_batch(torch.zeros(0, 3), OPTIONS)


def test_a_call_is_cut_in_order():
    parts = split_call(torch.arange(120.0).view(24, 5), ENTRY, OPTIONS)
    assert [part[0, 0].item() for part in parts] == [10.0 * index for index in range(12)]


def test_wide_numbers_are_narrowed_to_what_was_compiled():
    parts = split_call(torch.zeros(24, 5, dtype=torch.float64), ENTRY, OPTIONS)
    assert parts[0].dtype is torch.float32


def test_whole_numbers_keep_no_more_than_32_bits():
    entry = GraphInput("ids", InputKind.INPUT, "ids", (2,), torch.int64, 0)
    (part,) = split_call(torch.tensor([2**32 + 5, -7]), entry, RunOptions())
    assert part.dtype is torch.int64
    assert part.tolist() == [5, -7]


def test_other_number_formats_are_refused():
    with pytest.raises(InputError, match=r"x holds torch.int64.*compiled for torch.float32"):
        split_call(torch.zeros(24, 5, dtype=torch.int64), ENTRY, OPTIONS)


def test_another_shape_is_refused_with_both_shapes():
    with pytest.raises(InputError, match=r"\(24, 4\).*\(24, 5\) \(12 micro-batches of \(2, 5\)\)"):
        split_call(torch.zeros(24, 4), ENTRY, OPTIONS)


def test_a_value_that_is_no_tensor_is_refused():
    with pytest.raises(InputError, match="must be a tensor"):
        split_call(None, ENTRY, OPTIONS)


def test_a_scalar_input_serves_every_micro_batch():
    entry = GraphInput("s", InputKind.INPUT, "s", (), torch.float32, 0)
    parts = split_call(torch.tensor(2.0), entry, OPTIONS)
    assert [part.item() for part in parts] == [2.0] * 12
