"""Softmax, norms and losses: which compute sets, in which order, and what they touch."""

from __future__ import annotations

import torch

from openipu.ops import CostContext, Family, Operand, OpSite, StepKind, cost_op

F32, F16 = torch.float32, torch.float16


def names(site: OpSite, context: CostContext, kind: StepKind = StepKind.COMPUTE) -> list[str]:
    return [step.name for step in cost_op(site, context).steps if step.kind is kind]


def softmax(op: str, shape: tuple[int, ...], dtype: torch.dtype = F32) -> OpSite:
    operand = Operand(shape, dtype)
    return OpSite(op, (operand, len(shape) - 1, False), {}, (operand,))


def test_softmax_is_six_compute_sets_between_two_turns_where_rows_are_whole(bow: CostContext) -> None:
    site = softmax("aten._softmax.default", (1472 * 4, 32))
    assert names(site, bow) == [
        "turn rows",
        "maximum: on tile",
        "subtract maximum",
        "Exp",
        "sum: on tile",
        "of sums",
        "BroadcastMultiply",
        "turn rows",
    ]
    assert names(site, bow, StepKind.EXCHANGE) == []


def test_a_softmax_turns_its_rows_element_by_element_unless_it_is_fused_with_the_products(bow: CostContext) -> None:
    """512 rows of 1,472 halves: 1,024 bytes a tile at Poplibs' 5.15 cycles a byte for pieces of 2, and its base."""
    scores = Operand((8, 64, 1472), F16)
    plain = cost_op(softmax("aten._softmax.default", scores.shape, F16), bow)
    turns = [step for step in plain.steps if step.name == "turn rows"]
    assert [step.cycles for step in turns] == [587 + 5.15 * 1024] * 2
    fused = cost_op(OpSite("openipu.fused_softmax.default", (scores,), {}, (scores,)), bow)
    assert fused.cycles == plain.cycles - sum(step.cycles for step in turns)
    in_float = cost_op(softmax("aten._softmax.default", scores.shape), bow)
    assert in_float.steps[0].cycles == 587 + 3.125 * 2048  # pieces of 4 bytes


def test_a_softmax_over_a_matrix_for_every_tile_turns_nothing(bow: CostContext) -> None:
    """1,472 tiles: 92 x 16 matrices of scores are one each, 92 x 15 are not enough to go round."""
    assert "turn rows" not in names(softmax("aten._softmax.default", (92, 16, 64, 64), F16), bow)
    assert names(softmax("aten._softmax.default", (92, 15, 64, 64), F16), bow).count("turn rows") == 2


def test_half_softmax_casts_its_sums(bow: CostContext) -> None:
    assert "cast sums" in names(softmax("aten._softmax.default", (1472 * 4, 32), F16), bow)


def test_rows_that_tile_borders_cut_are_exchanged(bow: CostContext) -> None:
    exchanges = names(softmax("aten._softmax.default", (1000, 100)), bow, StepKind.EXCHANGE)
    assert exchanges == ["maximum: final partials", "broadcast maximum", "sum: final partials", "broadcast sums"]


def test_log_softmax_needs_no_inverse(bow: CostContext) -> None:
    names_of_log = names(softmax("aten._log_softmax.default", (1472 * 4, 32)), bow)
    assert names_of_log[-1] == "BroadcastAdd"


def test_softmax_gradient_multiplies_sums_and_subtracts(bow: CostContext) -> None:
    operand = Operand((1472 * 4, 32), F32)
    site = OpSite("aten._softmax_backward_data.default", (operand, operand, -1, F32), {}, (operand,))
    assert names(site, bow) == ["gradient x result", "sum of products: on tile", "BroadcastSubtractMultiply"]


def layer_norm(rows: int, size: int, *, affine: bool = True) -> OpSite:
    operand, parameter = Operand((rows, size), F32), Operand((size,), F32) if affine else None
    statistics = Operand((rows, 1), F32)
    return OpSite(
        "aten.native_layer_norm.default",
        (operand, [size], parameter, parameter, 1e-5),
        {},
        (operand, statistics, statistics),
    )


def test_layer_norm_reduces_once_then_makes_four_passes(bow: CostContext) -> None:
    assert names(layer_norm(1472 * 2, 64), bow) == [
        "mean and squares: on tile",
        "1/deviation",
        "whiten: subtract",
        "whiten: multiply",
        "scale",
        "shift",
    ]
    assert names(layer_norm(1472 * 2, 64, affine=False), bow)[-1] == "whiten: multiply"


