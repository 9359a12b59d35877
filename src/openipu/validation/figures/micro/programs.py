"""Single ops as programs: captured and planned exactly as users' models are.

In: an op, shapes, a number format, a system. Out: a `MeasuredOp`: the cycles that the plan gives the op, without the
host's streams around it, and whether the program fits. Cached by all of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from openipu.graph import RunOptions
from openipu.jobs import PlanningJob, run_job
from openipu.machine import System, Target, resolve_system
from openipu.plan import Plan

FORMATS: Mapping[str, torch.dtype] = {
    "half": torch.float16,
    "fp16": torch.float16,
    "float16": torch.float16,
    "16-bit": torch.float16,
    "fp32": torch.float32,
    "float": torch.float32,
    "float32": torch.float32,
    "32-bit": torch.float32,
}


@dataclass(frozen=True, slots=True)
class MeasuredOp:
    """What one op costs in its plan."""

    cycles: float
    fits: bool
    peak_bytes: int  # of the fullest tile
    fit_probability: float
    steps: Mapping[str, float] = field(default_factory=dict)  # cycles by name
    summary: Mapping[str, Any] = field(default_factory=dict)  # what the matmul planner chose


class _Product(nn.Module):
    """A layer whose weights are the right-hand matrix."""

    def __init__(self, inner: int, columns: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inner, columns, dtype=dtype, device="meta"))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.mm(rows, self.weight)


class _Convolution(nn.Module):
    def __init__(self, shape: tuple[int, ...], stride: int, padding: int, groups: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape, dtype=dtype, device="meta"))
        self.stride, self.padding, self.groups = stride, padding, groups

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(images, self.weight, stride=self.stride, padding=self.padding, groups=self.groups)


@lru_cache(maxsize=4096)
def plan_matmul(
    rows: int, inner: int, columns: int, dtype: torch.dtype, system_name: str, half_partials: bool, proportion: float
) -> MeasuredOp:
    """`[rows, inner] @ [inner, columns]`, the right-hand matrix resident."""
    options = RunOptions(half_partials=half_partials, available_memory_proportion=proportion)
    inputs = torch.empty(rows, inner, dtype=dtype, device="meta")
    return _measure(_Product(inner, columns, dtype), inputs, resolve_system(system_name), options)


@lru_cache(maxsize=4096)
def plan_convolution(
    batch: int,
    in_channels: int,
    out_channels: int,
    field_size: int,
    kernel: int,
    stride: int,
    groups: int,
    dtype: torch.dtype,
    system_name: str,
    half_partials: bool,
) -> MeasuredOp:
    """A square image padded so that a stride of one keeps its size."""
    options = RunOptions(half_partials=half_partials)
    shape = (out_channels, in_channels // groups, kernel, kernel)
    module = _Convolution(shape, stride, kernel // 2, groups, dtype)
    images = torch.empty(batch, in_channels, field_size, field_size, dtype=dtype, device="meta")
    return _measure(module, images, resolve_system(system_name), options)


@lru_cache(maxsize=1024)
def plan_elements(
    function: Callable[..., torch.Tensor], operands: int, elements: int, dtype: torch.dtype, system_name: str
) -> MeasuredOp:
    """A function of equal vectors, spread over all tiles."""
    inputs = tuple(torch.empty(elements, dtype=dtype, device="meta") for _ in range(operands))
    return _measure(function, inputs, resolve_system(system_name), RunOptions())


def sums_in_half(sdk: str, target: Target) -> bool:
    """Frameworks of SDK 2 and later sum half products in half; the first SDKs, on Mk1, in float."""
    return target.architecture != "ipu1" and not sdk.startswith(("0.", "1."))


def _measure(
    model: Callable[..., Any], inputs: torch.Tensor | tuple[torch.Tensor, ...], system: System, options: RunOptions
) -> MeasuredOp:
    plan = run_job(PlanningJob(model=model, args=inputs, options=options), system)
    return MeasuredOp(
        cycles=sum(op.cycles for op in plan.ops),
        fits=plan.fit.fits,
        peak_bytes=plan.fit.peak_bytes,
        fit_probability=plan.fit.probability,
        steps=_list_steps(plan),
        summary=plan.ops[-1].plan if plan.ops else {},
    )


def _list_steps(plan: Plan) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for step in plan.steps:
        if step.op is not None and step.cycles:
            found[step.name] = found.get(step.name, 0.0) + step.cycles
    return found
