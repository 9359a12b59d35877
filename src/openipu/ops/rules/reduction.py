"""Reductions: sum, mean, maximum and their kin, over any dimensions.

In: a shape, the dimensions that vanish, a number format. Out: BSP steps: each tile reduces what it holds; then, while
several tiles hold partials of one result, partials are exchanged and reduced again.
Formulas: Poplibs popops reduction and poplin reduction estimators. Sums of half numbers have float partials.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from openipu.ops.cost import CostContext, CostStep, Family, OpCost, Operand, OpSite, StepKind
from openipu.ops.kernels import COPY, MULTIPLY, POWER, SQRT, SQUARE, Kernel
from openipu.ops.rule import Rule, ceil_divide, read_argument, read_dims
from openipu.ops.spread import Spread, spread_finely, spread_linearly, spread_operand
from openipu.ops.steps import Steps, count_held_bytes, exchange, name_vertex, pass_over, wrap

_BASIS = "Poplibs reduction: on-tile (12 an output + P/vw, or P + 11 a column), then W(32 + (3 P + 7) loops) a stage"
_DIRECT_FAN_IN = 64  # published: another stage when the remaining data is more than 64 x the results


@dataclass(frozen=True, slots=True)
class Reduction:
    """What is reduced. `results` sums that share one pass (a mean and a sum of squares) cost arithmetic, not phases."""

    shape: tuple[int, ...]
    dims: tuple[int, ...]
    dtype: torch.dtype
    keeps_format: bool = False  # maximum, logical and: partials have the operand's own format
    sums: int = 1

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def results(self) -> int:
        return math.prod(size for dim, size in enumerate(self.shape) if dim not in self.dims)

    @property
    def element_bytes(self) -> int:
        return Operand((), self.dtype).element_bytes

    @property
    def partial_bytes(self) -> int:
        return self.element_bytes if self.keeps_format else 4

    @property
    def contiguous(self) -> bool:
        """The innermost dimension vanishes: neighbours are added up."""
        ranked = [dim for dim, size in enumerate(self.shape) if size > 1]
        return not ranked or ranked[-1] in self.dims


@dataclass(frozen=True, slots=True)
class Reduced:
    """The steps, and what is needed to bring results back to where the operand lies."""

    steps: Steps
    results_per_tile: int  # results of other tiles that concern the elements of one
    on_one_tile: bool  # every result was complete without an exchange
    scratch_bytes_per_tile: int


def reduce_elements(
    problem: Reduction,
    context: CostContext,
    *,
    name: str = "reduce",
    spreads_results: bool = True,
    spread: Spread | None = None,
) -> Reduced:
    """Plan one reduction of a tensor that lies as `spread` says, or linearly.

    Results that are broadcast right after may stay where they were made: `spreads_results` is then False.
    """
    spread = spread or spread_linearly(problem.elements, problem.element_bytes, context)
    if not spread.tiles or not problem.results:
        return Reduced((), 0, True, 0)
    local = _count_local_results(problem, spread.elements)
    fan_in = _count_fan_in(problem, spread, local)
    steps: list[CostStep] = []
    if spread.elements > local:
        steps += _reduce_on_tile(problem, spread, local, context, name, completes=fan_in <= 1)
    # What no tile has touched yet still has its own format.
    partial_bytes = problem.partial_bytes if steps else min(problem.partial_bytes, problem.element_bytes)
    scratch = local * partial_bytes * problem.sums if steps else 0
    on_one_tile = fan_in <= 1
    # Only the rows that a tile border cuts have several partials when the rest is whole.
    cut = min(problem.results, spread.tiles) if _cuts_rows(problem, spread) else problem.results
    while fan_in > 1:
        needs_more = fan_in > _DIRECT_FAN_IN or fan_in >= 2 * math.sqrt(context.tiles)
        depth = math.ceil(math.sqrt(fan_in)) if needs_more else fan_in
        groups = ceil_divide(fan_in, depth)
        round_of = _Stage(cut * groups, depth, partial_bytes, "final" if groups == 1 else "intermediate")
        plan = _plan_final_stage if groups == 1 and spreads_results else _plan_stage
        stage, held = plan(problem, round_of, context, name)
        steps += stage
        scratch = max(scratch, held)
        fan_in, partial_bytes = groups, problem.partial_bytes
    wanted = min(2, local) if _cuts_rows(problem, spread) else local  # a tile has two borders
    return Reduced(tuple(steps), wanted, on_one_tile, scratch)


def broadcast_results(problem: Reduction, reduced: Reduced, context: CostContext, *, name: str) -> Steps:
    """Bring each result to the tiles whose elements it concerns; nothing to do where it was made there."""
    if reduced.on_one_tile:
        return ()
    spread = spread_linearly(problem.elements, problem.element_bytes, context)
    arriving = reduced.results_per_tile * problem.element_bytes * problem.sums
    return exchange(name, arriving, spread.tiles, context, messages=min(reduced.results_per_tile, 8))


def reduce_with(
    before: Kernel | None = None, after: Kernel | None = None, *, keeps_format: bool = False, sums: int = 1
) -> Rule:
    """A rule: perhaps a pass over the elements, the reduction, perhaps a pass over the results."""

    def cost_reduction(site: OpSite, context: CostContext) -> OpCost:
        operand = site.operands[0]
        problem = Reduction(operand.shape, _find_dims(site, operand), operand.dtype, keeps_format, sums)
        steps: Steps = pass_over(before, operand.elements, operand.dtype, context) if before else ()
        reduced = reduce_elements(problem, context)
        # Nothing to add up: the result is still another tensor.
        steps += reduced.steps or pass_over(COPY, problem.results, operand.dtype, context)
        if after:
            steps += pass_over(after, problem.results, operand.dtype, context)
        held = count_held_bytes(operand.elements, operand.dtype, context) if before else 0
        return wrap(Family.REDUCTION, steps, basis=_BASIS, scratch_bytes_per_tile=reduced.scratch_bytes_per_tile + held)

    return cost_reduction


def cost_norm(site: OpSite, context: CostContext) -> OpCost:
    """A vector norm: squares (or magnitudes) added up, then a root."""
    order = read_argument(site, 1, "ord", 2)
    operand = site.operands[0]
    problem = Reduction(operand.shape, read_dims(read_argument(site, 2, "dim"), len(operand.shape)), operand.dtype)
    reduced = reduce_elements(problem, context)
    before = SQUARE if order in (2, None) else POWER
    steps = pass_over(before, operand.elements, operand.dtype, context) + reduced.steps
    steps += pass_over(SQRT, problem.results, operand.dtype, context)
    scratch = reduced.scratch_bytes_per_tile + count_held_bytes(operand.elements, operand.dtype, context)
    return wrap(Family.REDUCTION, steps, basis=_BASIS, scratch_bytes_per_tile=scratch)


def cost_variance(site: OpSite, context: CostContext) -> OpCost:
    """Mean and sum of squares in one multi-reduction, then a pass over the results; a root for a deviation."""
    operand = site.operands[0]
    problem = Reduction(operand.shape, _find_dims(site, operand), operand.dtype, sums=2)
    reduced = reduce_elements(problem, context, name="mean and squares")
    steps = reduced.steps + pass_over(MULTIPLY, problem.results, operand.dtype, context)
    if "std" in site.op:
        steps += pass_over(SQRT, problem.results, operand.dtype, context)
    return wrap(Family.REDUCTION, steps, basis=_BASIS, scratch_bytes_per_tile=reduced.scratch_bytes_per_tile)


def cost_extreme(arithmetic: Rule) -> Rule:
    """`max` and `min` reduce one tensor, or compare two of them element by element."""

    def cost_either(site: OpSite, context: CostContext) -> OpCost:
        if len(site.operands) > 1:
            return arithmetic(site, context)
        return _REDUCE_EXTREME(site, context)

    return cost_either


_REDUCE_EXTREME = reduce_with(keeps_format=True)


def _find_dims(site: OpSite, operand: Operand) -> tuple[int, ...]:
    given = read_argument(site, 1, "dim")
    rank = len(operand.shape)
    if given is None or isinstance(given, bool | Operand):
        return tuple(range(rank))
    return read_dims(given, rank)


def _count_local_results(problem: Reduction, elements: int) -> int:
    """Distinct results among a tile's neighbouring elements."""
    results, covered = 1, elements
    for dim in reversed(range(len(problem.shape))):
        size = problem.shape[dim]
        if dim not in problem.dims:
            results *= min(size, covered)
        covered = ceil_divide(covered, size)
    return min(results, problem.results, elements)


