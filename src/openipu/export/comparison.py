"""How far results lie apart, and how far they may.

In: results of openipu, and of an exported file, by name. Out: a `Comparison`, or an `ExportError` that names the first
result that is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from openipu.errors import ExportError

_ALLOWED = 1e-3  # of the largest number among results of one kind: libraries sum in other orders
_ALLOWED_HALF = 2e-2


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was compared, and the largest difference found."""

    what: str  # "outputs"
    results: int  # tensors
    difference: float  # the largest of all elements
    largest: float  # number in the results themselves
    shapes_only: bool = False  # random numbers: values have nothing in common

    def __str__(self) -> str:
        if self.shapes_only:
            return f"{self.what}: {self.results} results of the right shapes; their values are random"
        return f"{self.what}: largest difference {self.difference:.3g} (largest value {self.largest:.3g})"


def compare(
    what: str, expected: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor], *, shapes_only: bool = False
) -> Comparison:
    """Hold the results of an exported file against openipu's."""
    largest = max((_measure(value) for value in expected.values() if value.dtype.is_floating_point), default=0.0)
    worst = 0.0
    for name, reference in expected.items():
        result = found.get(name)
        if result is None:
            raise ExportError(f"The exported file gives no {what} {name!r}. Nothing was written. {_REPORT}")
        if tuple(result.shape) != tuple(reference.shape) or result.dtype is not reference.dtype:
            raise ExportError(
                f"The exported file gives {what} {name!r} as {_show(result)}, and openipu as {_show(reference)}. "
                f"Nothing was written. {_REPORT}"
            )
        if shapes_only:
            continue
        difference = _find_difference(reference, result)
        allowed = _allow(reference.dtype) * largest
        if difference > allowed:
            raise ExportError(
                f"The exported file computes {what} {name!r} otherwise than openipu: the largest difference is "
                f"{difference:.3g}, with {allowed:.3g} allowed. Nothing was written. {_REPORT}"
            )
        worst = max(worst, difference)
    return Comparison(what, len(expected), worst, largest, shapes_only)


_REPORT = "This is a defect of openipu: please report it with the model."


def _allow(dtype: torch.dtype) -> float:
    if not dtype.is_floating_point:
        return 0.0
    return _ALLOWED if dtype.itemsize >= 4 else _ALLOWED_HALF


def _measure(value: torch.Tensor) -> float:
    finite = value.double().abs()
    finite = finite[finite.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


def _find_difference(reference: torch.Tensor, result: torch.Tensor) -> float:
    if not reference.numel():
        return 0.0
    left, right = reference.double(), result.double()
    same = (left == right) | (left.isnan() & right.isnan())  # infinities and NaNs in the same places
    if bool(same.all()):
        return 0.0
    difference = (left - right).abs().masked_fill(same, 0.0)
    return float(difference.nan_to_num(nan=float("inf"), posinf=float("inf")).max())


def _show(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
