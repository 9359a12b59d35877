"""Random programs of in-place ops, views, strides and custom ops that write: the same as in eager PyTorch."""

from __future__ import annotations

import pytest
from random_programs import find_differences


@pytest.mark.parametrize("training", [False, True])
def test_random_programs_compute_what_eager_computes(training):
    wrong = [line for seed in range(30) for line in find_differences([seed], training=training)]
    assert wrong == []
