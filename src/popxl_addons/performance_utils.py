"""Counting floating-point operations of products, sums and normalisations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import popxl
from popxl._ir.operation import Op
from popxl._ir.sites import RepeatOp
from popxl_addons.graph_surgery import list_ops

__all__ = ["evaluate_FLOPs", "evaluate_ir_FLOPs", "format_flops_scientific", "print_FLOPs", "total_FLOPs"]

TOTAL = "TOT"
NumberFormat = Literal["K", "M", "G", "T", "nearest3"]
EXPONENTS = {"K": 3, "M": 6, "G": 9, "T": 12}


def _count_product(op: Op) -> int:
    """Twice the elements of the result for each element that is summed over."""
    return 2 * op.inputs[0].shape[-1] * op.outputs[0].nelms


def _count_elements(op: Op) -> int:
    return op.outputs[0].nelms


def _count_norm(op: Op) -> int:
    """Sum, sum of squares and the square of the mean; then centre, divide, scale and shift each element."""
    x, mean = op.inputs[0], op.outputs[1]
    groups = mean.shape[0] // x.shape[0]
    averaged = x.shape[-1] * x.shape[-2] // groups
    return averaged + 2 * averaged + 2 * mean.shape[0] + 4 * op.outputs[0].nelms


COUNTS: Mapping[str, Callable[[Op], int]] = {
    "Add": _count_elements,
    "Sub": _count_elements,
    "Div": _count_elements,
    "Mul": _count_elements,
    "MatMul": _count_product,
    "GroupNormalization": _count_norm,
}


def total_FLOPs(ir: popxl.Ir) -> int:  # noqa: N802
    """Operations of one run on all replicas. Counted: products, additions, subtractions, divisions, normalisations."""
    return int(evaluate_ir_FLOPs(ir)[TOTAL])


def evaluate_ir_FLOPs(ir: popxl.Ir) -> dict[str, Any]:  # noqa: N802
    """The same by kind of op and place; ``TOT`` is the sum."""
    return {kind: _times(counts, ir.replication_factor) for kind, counts in evaluate_FLOPs(ir.main_graph).items()}


def evaluate_FLOPs(graph: popxl.Graph) -> dict[str, Any]:  # noqa: N802
    """Those of one run of a graph: for each kind of op its counts, by op or by the call that makes them."""
    found: dict[str, Any] = {}
    total = 0
    for op in list_ops(graph):
        if op.kind in COUNTS:
            count = COUNTS[op.kind](op)
            found.setdefault(op.kind, {})[op.id] = count
            total += count
        for called in op.called:
            inner = evaluate_FLOPs(called)
            times = op.count if isinstance(op, RepeatOp) else 1
            total += inner.pop(TOTAL) * times
            for kind, counts in inner.items():
                found.setdefault(kind, {})[f"{op.kind}_{op.id}({called.name})"] = _times(counts, times)
    return {**found, TOTAL: total}


def print_FLOPs(  # noqa: N802
    flops_breakdown: Mapping[str, Any],
    mode: Literal["type", "flat"] = "type",
    numerical_format: NumberFormat = "nearest3",
) -> None:
    """A table by kind of op, or with a line for each op; the largest first."""
    total = flops_breakdown[TOTAL] or 1
    if mode == "type":
        counts = {kind: _sum(value) for kind, value in flops_breakdown.items()}
    elif mode == "flat":
        counts = dict(_flatten(flops_breakdown))
    else:
        raise ValueError(f"mode is type or flat, not {mode!r}")
    width = max(map(len, counts))
    for name, count in sorted(counts.items(), key=lambda item: item[1], reverse=True):
        print(f"{name:<{width}} | {format_flops_scientific(count, numerical_format)} | {100 * count / total:.1f} %")


def format_flops_scientific(val: float, format: NumberFormat = "nearest3") -> str:
    """A number with three decimals and an exponent that three divides: the nearest, or the one of the letter."""
    if format != "nearest3" and format not in EXPONENTS:
        raise ValueError(f"format is nearest3, {', '.join(EXPONENTS)}, not {format!r}")
    if format == "nearest3":
        power = math.floor(math.log10(val)) if val > 0 else 0
        exponent = 3 * ((power + 1) // 3)
    else:
        exponent = EXPONENTS[format]
    return f"{val * 10.0**-exponent:.3f}E{exponent:+03d}"


def _times(counts: Any, factor: int) -> Any:
    return {key: _times(c, factor) for key, c in counts.items()} if isinstance(counts, dict) else counts * factor


def _sum(counts: Any) -> int:
    return sum(map(_sum, counts.values())) if isinstance(counts, dict) else int(counts)


def _flatten(counts: Mapping[Any, Any], prefix: str = "") -> list[tuple[str, int]]:
    flat: list[tuple[str, int]] = []
    for key, value in counts.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        flat += _flatten(value, name) if isinstance(value, Mapping) else [(name, int(value))]
    return flat
