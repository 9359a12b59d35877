"""The matmul and convolution planner: sizes and a machine in, BSP steps and temporary memory out.

In: a `Convolution` or the sizes of a matmul, and a `CostContext`. Out: `OpCost`, cached by shape.

The pipeline is the module list: `shapes` (the problem), `figures` (the machine), `variants` (vertex, orientation,
taps as channels, serial loop), `splits` (pieces for tiles), `candidates` (prices with `kernels`, `reduction`, `serial`,
`memory`), `search` (the fastest for each amount of memory), `steps` (what a profile shows).
"""

from __future__ import annotations

from functools import lru_cache

from openipu.errors import PlanError
from openipu.machine import Provenance
from openipu.ops.cost import CostContext, CostStep, Family, OpCost, Placement, StepKind
from openipu.ops.linear.figures import Figures, read_figures
from openipu.ops.linear.search import choose_plan, find_frontier
from openipu.ops.linear.shapes import Convolution, from_matmul, input_gradient, weight_gradient
from openipu.ops.linear.steps import build_steps, measure_laid_out, price_candidate, summarize_plan

__all__ = ["Convolution", "cost_convolution", "cost_matmul", "find_frontier", "input_gradient", "weight_gradient"]

_BASIS = (
    "Poplibs' planner formulas (AMP 1x1 and nx1, reduction, slices, transform), searched for the fastest plan; "
    "median error 4 % on 45 published Bow matmuls, 6 % on 152 Mk1 convolutions (two constants fitted on them)"
)


def cost_convolution(problem: Convolution, context: CostContext, *, name: str = "") -> OpCost:
    """Plans a convolution. `name` says in an error message which op it is."""
    figures = read_figures(context, half=problem.half, float8=problem.float8, name=name)
    return _plan(problem, figures, context.available_memory_proportion, Family.CONVOLUTION)


def cost_matmul(
    *,
    batches: int,
    rows: int,
    inner: int,
    columns: int,
    half: bool,
    context: CostContext,
    float8: bool = False,
    name: str = "",
) -> OpCost:
    """Plans `[batches, rows, inner] @ [batches, inner, columns]`.

    The right-hand matrix gives the AMP coefficients at no extra cost, as the weights of a layer are laid out for it;
    the other orientation is tried too and pays for rearranging both operands. Batches that share the right-hand matrix
    belong into `rows`: they are one larger matmul. `name` says in an error message which op it is.
    """
    sizes = {"batches": batches, "rows": rows, "inner": inner, "columns": columns}
    for size, value in sizes.items():
        if value < 0:
            where = f" of {name}" if name else ""
            raise PlanError(f"The matmul{where} has {size} = {value}. Check the shapes that the op rule passed on.")
    figures = read_figures(context, half=half, float8=float8, name=name)
    if batches == 0:
        return _describe_nothing(Family.MATMUL)
    problem = from_matmul(batches=batches, rows=rows, inner=inner, columns=columns, half=half, float8=float8)
    return _plan(problem, figures, context.available_memory_proportion, Family.MATMUL)


@lru_cache(maxsize=8192)
def _plan(problem: Convolution, figures: Figures, available_memory_proportion: float, family: Family) -> OpCost:
    if problem.is_empty:
        return _describe_nothing(family)
    if problem.in_channels == 0:
        return _describe_zero_fill(problem, figures, family)
    choice = choose_plan(problem, figures, available_memory_proportion)
    priced = price_candidate(choice.candidate, figures)
    plan = summarize_plan(priced, choice, figures)
    return OpCost(
        family=family,
        steps=build_steps(priced, figures),
        placement=Placement.PLANNED,
        result_tiles=min(int(priced.pieces.tiles[0]), problem.result_elements),
        scratch_bytes_per_tile=plan["scratch_bytes"],
        laid_out=measure_laid_out(priced, figures),
        provenance=Provenance.GUESSED if plan["uncertain"] else Provenance.DERIVED,
        basis=_BASIS,
        plan=plan,
    )


def _describe_nothing(family: Family) -> OpCost:
    return OpCost(family=family, steps=(), provenance=Provenance.DERIVED, basis="no result elements: nothing to do")


def _describe_zero_fill(problem: Convolution, figures: Figures, family: Family) -> OpCost:
    """A sum over no channels: the result is zero and only has to be written."""
    tiles = min(figures.tiles, problem.result_elements)
    held_bytes = -(-problem.result_elements // tiles) * problem.element_bytes
    step = CostStep(
        kind=StepKind.COMPUTE,
        name="fill with zeros",
        cycles=-(-held_bytes // figures.store_bytes_per_cycle),
        tiles=tiles,
        vertex="popops::Fill<half>" if problem.half else "popops::Fill<float>",
    )
    return OpCost(
        family=family,
        steps=(step,),
        placement=Placement.PLANNED,
        result_tiles=tiles,
        provenance=Provenance.DERIVED,
        basis="a sum over nothing: one store a cycle",
    )
