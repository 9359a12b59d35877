"""Sparse products: the dense plan with its multiply thinned out."""

from __future__ import annotations

import pytest

from openipu.errors import PlanError
from openipu.ops import CostContext
from openipu.ops.linear import cost_matmul
from openipu.ops.rules.sparse import DYNAMIC_OVERHEAD, UNEVEN_BLOCKS, cost_sparse_matmul

SIZES = {"rows": 512, "inner": 1024, "columns": 1024, "half": True}


def multiply_cycles(cost):
    return sum(step.total_cycles for step in cost.steps if step.flops)


def test_blocks_of_sixteen_multiply_in_proportion_to_their_density(bow: CostContext) -> None:
    dense = cost_matmul(batches=1, **SIZES, context=bow)
    sparse = cost_sparse_matmul(**SIZES, density=1 / 16, block=16, dynamic=False, context=bow)
    assert multiply_cycles(sparse) == pytest.approx(multiply_cycles(dense) / 16 * UNEVEN_BLOCKS)
    spared = 15 / 16 * dense.plan["received_weight_bytes"] / 4  # weights that need not be sent, 4 B a cycle
    rest = dense.cycles - multiply_cycles(dense) - spared
    assert sparse.cycles - multiply_cycles(sparse) == pytest.approx(rest)


def test_single_weights_run_on_the_vector_path(bow: CostContext) -> None:
    blocks, singles = (
        cost_sparse_matmul(**SIZES, density=1 / 16, block=block, dynamic=False, context=bow) for block in (16, 1)
    )
    assert multiply_cycles(singles) == pytest.approx(16 * multiply_cycles(blocks))  # 64 products a cycle against 4


def test_a_pattern_that_changes_costs_more_everywhere(bow: CostContext) -> None:
    static, dynamic = (
        cost_sparse_matmul(**SIZES, density=1 / 16, block=16, dynamic=dynamic, context=bow) for dynamic in (False, True)
    )
    assert multiply_cycles(dynamic) == pytest.approx(DYNAMIC_OVERHEAD * multiply_cycles(static))


@pytest.mark.parametrize("density", [0.0, -0.5, 1.5])
def test_a_density_outside_of_zero_to_one_is_refused(bow: CostContext, density: float) -> None:
    with pytest.raises(PlanError, match="density above 0 and up to 1"):
        cost_sparse_matmul(**SIZES, density=density, block=16, dynamic=False, context=bow)
