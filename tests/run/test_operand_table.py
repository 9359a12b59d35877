"""The table of operands that kernels read as dense is complete: every ATen operator that PyTorch has samples of.

That it is not too long is a matter of `test_operand_layouts.py`.
"""

from __future__ import annotations

import pytest
import torch
from operand_table import find_unsafe, record_samples

from openipu.run.drafts.fast_calls import find_call
from openipu.run.drafts.layouts import DENSE_OPERANDS

_FEWEST_OPERATORS = 300


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_the_table_is_complete(dtype):
    calls = record_samples(dtype)
    unsafe, tried = find_unsafe(calls)
    assert tried > _FEWEST_OPERATORS
    missing = {target: places - set(DENSE_OPERANDS.get(target, ())) for target, places in unsafe.items()}
    assert not any(missing.values()), missing
    assert find_unsafe({target: calls[target] for target in unsafe}, find_call) == ({}, len(unsafe))