def _cuts_rows(problem: Reduction, spread: Spread) -> bool:
    """Whole rows fit on a tile, but tile borders do not fall between rows."""
    row = problem.elements // problem.results
    return problem.contiguous and spread.elements >= row


def _count_fan_in(problem: Reduction, spread: Spread, local: int) -> int:
    """Tiles that hold partials of the same result."""
    if spread.tiles == 1:
        return 1
    row = problem.elements // problem.results
    if _cuts_rows(problem, spread):
        return 1 if spread.elements % row == 0 else 2
    return min(row, max(1, ceil_divide(spread.tiles * local, problem.results)))


def _reduce_on_tile(
    problem: Reduction, spread: Spread, local: int, context: CostContext, name: str, *, completes: bool
) -> Steps:
    """The tile's own elements. Several workers may share a result; where it is complete after this, one adds up their
    parts, if that is quicker than one worker doing it all.
    """
    target = context.target
    workers = target.workers_per_tile
    parts = local if problem.contiguous else ceil_divide(local, max(1, target.vector_bytes // problem.element_bytes))
    share = max(1, workers // parts)
    combining = 32 + (3 * share + 7) * problem.sums
    if completes and share > 1:
        alone = _count_worker_cycles(problem, spread, local, 1, context)
        if alone <= _count_worker_cycles(problem, spread, local, share, context) + combining:
            share = 1
    per_worker = _count_worker_cycles(problem, spread, local, share, context)
    cycles = (33 + workers * (20 + per_worker)) * target.compute_scale
    vertex = name_vertex("ReduceContiguous" if problem.contiguous else "ReduceStrided", problem.dtype)
    flops = problem.elements * problem.sums if problem.dtype.is_floating_point else 0
    steps: Steps = (CostStep(StepKind.COMPUTE, f"{name}: on tile", cycles, spread.tiles, flops=flops, vertex=vertex),)
    if completes and share > 1:
        partial = name_vertex("ReducePartials", torch.float32 if problem.partial_bytes == 4 else problem.dtype)
        together = workers * combining * target.compute_scale
        steps += (CostStep(StepKind.COMPUTE, f"{name}: workers", together, spread.tiles, vertex=partial),)
    return steps


def _count_worker_cycles(problem: Reduction, spread: Spread, local: int, share: int, context: CostContext) -> float:
    """One worker's loops, when `share` of them work on one result (or one column of results)."""
    target = context.target
    width = max(1, target.vector_bytes // problem.element_bytes)
    depth = ceil_divide(ceil_divide(spread.elements, local), share)
    if problem.contiguous:
        vectors = ceil_divide(depth, width)
        loops = ceil_divide(local, target.workers_per_tile) * (12 + target.reduction_vector_cycles * vectors)
    else:
        loops = ceil_divide(ceil_divide(local, width), target.workers_per_tile) * (depth + 11)
    return loops * problem.sums


@dataclass(frozen=True, slots=True)
class _Stage:
    """One round of exchange and reduction: each of `results` is made from `depth` partials."""

    results: int
    depth: int
    partial_bytes: int
    label: str


def _plan_stage(problem: Reduction, stage: _Stage, context: CostContext, name: str) -> tuple[Steps, int]:
    """A stage whose results may lie anywhere: balanced over all tiles."""
    spread = spread_finely(stage.results, problem.partial_bytes, context)
    return _run_stage(problem, stage, spread, context, f"{name}: {stage.label}")


def _plan_final_stage(problem: Reduction, stage: _Stage, context: CostContext, name: str) -> tuple[Steps, int]:
    """Where the results will lie, or balanced over all tiles and then sent there, whichever is faster."""
    there = spread_linearly(stage.results, problem.element_bytes, context)
    fine = spread_finely(stage.results, problem.partial_bytes, context)
    direct, direct_bytes = _run_stage(problem, stage, there, context, f"{name}: {stage.label}")
    balanced, balanced_bytes = _run_stage(problem, stage, fine, context, f"{name}: {stage.label}")
    arriving = there.elements * problem.element_bytes * problem.sums
    balanced += exchange(f"{name}: results", arriving, there.tiles, context, messages=fine.tiles // there.tiles)
    launch = context.target.phase_launch_cycles
    if sum(step.cycles for step in balanced) + launch < sum(step.cycles for step in direct):
        return balanced, balanced_bytes
    return direct, direct_bytes


def _run_stage(problem: Reduction, stage: _Stage, spread: Spread, context: CostContext, name: str) -> tuple[Steps, int]:
    """The exchange and the compute set of one stage, and the bytes that a tile holds meanwhile."""
    target = context.target
    arriving = (stage.depth - 1) * spread.elements * stage.partial_bytes * problem.sums
    accumulators = max(1, 2 * target.vector_bytes // problem.partial_bytes)  # published: 4 float, 8 half
    loops = ceil_divide(ceil_divide(spread.elements, accumulators), target.workers_per_tile)
    cycles = target.workers_per_tile * (32 + (3 * stage.depth + 7) * loops * problem.sums) * target.compute_scale
    flops = stage.results * stage.depth * problem.sums if problem.dtype.is_floating_point else 0
    vertex = name_vertex("ReducePartials", torch.float32 if problem.partial_bytes == 4 else problem.dtype)
    steps = exchange(f"{name} partials", arriving, spread.tiles, context, messages=stage.depth)
    steps += (CostStep(StepKind.COMPUTE, name, cycles, spread.tiles, flops=flops, vertex=vertex),)
    return steps, arriving + spread.elements * stage.partial_bytes * problem.sums


def cost_argument_extreme(site: OpSite, context: CostContext) -> OpCost:
    """Index of the largest: three cycles an element (published), then values and indices are reduced together."""
    operand = site.operands[0]
    problem = Reduction(operand.shape, _find_dims(site, operand), operand.dtype, sums=2)
    spread = spread_operand(operand, context)
    reduced = reduce_elements(problem, context, name="argmax")
    if not spread.tiles:
        return wrap(Family.REDUCTION, (), basis=_BASIS)
    workers = context.target.workers_per_tile
    scan = workers * (20 + 3 * ceil_divide(spread.elements, workers)) * context.target.compute_scale
    first = CostStep(
        StepKind.COMPUTE, "argmax: on tile", scan, spread.tiles, vertex=name_vertex("ArgMax", operand.dtype)
    )
    rest = tuple(step for step in reduced.steps if not step.name.endswith("on tile"))
    return wrap(
        Family.REDUCTION,
        (first, *rest),
        basis="Poplibs popnn loss estimators: argmax 3 cycles an element",
        scratch_bytes_per_tile=reduced.scratch_bytes_per_tile,
    )
