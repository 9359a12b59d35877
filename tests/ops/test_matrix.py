"""Matmuls, convolutions and attention: what the table asks of the planner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from openipu.ops import CostContext, Family, Operand, OpSite, Placement, cost_op
from openipu.ops.linear import Convolution, cost_convolution, cost_matmul, weight_gradient
from openipu.ops.rules.matrix import describe_convolution

F16, F32 = torch.float16, torch.float32
Record = Callable[[Callable[[], Any]], list[OpSite]]


def meta(*shape: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.empty(*shape, device="meta", dtype=dtype, requires_grad=True)


def pick(sites: list[OpSite], op: str) -> OpSite:
    return next(site for site in sites if site.op == op)


def test_mm_is_one_matmul_of_its_sizes(bow: CostContext) -> None:
    left, right, result = Operand((128, 256), F16), Operand((256, 512), F16), Operand((128, 512), F16)
    cost = cost_op(OpSite("aten.mm.default", (left, right), {}, (result,)), bow)
    assert cost == cost_matmul(batches=1, rows=128, inner=256, columns=512, half=True, context=bow)
    assert cost.flops == pytest.approx(2 * 128 * 256 * 512, rel=0.05)


def test_bmm_keeps_its_batch_and_a_shared_matrix_makes_more_rows(bow: CostContext) -> None:
    left, right = Operand((12, 64, 32), F16), Operand((12, 32, 64), F16)
    batched = cost_op(OpSite("aten.bmm.default", (left, right), {}, (Operand((12, 64, 64), F16),)), bow)
    shared = Operand((32, 64), F16)
    folded = cost_op(OpSite("aten.matmul.default", (left, shared), {}, (Operand((12, 64, 64), F16),)), bow)
    assert batched.steps == cost_matmul(batches=12, rows=64, inner=32, columns=64, half=True, context=bow).steps
    assert folded.steps == cost_matmul(batches=1, rows=12 * 64, inner=32, columns=64, half=True, context=bow).steps


def test_addmm_brings_its_bias_to_where_the_product_lies(bow: CostContext) -> None:
    bias, left, right, result = (Operand(shape, F32) for shape in ((512,), (128, 256), (256, 512), (128, 512)))
    plain = cost_matmul(batches=1, rows=128, inner=256, columns=512, half=False, context=bow)
    cost = cost_op(OpSite("aten.addmm.default", (bias, left, right), {}, (result,)), bow)
    unused = cost_op(OpSite("aten.addmm.default", (bias, left, right), {"beta": 0}, (result,)), bow)
    assert (cost.placement, cost.result_tiles) == (Placement.PLANNED, plain.result_tiles)
    assert [step.name for step in cost.steps[len(plain.steps) :]] == ["bias", "add bias"]
    assert (unused.steps, unused.plan) == (plain.steps, plain.plan)
    assert [entry.operand for entry in plain.laid_out] == [0, 1]
    assert [entry.operand for entry in cost.laid_out] == [1, 2]  # the bias comes first in this call


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            lambda: functional.conv2d(meta(2, 8, 16, 16), meta(6, 4, 3, 5), stride=(2, 1), dilation=(1, 2), groups=2),
            Convolution(2, 2, 7, 8, 3, 5, 4, 3, 2, 1, 1, 2, half=False),
        ),
        (
            lambda: functional.conv1d(meta(2, 8, 64), meta(16, 8, 3)),
            Convolution(1, 2, 1, 62, 1, 3, 8, 16, half=False),
        ),
        (
            lambda: functional.conv3d(meta(2, 4, 8, 8, 8), meta(16, 4, 3, 3, 3)),
            Convolution(1, 2 * 6, 6, 6, 3, 3, 4 * 3, 16, half=False),
        ),
        (
            lambda: functional.conv_transpose2d(meta(2, 8, 5, 5), meta(8, 4, 3, 3), stride=2),
            Convolution(1, 2, 11, 11, 3, 3, 8, 4, input_dilation_height=2, input_dilation_width=2, half=False),
        ),
    ],
    ids=["2-d grouped", "1-d", "3-d", "transposed"],
)
def test_a_convolution_is_described_from_its_call(
    record: Record, call: Callable[[], torch.Tensor], expected: Convolution
) -> None:
    site = pick(record(call), "aten.convolution.default")
    source, weight = site.operands[:2]
    assert describe_convolution(site, source, weight, site.outputs[0], first=3) == expected


def convolution_backward(mask: list[bool]) -> OpSite:
    gradient, source, weight = Operand((2, 16, 14, 14), F16), Operand((2, 8, 28, 28), F16), Operand((16, 8, 3, 3), F16)
    args = (gradient, source, weight, [16], [2, 2], [1, 1], [1, 1], False, [0, 0], 1, mask)
    return OpSite("aten.convolution_backward.default", args, {}, ())


def test_the_gradient_of_a_convolution_is_two_convolutions_and_a_sum(bow: CostContext) -> None:
    cost = cost_op(convolution_backward([True, True, True]), bow)
    of_input = Convolution(1, 2, 28, 28, 3, 3, 16, 8, input_dilation_height=2, input_dilation_width=2)
    of_weight = weight_gradient(Convolution(1, 2, 14, 14, 3, 3, 8, 16, 2, 2))
    parts = {name.split(":")[0] for name in (step.name for step in cost.steps)}
    assert parts == {"input gradient", "weight gradient", "bias gradient"}
    assert cost.family is Family.CONVOLUTION
    for label, problem in (("input gradient", of_input), ("weight gradient", of_weight)):
        cycles = [step.cycles for step in cost.steps if step.name.startswith(label)]
        assert cycles == [step.cycles for step in cost_convolution(problem, bow).steps]
    assert set(cost.plan) == {"input_gradient", "weight_gradient"}


def test_gradients_that_nobody_wants_are_not_computed(bow: CostContext) -> None:
    whole = cost_op(convolution_backward([True, True, True]), bow)
    first_layer = cost_op(convolution_backward([False, True, False]), bow)
    bias_only = cost_op(convolution_backward([False, False, True]), bow)
    assert first_layer.cycles < whole.cycles
    assert {step.name.split(":")[0] for step in first_layer.steps} == {"weight gradient"}
    assert bias_only.placement is Placement.LINEAR
    assert cost_op(convolution_backward([False, False, False]), bow).steps == ()


def attention(*, causal: bool) -> OpSite:
    heads = Operand((2, 4, 64, 32), F16)
    args = (heads, heads, heads, 0.0, causal)
    outputs = (heads, Operand((2, 4, 64), F32))
    return OpSite("aten._scaled_dot_product_flash_attention_for_cpu.default", args, {}, outputs)


def test_attention_writes_its_scores_out(bow: CostContext) -> None:
    cost = cost_op(attention(causal=False), bow)
    products = 2 * 2 * 4 * 64 * 64 * 32 * 2  # two matmuls, two operations each
    assert cost.flops >= products
    assert cost.scratch_bytes_per_tile >= 64  # 2 x 4 x 64 x 64 scores of two bytes: 64 bytes a tile at least
    masked = cost_op(attention(causal=True), bow)
    assert len(masked.steps) == len(cost.steps) + 1
