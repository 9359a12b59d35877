"""Cost constants of another compiler for the same chip: what do our rules say of the same pieces of work?

In: rows named by their workload. Out: cycles by the rule that prices such work in users' programs.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import torch

from openipu.ops.kernels import COPY, EXACT_GELU
from openipu.ops.linear.variants import rate_transform
from openipu.ops.steps import count_pass_cycles
from openipu.ops.vertex_code import PIECE_INSTRUCTIONS
from openipu.validation.figures import confidence
from openipu.validation.figures.micro.kernels import measure_block
from openipu.validation.figures.micro.reading import Bench, find_bench
from openipu.validation.figures.outcome import Outcome, Prediction, Predictor, Unmodelled
from openipu.validation.figures.rows import FigureRow

_HALF_BYTES = 2
_MANY_ELEMENTS = 1 << 16


def _copy(workload: str, bench: Bench) -> float:
    """A copy of so many KiB on one tile."""
    size = re.search(r"([\d.]+) kib", workload)
    elements = round(float(size.group(1)) * 1024 / _HALF_BYTES) if size else 0
    return count_pass_cycles(COPY, elements, torch.float16, 1, bench.system.target)


def _call(workload: str, bench: Bench) -> float:
    return count_pass_cycles(COPY, 0, torch.float16, 1, bench.system.target)


def _transform(workload: str, bench: Bench) -> float:
    """Elements one by one: two contiguous bytes."""
    return rate_transform(_HALF_BYTES) * _HALF_BYTES


def _pack(workload: str, bench: Bench) -> float:
    """Rows cut into channel blocks: runs of whole blocks."""
    return rate_transform(16 * _HALF_BYTES) * _HALF_BYTES


def _gelu(workload: str, bench: Bench) -> float:
    target = bench.system.target
    return count_pass_cycles(EXACT_GELU, _MANY_ELEMENTS, torch.float16, 1, target) / _MANY_ELEMENTS


def _phase(workload: str, bench: Bench) -> float:
    return bench.system.target.phase_launch_cycles


def _piece(workload: str, bench: Bench) -> float:
    return float(PIECE_INSTRUCTIONS)


def _amp_call(workload: str, bench: Bench) -> float:
    """The AMP vertex with nothing to multiply."""
    return measure_block(0, torch.float16, bench.context)


_CONSTANTS: tuple[tuple[str, Callable[[str, Bench], float]], ...] = (
    ("copy of", _copy),
    ("local-copy call", _call),
    ("layout transform", _transform),
    ("operand pack", _pack),
    ("gelu", _gelu),
    ("exchange phase", _phase),
    ("exchange piece", _piece),
    ("amp kernel call", _amp_call),
)


def predict_constant(row: FigureRow) -> Outcome:
    """The same constant by our rules."""
    workload = row.workload.lower()
    for words, measure in _CONSTANTS:
        if words in workload:
            return Prediction.around(measure(workload, find_bench(row)), confidence.OTHER_COMPILER, "our rule for it")
    return Unmodelled(f"no rule of ours stands for {row.workload!r}")


CONSTANT_PREDICTORS = (
    Predictor("constant", lambda row: row.kind == "micro" and row.metric == "cost constant", predict_constant),
)