def test_two_sums_in_one_reduction_cost_arithmetic_but_no_phase(bow: CostContext) -> None:
    step = cost_op(layer_norm(1472 * 6, 32), bow).steps[0]
    assert step.cycles == 33 + 6 * (20 + 2 * (12 + 16))


def layer_norm_backward(mask: list[bool]) -> OpSite:
    operand, parameter, statistics = Operand((4096, 256), F32), Operand((256,), F32), Operand((4096, 1), F32)
    return OpSite(
        "aten.native_layer_norm_backward.default",
        (operand, operand, [256], statistics, statistics, parameter, parameter, mask),
        {},
        (operand, parameter, parameter),
    )


def test_norm_gradients_that_nobody_wants_are_not_costed(bow: CostContext) -> None:
    full = cost_op(layer_norm_backward([True, True, True]), bow)
    only_input = cost_op(layer_norm_backward([True, False, False]), bow)
    only_shift = cost_op(layer_norm_backward([False, False, True]), bow)
    assert only_shift.cycles < only_input.cycles < full.cycles
    assert not any("scale and shift:" in step.name for step in only_input.steps if step.kind is StepKind.COMPUTE)
    assert all("gradient of scale and shift" in step.name for step in only_shift.steps)


def batch_norm(*, training: bool) -> OpSite:
    image, channel = Operand((16, 64, 28, 28), F32), Operand((64,), F32)
    args = (image, channel, channel, channel, channel, training, 0.1, 1e-5)
    return OpSite("aten.native_batch_norm.default", args, {}, (image, channel, channel))


def test_batch_norm_in_training_measures_and_moves_its_statistics(bow: CostContext) -> None:
    assert names(batch_norm(training=True), bow)[-1] == "running statistics"
    assert any(name.startswith("mean and squares") for name in names(batch_norm(training=True), bow))


def test_batch_norm_in_inference_is_one_multiply_and_add(bow: CostContext) -> None:
    assert names(batch_norm(training=False), bow) == ["scale and shift of each channel", "BroadcastScaleAdd"]


def test_a_mean_squared_error_is_a_pass_and_a_sum(bow: CostContext) -> None:
    operand = Operand((1024, 32), F32)
    reduced = OpSite("aten.mse_loss.default", (operand, operand), {}, (Operand((), F32),))
    kept = OpSite("aten.mse_loss.default", (operand, operand, 0), {}, (operand,))
    assert names(reduced, bow)[0] == names(kept, bow)[0] == "SubtractSquare"
    assert names(reduced, bow)[-1] == "mean"
    assert len(names(kept, bow)) == 1


def test_the_class_of_each_row_is_picked_not_searched(bow: CostContext) -> None:
    def loss(classes: int) -> float:
        scores, labels = Operand((1472, classes), F32), Operand((1472,), torch.int64)
        outputs = (Operand((), F32), Operand((), F32))
        return cost_op(
            OpSite("aten.nll_loss_forward.default", (scores, labels, None, 1, -100), {}, outputs), bow
        ).cycles

    assert loss(4096) == loss(64)  # one element a row is touched, however long the row


def test_its_gradient_writes_the_whole_matrix(bow: CostContext) -> None:
    scores, labels, scalar = Operand((1472, 4096), F32), Operand((1472,), torch.int64), Operand((), F32)
    site = OpSite("aten.nll_loss_backward.default", (scalar, scores, labels, None, 1, -100, scalar), {}, (scores,))
    cost = cost_op(site, bow)
    assert cost.family is Family.SCATTER
    assert cost.steps[0].cycles == 82 + 20 + 6 * (17 + 342)  # a call, zeros: ceil(4096 / (6 x 2)) stores a worker


def test_temporaries_of_a_composite_are_counted(bow: CostContext) -> None:
    operand = Operand((1472, 256), F32)  # one row a tile: 1,024 bytes
    site = OpSite("aten._softmax_backward_data.default", (operand, operand, -1, F32), {}, (operand,))
    assert cost_op(site, bow).scratch_bytes_per_tile >= 256 * 4
    assert cost_op(layer_norm_backward([True, True, True]), bow).scratch_bytes_per_tile >= 2 * 4096 * 256 * 4 / 1472
