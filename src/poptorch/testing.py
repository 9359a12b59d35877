"""Comparison of results: of a run here with a reference of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def allclose(
    reference_output: Any,
    poptorch_output: Any,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> bool:
    """Have two structures the same containers, and tensors that are close?"""
    if isinstance(reference_output, torch.Tensor):
        assert isinstance(poptorch_output, torch.Tensor), (
            f"The reference is a tensor and the other output is of {type(poptorch_output)}"
        )
        other = poptorch_output.to(reference_output.dtype)
        return torch.allclose(reference_output, other, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if isinstance(reference_output, Mapping):
        if not isinstance(poptorch_output, Mapping) or set(reference_output) != set(poptorch_output):
            return False
        return all(
            allclose(value, poptorch_output[key], rtol, atol, equal_nan) for key, value in reference_output.items()
        )
    if isinstance(reference_output, list | tuple):
        if type(reference_output) is not type(poptorch_output) or len(reference_output) != len(poptorch_output):
            return False
        pairs = zip(reference_output, poptorch_output, strict=True)
        return all(allclose(value, other, rtol, atol, equal_nan) for value, other in pairs)
    return bool(reference_output == poptorch_output)
