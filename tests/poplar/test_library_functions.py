"""PopLibs' functions against PyTorch: what each returns, in place or not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as functional

import poplar
import poplin
import popnn
import popops
import poprand
import poputil
from poplar import FLOAT, HALF, INT, UNSIGNED_INT
from poplar.program import Execute, Sequence
from popops import expr
from popops.expr import BinaryOpType, UnaryOpType

NUMBERS = np.array([[0.3, -0.7, 1.5], [2.5, -1.5, 0.9]], np.float32)
WHOLE = np.array([[3, -7, 12], [5, 0, -1]], np.int32)
UNARY = {
    UnaryOpType.ABSOLUTE: np.abs,
    UnaryOpType.CEIL: np.ceil,
    UnaryOpType.COS: np.cos,
    UnaryOpType.CBRT: np.cbrt,
    UnaryOpType.EXPONENT: np.exp,
    UnaryOpType.EXPONENT_MINUS_ONE: np.expm1,
    UnaryOpType.EXPONENT2: np.exp2,
    UnaryOpType.FLOOR: np.floor,
    UnaryOpType.INVERSE: lambda a: 1 / a,
    UnaryOpType.NEGATE: lambda a: -a,
    UnaryOpType.NEARBY_INT: np.rint,
    UnaryOpType.ROUND: lambda a: np.copysign(np.floor(np.abs(a) + 0.5), a),
    UnaryOpType.RELU: lambda a: np.maximum(a, 0),
    UnaryOpType.SIGMOID: lambda a: 1 / (1 + np.exp(-a)),
    UnaryOpType.SIGNUM: np.sign,
    UnaryOpType.SIN: np.sin,
    UnaryOpType.SQUARE: np.square,
    UnaryOpType.TAN: np.tan,
    UnaryOpType.TANH: np.tanh,
    UnaryOpType.TRUNC: np.trunc,
    UnaryOpType.ERF: lambda a: torch.erf(torch.from_numpy(a)).numpy(),
    UnaryOpType.GELU_ERF: lambda a: functional.gelu(torch.from_numpy(a)).numpy(),
}
POSITIVE = {
    UnaryOpType.LOGARITHM: np.log,
    UnaryOpType.LOGARITHM_ONE_PLUS: np.log1p,
    UnaryOpType.SQRT: np.sqrt,
    UnaryOpType.RSQRT: lambda a: 1 / np.sqrt(a),
    UnaryOpType.ASIN: np.arcsin,
}
PREDICATES = {
    UnaryOpType.IS_FINITE: np.isfinite,
    UnaryOpType.IS_INF: np.isinf,
    UnaryOpType.IS_NAN: np.isnan,
}
BITS = {
    UnaryOpType.BITWISE_NOT: np.invert,
    UnaryOpType.POPCOUNT: lambda a: np.vectorize(lambda x: bin(int(x) & 0xFFFFFFFF).count("1"))(a),
    UnaryOpType.COUNT_LEADING_ZEROS: lambda a: np.vectorize(lambda x: 32 - (int(x) & 0xFFFFFFFF).bit_length())(a),
}
BINARY = {
    BinaryOpType.ADD: np.add,
    BinaryOpType.ATAN2: np.arctan2,
    BinaryOpType.DIVIDE: np.divide,
    BinaryOpType.MAXIMUM: np.maximum,
    BinaryOpType.MINIMUM: np.minimum,
    BinaryOpType.MULTIPLY: np.multiply,
    BinaryOpType.REMAINDER: np.fmod,
    BinaryOpType.SUBTRACT: np.subtract,
    BinaryOpType.EQUAL: np.equal,
    BinaryOpType.NOT_EQUAL: np.not_equal,
    BinaryOpType.GREATER_THAN: np.greater,
    BinaryOpType.GREATER_THAN_EQUAL: np.greater_equal,
    BinaryOpType.LESS_THAN: np.less,
    BinaryOpType.LESS_THAN_EQUAL: np.less_equal,
}
INTEGER = {
    BinaryOpType.BITWISE_AND: np.bitwise_and,
    BinaryOpType.BITWISE_OR: np.bitwise_or,
    BinaryOpType.BITWISE_XOR: np.bitwise_xor,
    BinaryOpType.BITWISE_XNOR: lambda a, b: ~(a ^ b),
    BinaryOpType.DIVIDE: lambda a, b: np.trunc(a / b).astype(np.int32),
    BinaryOpType.REMAINDER: np.fmod,
    BinaryOpType.SHIFT_LEFT: np.left_shift,
    BinaryOpType.SHIFT_RIGHT_SIGN_EXTEND: np.right_shift,
    BinaryOpType.SHIFT_RIGHT: lambda a, b: (a.view(np.uint32) >> b.astype(np.uint32)).view(np.int32),
}


def test_every_operation_is_either_tried_here_or_named():
    tried = {*UNARY, *POSITIVE, *PREDICATES, *BITS, UnaryOpType.LOGICAL_NOT}
    assert tried == set(UnaryOpType)
    others = {
        BinaryOpType.LOGICAL_AND,
        BinaryOpType.LOGICAL_OR,
        BinaryOpType.POWER,
        BinaryOpType.INV_STD_DEV_TO_VARIANCE,
        BinaryOpType.VARIANCE_TO_INV_STD_DEV,
    }
    assert {*BINARY, *INTEGER, *others} == set(BinaryOpType)


def test_unary_operations_are_those_of_numpy(bench):
    inputs = {
        **dict.fromkeys(UNARY, NUMBERS),
        **dict.fromkeys(POSITIVE, np.abs(NUMBERS) / 3),
        **dict.fromkeys(PREDICATES, np.array([np.inf, np.nan, 1.0], np.float32)),
        **dict.fromkeys(BITS, WHOLE),
    }
    made = [popops.map(bench.graph, op, [bench.give(values)], bench.prog) for op, values in inputs.items()]
    functions = {**UNARY, **POSITIVE, **PREDICATES, **BITS}
    for (op, values), found in zip(inputs.items(), bench.read(*made), strict=True):
        np.testing.assert_allclose(found, functions[op](values), rtol=1e-5, atol=1e-6, err_msg=op.name)


def test_binary_operations_are_those_of_c(bench):
    shifts = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    cases = [(op, NUMBERS, NUMBERS[::-1].copy(), f) for op, f in BINARY.items()]
    cases += [(op, WHOLE, shifts, f) for op, f in INTEGER.items()]
    cases += [(BinaryOpType.POWER, np.abs(NUMBERS), NUMBERS, np.power)]
    cases += [(BinaryOpType.LOGICAL_AND, NUMBERS > 0, NUMBERS > 1, np.logical_and)]
    cases += [(BinaryOpType.LOGICAL_OR, NUMBERS > 0, NUMBERS > 1, np.logical_or)]
    cases += [(BinaryOpType.VARIANCE_TO_INV_STD_DEV, np.abs(NUMBERS), NUMBERS * 0 + 1e-3, lambda a, b: (a + b) ** -0.5)]
    cases += [(BinaryOpType.INV_STD_DEV_TO_VARIANCE, np.abs(NUMBERS), NUMBERS * 0 + 1e-3, lambda a, b: a**-2 - b)]
    made = [popops.map(bench.graph, op, [bench.give(a), bench.give(b)], bench.prog) for op, a, b, _ in cases]
    for (op, a, b, function), found in zip(cases, bench.read(*made), strict=True):
        np.testing.assert_allclose(found, function(a, b), rtol=1e-4, atol=1e-6, err_msg=op.name)


def test_operations_have_forms_in_place_with_an_output_and_with_numbers(bench):
    a, b = bench.give(NUMBERS), bench.give(NUMBERS * 2)
    out = bench.give(NUMBERS * 0)
    popops.mulWithOutput(bench.graph, a, b, out, bench.prog)
    popops.addInPlace(bench.graph, b, a, bench.prog)
    minus = popops.sub(bench.graph, 1.0, a, bench.prog)
    below = popops.gt(bench.graph, 0.5, a, bench.prog)
    popops.sqrtInPlace(bench.graph, popops_abs := popops.abs(bench.graph, a, bench.prog), bench.prog)
    found = bench.read(out, b, minus, below, popops_abs)
    np.testing.assert_allclose(found[0], NUMBERS * NUMBERS * 2)
    np.testing.assert_allclose(found[1], NUMBERS * 3)
    np.testing.assert_allclose(found[2], 1 - NUMBERS)
    assert (found[3] == (NUMBERS < 0.5)).all()
    np.testing.assert_allclose(found[4], np.sqrt(np.abs(NUMBERS)), rtol=1e-6)


def test_expressions_are_calculated_with_operators_and_by_name(bench):
    a, b = bench.give(NUMBERS), bench.give(NUMBERS[0])
    formula = expr.Select(expr._1 * 2 + expr._2, expr.Clamp(expr._1, -1.0, 1.0), expr._1 > 0)
    made = popops.map(bench.graph, formula, [a, b], bench.prog)
    cast = popops.map(bench.graph, expr.Cast(expr._1, INT), [a], bench.prog)
    popops.mapInPlace(bench.graph, expr.Neg(expr._1), [a], bench.prog)
    found = bench.read(made, cast, a)
    np.testing.assert_allclose(found[0], np.where(NUMBERS > 0, NUMBERS * 2 + NUMBERS[0], np.clip(NUMBERS, -1, 1)))
    assert (found[1] == NUMBERS.astype(np.int32)).all()
    np.testing.assert_allclose(found[2], -NUMBERS)


def test_unsigned_numbers_wrap_around_as_in_c(bench):
    a = bench.give(np.array([0xFFFFFFFF, 5], np.uint32))
    made = popops.add(bench.graph, a, 1, bench.prog)
    assert made.elementType() is UNSIGNED_INT
    assert bench.read(made)[0].tolist() == [0, 6]


@pytest.mark.parametrize(
    ("operation", "function"),
    [
        (popops.Operation.ADD, lambda a: a.sum((0, 2))),
        (popops.Operation.MUL, lambda a: a.prod((0, 2))),
        (popops.Operation.MIN, lambda a: a.min((0, 2))),
        (popops.Operation.MAX, lambda a: a.max((0, 2))),
        (popops.Operation.SQUARE_ADD, lambda a: (a * a).sum((0, 2))),
        (popops.Operation.LOG_ADD, lambda a: np.log(np.exp(a).sum((0, 2)))),
    ],
)
def test_reductions_are_those_of_numpy(bench, operation, function):
    values = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    made = popops.reduce(bench.graph, bench.give(values), [0, 2], popops.ReduceParams(operation), bench.prog)
    np.testing.assert_allclose(bench.read(made)[0], function(values), rtol=1e-5)


def test_reductions_scale_update_and_go_into_compute_sets(bench):
    values = NUMBERS
    out, sets = bench.give(np.ones(2, np.float32)), []
    params = popops.ReduceParams(popops.Operation.ADD, update=True, scale=0.5)
    popops.reduceWithOutput(bench.graph, bench.give(values), out, [1], params, sets, "reduction")
    for one in sets:
        bench.prog.add(Execute(one))
    flags = popops.reduce(
        bench.graph, bench.give(values > 0), [1], popops.ReduceParams(popops.Operation.LOGICAL_AND), bench.prog
    )
    halves = popops.reduce(bench.graph, bench.give(values, HALF), FLOAT, [0, 1], popops.ReduceParams(), bench.prog)
    found = bench.read(out, flags, halves)
    np.testing.assert_allclose(found[0], 1 + values.sum(1) / 2, rtol=1e-6)
    assert found[1].tolist() == [False, False]
    assert found[2].dtype == np.float32


def test_values_are_cast_filled_counted_and_chosen(bench):
    a = bench.give(NUMBERS)
    as_int = popops.cast(bench.graph, a, INT, bench.prog)
    filled, zeroed, counted = (bench.give(NUMBERS) for _ in range(3))
    popops.fill(bench.graph, filled, bench.prog, 7.0)
    popops.zero(bench.graph, zeroed, bench.prog)
    popops.iota(bench.graph, counted, 3, bench.prog)
    chosen = popops.select(bench.graph, a, filled, bench.give(NUMBERS > 0), bench.prog)
    popops.scaledAddTo(bench.graph, a, filled, 2.0, bench.prog)
    popops.scaledSubtractFrom(bench.graph, zeroed, counted, 0.5, bench.prog)
    found = bench.read(as_int, filled, counted, chosen, a, zeroed)
    assert (found[0] == NUMBERS.astype(np.int32)).all()
    assert (found[1] == 7).all()
    assert found[2].reshape(-1).tolist() == [3, 4, 5, 6, 7, 8]
    np.testing.assert_allclose(found[3], np.where(NUMBERS > 0, NUMBERS, 7))
    np.testing.assert_allclose(found[4], NUMBERS + 14)
    np.testing.assert_allclose(found[5].reshape(-1), -0.5 * np.arange(3, 9))


def test_slices_at_places_that_only_the_program_knows(bench):
    table = np.arange(24, dtype=np.float32).reshape(6, 4)
    whole, place = bench.give(table), bench.give(np.array([2], np.uint32))
    part = popops.dynamicSlice(bench.graph, whole, place, [0], [2], bench.prog)
    rows = popops.multiSlice(bench.graph, whole, bench.give(np.array([[5], [0]], np.uint32)), [0], [1], bench.prog)
    picked = popops.gather(bench.graph, whole, bench.give(np.array([3, 1], np.uint32)), 1, bench.prog)
    changed, added = bench.give(table), bench.give(table)
    popops.dynamicUpdate(bench.graph, changed, bench.give(-table[:2]), place, [0], [2], bench.prog)
    indices = bench.give(np.array([[1], [1]], np.uint32))
    scale = bench.give(np.float32(2.0))
    popops.multiUpdateAdd(
        bench.graph, added, bench.give(np.ones((2, 1, 4), np.float32)), indices, scale, [0], [1], bench.prog
    )
    written = bench.give(table)
    popops.scatter(bench.graph, written, bench.give(np.array([4], np.uint32)), bench.give(table[:1]), 0, bench.prog)
    hot = bench.give(np.zeros((2, 4), np.float32))
    popops.encodeOneHot(bench.graph, bench.give(np.array([3, 0], np.uint32)), hot, bench.prog)
    found = bench.read(part, rows, picked, changed, added, hot, written)
    assert (found[0] == table[2:4]).all()
    assert found[1].shape == (2, 1, 4)
    assert (found[1][:, 0] == table[[5, 0]]).all()
    assert (found[2] == table[:, [3, 1]]).all()
    assert (found[3] == np.concatenate([table[:2], -table[:2], table[4:]])).all()
    assert (found[4][1] == table[1] + 4).all()
    assert (found[5] == np.eye(4)[[3, 0]]).all()
    assert (found[6][4] == table[0]).all()


def test_padding_is_a_view_with_a_constant_around(bench):
    a = bench.give(NUMBERS)
    view = popops.pad(bench.graph, a, [1, 0], [0, -1], 9.0)
    assert view.shape() == [3, 2]
    copy = poputil.duplicate(bench.graph, view, bench.prog) if view.isParallelWriteable() else None
    assert copy is None  # it names a constant
    target = bench.give(np.zeros((3, 2), np.float32))
    bench.prog.add(poplar.program.Copy(view, target))
    np.testing.assert_allclose(bench.read(target)[0], np.concatenate([[[9, 9]], NUMBERS[:, :2]]))


def test_sorting_and_the_largest(bench):
    a = bench.give(NUMBERS)
    params = popops.TopKParams(2, True, popops.SortOrder.ASCENDING)
    values, places = popops.topKWithPermutation(bench.graph, bench.prog, a, params)
    ordered = popops.sort(bench.graph, a, 1, bench.prog)
    paired = popops.sortKeyValue(bench.graph, a, bench.give(WHOLE), 1, bench.prog)
    counts = popops.histogram(bench.graph, a, bench.give(np.array([0.0, 1.0], np.float32)), False, bench.prog)
    largest = popnn.argMax(bench.graph, a, bench.prog)
    found = bench.read(values, places, ordered, paired, counts, largest)
    np.testing.assert_allclose(found[0], np.sort(NUMBERS, 1)[:, 1:])
    assert (found[1] == np.argsort(NUMBERS, 1)[:, 1:]).all()
    np.testing.assert_allclose(found[2], np.sort(NUMBERS, 1))
    assert (found[3] == np.take_along_axis(WHOLE, np.argsort(NUMBERS, 1), 1)).all()
    assert found[4].tolist() == [2, 2, 2]
    assert (found[5] == NUMBERS.argmax(1)).all()
    assert found[5].dtype == np.uint32


def test_a_counted_loop_gives_its_body_the_counter(bench):
    total = bench.give(np.zeros(1, np.int32))

    def body(counter):
        inner = Sequence()
        popops.addInPlace(bench.graph, total, counter, inner)
        return inner

    bench.prog.add(popops.countedLoop(bench.graph, 2, 9, 3, body))
    assert bench.read(total)[0].tolist() == [2 + 5 + 8]


def test_products_are_those_of_torch(bench):
    generator = np.random.default_rng(1)
    a, b = (generator.normal(size=shape).astype(np.float32) for shape in ((5, 7), (7, 3)))
    many, others = (generator.normal(size=shape).astype(np.float32) for shape in ((2, 5, 7), (2, 7, 3)))
    left, right = bench.give(a), bench.give(b)
    made = poplin.matMul(bench.graph, left, right, bench.prog)
    grouped = poplin.matMulGrouped(bench.graph, bench.give(many), bench.give(others), bench.prog, FLOAT)
    sum_ = bench.give(np.ones((5, 3), np.float32))
    poplin.matMulAcc(bench.graph, sum_, 0.5, left, right, bench.prog)
    found = bench.read(made, grouped, sum_)
    np.testing.assert_allclose(found[0], a @ b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], many @ others, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[2], 1 + 0.5 * (a @ b), rtol=1e-5, atol=1e-6)
    with pytest.raises(poplar.poplar_error, match="matMul"):
        poplin.matMul(bench.graph, left, left, bench.prog)


def test_convolutions_and_their_gradients_are_those_of_torch(bench):
    params = poplin.ConvParams(FLOAT, 2, [6, 6], [3, 3], 2, 4, 2, [2, 2], [1, 1], [1, 1])
    assert params.getOutputFieldShape() == [3, 3]
    generator = np.random.default_rng(2)
    x = torch.from_numpy(generator.normal(size=(2, 4, 6, 6)).astype(np.float32)).requires_grad_()
    w = torch.from_numpy(generator.normal(size=(2, 4, 2, 3, 3)).astype(np.float32)).requires_grad_()
    expected = functional.conv2d(x, w.reshape(8, 2, 3, 3), None, 2, 1, 1, 2)
    grad = torch.ones_like(expected)
    expected.backward(grad)
    acts, weights = bench.give(x.detach().numpy()), bench.give(w.detach().numpy())
    assert poplin.createInput(bench.graph, params).shape() == acts.shape()
    assert poplin.createWeights(bench.graph, params).shape() == weights.shape()
    made = poplin.convolution(bench.graph, acts, weights, params, False, bench.prog)
    deltas = poplin.calculateWeightDeltas(bench.graph, bench.give(grad.numpy()), acts, params, bench.prog)
    found = bench.read(made, deltas)
    np.testing.assert_allclose(found[0], expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], w.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_turned_weights_give_the_gradient_of_the_input(bench):
    x = torch.randn(1, 2, 5, 5, requires_grad=True)
    w = torch.randn(3, 2, 3, 3)
    functional.conv2d(x, w).sum().backward()
    params = poplin.ConvParams(FLOAT, 1, [3, 3], [3, 3], 3, 2, 1, [1, 1], [2, 2], [2, 2])
    ones = bench.give(np.ones((1, 3, 3, 3), np.float32))
    made = poplin.convolution(bench.graph, ones, bench.give(w.numpy()[None]), params, True, bench.prog)
    np.testing.assert_allclose(bench.read(made)[0], x.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", list(popnn.NonLinearityType))
def test_non_linearities_and_their_gradients_are_those_of_torch(bench, kind):
    from popnn.nonlinearity import BACKWARD, FORWARD

    values = NUMBERS * np.float32(0.9)  # no corner of a hard sigmoid
    x = torch.from_numpy(values).requires_grad_()
    expected = FORWARD[kind](x)
    made = popnn.nonLinearity(bench.graph, kind, bench.give(values), bench.prog)
    if kind not in BACKWARD:
        with pytest.raises(poplar.poplar_error, match="no gradient"):
            popnn.nonLinearityInputGradient(bench.graph, kind, made, made, bench.prog)
        np.testing.assert_allclose(bench.read(made)[0], expected.detach().numpy(), rtol=1e-5)
        return
    grad = torch.linspace(0.1, 0.9, 6).reshape(2, 3)
    expected.backward(grad)
    uses_input = kind.name in ("GELU", "GELU_ERF", "SWISH")
    source = bench.give(values) if uses_input else made
    back = popnn.nonLinearityInputGradient(bench.graph, kind, source, bench.give(grad.numpy()), bench.prog)
    found = bench.read(made, back)
    np.testing.assert_allclose(found[0], expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], x.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_a_loss_has_the_gradient_of_its_softmax(bench):
    logits = torch.tensor([[0.2, 1.2, -0.3], [1.0, 0.1, 0.4]], requires_grad=True)
    classes = torch.tensor([1, 2])
    expected = functional.cross_entropy(logits, classes, reduction="none")
    expected.sum().backward()
    probabilities = popnn.nonLinearity(bench.graph, "SOFTMAX", bench.give(logits.detach().numpy()), bench.prog)
    labels = bench.give(classes.numpy().astype(np.uint32))
    loss, deltas = bench.give(np.zeros(2, np.float32)), bench.give(np.zeros((2, 3), np.float32))
    right = bench.give(np.zeros(1, np.uint32))
    popnn.calcLoss(bench.graph, probabilities, labels, loss, deltas, right, popnn.CROSS_ENTROPY_LOSS, bench.prog)
    found = bench.read(loss, deltas, right)
    np.testing.assert_allclose(found[0], expected.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(found[1], logits.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert found[2].tolist() == [1]


def test_pooling_and_its_gradient_are_those_of_torch(bench):
    from popnn.pooling import PoolingType, PoolParams, pool, poolInputGradient

    x = torch.randn(1, 2, 4, 4, requires_grad=True)
    values, made = bench.give(x.detach().numpy()), []
    for kind in (PoolingType.MAX, PoolingType.AVG, PoolingType.SUM):
        params = PoolParams(kind, [4, 4], [2, 2], [2, 2])
        pooled = pool(bench.graph, params, values, bench.prog)
        ones = bench.give(np.ones((1, 2, 2, 2), np.float32))
        made += [pooled, poolInputGradient(bench.graph, params, values, pooled, ones, bench.prog)]
    found = bench.read(*made)
    functional.max_pool2d(x, 2).sum().backward()
    np.testing.assert_allclose(found[0], functional.max_pool2d(x, 2).detach().numpy())
    np.testing.assert_allclose(found[1], x.grad.numpy())
    np.testing.assert_allclose(found[2], functional.avg_pool2d(x, 2).detach().numpy(), rtol=1e-6, atol=1e-7)
    assert (found[3] == 0.25).all()
    np.testing.assert_allclose(found[4], 4 * functional.avg_pool2d(x, 2).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert (found[5] == 1).all()


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("padding", [0, 1])
def test_every_maximum_of_a_window_gets_the_gradient_and_shares_it_if_asked(bench, scaled, padding):
    from popnn.pooling import PoolingType, PoolParams, pool, poolInputGradient

    x = np.random.default_rng(0).integers(-2, 1, (2, 3, 4, 5)).astype(np.float32)  # many are equal, and some are 0
    params = PoolParams(PoolingType.MAX, [4, 5], [2, 3], [1, 2], [padding] * 2, [padding] * 2)
    values = bench.give(x)
    pooled = pool(bench.graph, params, values, bench.prog)
    grads = np.random.default_rng(1).random([2, 3, *params.getOutputFieldShape()], np.float32)
    made = poolInputGradient(bench.graph, params, values, pooled, bench.give(grads), scaled, bench.prog)
    expected = np.zeros((2, 3, 4 + 2 * padding, 5 + 2 * padding))
    padded = np.pad(x, [(0, 0), (0, 0), (padding,) * 2, (padding,) * 2], constant_values=-np.inf)
    for b, c, row, column in np.ndindex(grads.shape):
        place = (b, c, slice(row, row + 2), slice(2 * column, 2 * column + 3))
        hits = padded[place] == padded[place].max()
        expected[place] += hits * grads[b, c, row, column] / (hits.sum() if scaled else 1)
    inner = slice(padding, padding + 4), slice(padding, padding + 5)
    np.testing.assert_allclose(bench.read(made)[0], expected[:, :, *inner], rtol=1e-6)


def test_the_gradient_of_a_max_pool_costs_what_pytorchs_costs(bench):
    from popnn.pooling import PoolingType, PoolParams, pool, poolInputGradient

    params = PoolParams(PoolingType.MAX, [4, 4], [2, 2])
    values = bench.give(np.zeros((1, 2, 4, 4), np.float32))
    pooled = pool(bench.graph, params, values, bench.prog)
    poolInputGradient(bench.graph, params, values, pooled, pooled, bench.prog)
    plan = poplar.Engine(bench.graph, bench.prog).getPlan()
    assert [op.op for op in plan.ops][-1] == "aten.max_pool2d_with_indices_backward.default"
    with pytest.raises(poplar.poplar_error, match=r"pooled needs shape \[1, 2, 2, 2\]"):
        poolInputGradient(bench.graph, params, values, values, pooled, bench.prog)


@pytest.mark.parametrize("which", ["batch", "group", "layer", "instance"])
def test_norms_and_their_gradients_are_those_of_torch(bench, which):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(3, 4, 5, generator=generator).requires_grad_()
    gamma, beta = (torch.randn(4, generator=generator).requires_grad_() for _ in range(2))
    groups = {"group": 2, "layer": 1, "instance": 4}.get(which, 0)
    if which == "batch":
        expected = functional.batch_norm(x, None, None, gamma, beta, True, 0.1, 1e-5)
    else:
        expected = functional.group_norm(x, groups, gamma, beta, 1e-5)
    grad = torch.randn(3, 4, 5, generator=generator)
    expected.backward(grad)
    acts, scale, shift, deltas = (bench.give(t.detach().numpy()) for t in (x, gamma, beta, grad))
    graph, prog = bench.graph, bench.prog
    if which == "batch":
        mean, deviation = popnn.bn.batchNormStatistics(graph, acts, 1e-5, prog)
        made, white = popnn.bn.batchNormalise(graph, acts, scale, shift, mean, deviation, prog)
        back = popnn.bn.batchNormGradients(graph, white, deltas, deviation, scale, prog)
        of_scale, of_shift = popnn.bn.batchNormParamGradients(graph, white, deltas, prog)
    else:
        find = {
            "group": lambda: popnn.gn.groupNormStatistics(graph, acts, 1e-5, prog, 2),
            "layer": lambda: popnn.ln.layerNormStatistics(graph, acts, 1e-5, prog),
            "instance": lambda: popnn.in_.instanceNormStatistics(graph, acts, 1e-5, prog),
        }[which]
        mean, deviation = find()
        made, white = popnn.gn.groupNormalise(graph, acts, scale, shift, mean, deviation, prog)
        back = popnn.gn.groupNormGradients(graph, white, deltas, deviation, scale, prog)
        of_scale, of_shift = popnn.gn.groupNormParamGradients(graph, white, deltas, prog)
    found = bench.read(made, back, of_scale, of_shift)
    for ours, theirs in zip(found, (expected.detach(), x.grad, gamma.grad, beta.grad), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-3, atol=1e-4)


def test_an_lstm_is_torchs_with_gates_in_another_order(bench):
    torch.manual_seed(0)
    layer = torch.nn.LSTM(3, 4)
    x = torch.randn(5, 2, 3)
    expected, (_, cell) = layer(x)
    order = [1, 0, 2, 3]  # torch: input, forget, candidate, output

    def turn(weights):
        return weights.detach().reshape(4, 4, -1)[order].transpose(1, 2).numpy()

    params = popnn.lstm.LstmParams(FLOAT, 2, 5, 3, 4)
    biases = (layer.bias_ih_l0 + layer.bias_hh_l0).detach().reshape(4, 4)[order].numpy()
    weights = popnn.lstm.LstmWeights(
        bench.give(turn(layer.weight_ih_l0)), bench.give(turn(layer.weight_hh_l0)), bench.give(biases)
    )
    state = popnn.lstm.LstmState(*(bench.give(np.zeros((2, 4), np.float32)) for _ in range(2)))
    made, last = popnn.lstm.lstmFwd(bench.graph, params, state, bench.give(x.numpy()), weights, None, bench.prog)
    found = bench.read(made, last)
    np.testing.assert_allclose(found[0], expected.detach().numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[1], cell.detach().numpy()[0], rtol=1e-4, atol=1e-6)


def test_a_gru_that_resets_after_the_product_is_torchs(bench):
    torch.manual_seed(0)
    layer = torch.nn.GRU(3, 4)
    x = torch.randn(5, 2, 3)
    expected, _ = layer(x)

    def turn(weights):
        return weights.detach().reshape(3, 4, -1).transpose(1, 2).numpy()

    params = popnn.gru.GruParams(FLOAT, 2, 5, 3, 4, resetAfter=True)
    weights = popnn.gru.GruWeights(
        bench.give(turn(layer.weight_ih_l0)),
        bench.give(turn(layer.weight_hh_l0)),
        bench.give(torch.stack([layer.bias_ih_l0, layer.bias_hh_l0]).detach().reshape(2, 3, 4).transpose(0, 1).numpy()),
    )
    assert popnn.gru.createWeights(bench.graph, params).biases.shape() == [3, 2, 4]
    state = bench.give(np.zeros((2, 4), np.float32))
    made = popnn.gru.gruFwd(bench.graph, params, state, bench.give(x.numpy()), weights, None, bench.prog)
    np.testing.assert_allclose(bench.read(made)[0], expected.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_random_numbers_follow_their_seed_and_their_distribution(bench):
    reference = bench.give(np.zeros((200, 50), np.float32))
    seed = bench.give(np.array([1, 2], np.uint32))
    graph, prog = bench.graph, bench.prog
    even = poprand.uniform(graph, seed, 0, reference, FLOAT, -1.0, 3.0, prog)
    again = poprand.uniform(graph, seed, 0, reference, FLOAT, -1.0, 3.0, prog)
    other = poprand.uniform(graph, seed, 1, reference, FLOAT, -1.0, 3.0, prog)
    normal = poprand.normal(graph, seed, 0, reference, FLOAT, 2.0, 0.5, prog)
    cut = poprand.truncatedNormal(graph, seed, 0, reference, FLOAT, 0.0, 1.0, 1.5, prog)
    flags = poprand.bernoulli(graph, seed, 0, reference, FLOAT, 0.25, prog)
    kept = poprand.dropout(graph, seed, 0, normal, reference, 0.5, 2.0, prog)
    found = bench.read(even, again, other, normal, cut, flags, kept)
    assert (found[0] == found[1]).all()
    assert (found[0] != found[2]).any()
    assert found[0].min() >= -1
    assert found[0].max() < 3
    assert abs(found[0].mean() - 1) < 0.05
    assert abs(found[3].mean() - 2) < 0.05
    assert abs(found[3].std() - 0.5) < 0.05
    assert np.abs(found[4]).max() <= 1.5
    assert abs(found[5].mean() - 0.25) < 0.02
    assert ((found[6] == 0) | np.isclose(found[6], 2 * found[3])).all()
    assert abs((found[6] == 0).mean() - 0.5) < 0.05


def test_utilities_map_and_broadcast(bench):
    tensor = bench.graph.addVariable(FLOAT, [1000], "t")
    mapping = poputil.calcLinearTileMapping(bench.graph, tensor)
    assert [sum(i.size() for i in one) for one in mapping] == [124, 126] * 4  # 8 tiles of whole vectors of two floats
    small = bench.graph.addVariable(FLOAT, [40], "small")
    poputil.mapTensorLinearly(bench.graph, small)
    held = bench.graph.getTileMapping(small)
    assert [len(one) for one in held] == [1, 0, 0, 0, 0, 0, 0, 0]  # 128 bytes are 32 floats: one tile
    poputil.mapTensorLinearly(bench.graph, tensor)
    assert poputil.getTileImbalance(bench.graph, tensor) <= 2
    a, b = poputil.broadcastToMatch(bench.give(NUMBERS), bench.give(NUMBERS[:, :1]))
    assert a.shape() == b.shape() == [2, 3]
    assert poputil.templateVertex("Reduce", FLOAT, True, 3) == "Reduce<float,true,3>"
    parts = poputil.splitRegions([poplar.Interval(0, 10), poplar.Interval(20, 26)], 2, 3)
    assert [sum(i.size() for i in one) for one in parts] == [4, 6, 6]


@pytest.mark.parametrize(
    ("mistake", "error"),
    [
        (lambda b: popops.add(b.graph, b.give(NUMBERS), b.give(WHOLE), b.prog), poplar.type_error),
        (lambda b: popops.add(b.graph, b.give(NUMBERS), b.give(NUMBERS[:, :2]), b.prog), poplar.poplar_error),
        (lambda b: popops.add(b.graph, 1.0, 2.0, b.prog), poplar.poplar_error),
        (lambda b: popops.map(b.graph, expr._3, [b.give(NUMBERS)], b.prog), poplar.poplar_error),
        (lambda b: popops.exp(b.graph, b.give(NUMBERS), None), poplar.poplar_error),
        (
            lambda b: poprand.uniform(b.graph, b.give(NUMBERS), 0, b.give(NUMBERS), FLOAT, 0, 1, b.prog),
            poplar.poplar_error,
        ),
        (
            lambda b: popops.addInPlace(b.graph, b.graph.addConstant(FLOAT, [], 1.0), 1.0, b.prog),
            poplar.graph_connection_error,
        ),
        (lambda b: popops.exp(poplar.Graph(b.device), b.give(NUMBERS), b.prog), poplar.graph_connection_error),
    ],
)
def test_a_call_that_cannot_be_is_refused(bench, mistake, error):
    with pytest.raises(error):
        mistake(bench)


def test_what_is_left_of_linear_algebra_and_layers(bench):
    graph, prog = bench.graph, bench.prog
    generator = np.random.default_rng(4)
    square = generator.normal(size=(4, 4)).astype(np.float32)
    positive = square @ square.T + 4 * np.eye(4, dtype=np.float32)
    factor = poplin.cholesky(graph, bench.give(positive), True, prog)
    right = bench.give(generator.normal(size=(4, 2)).astype(np.float32))
    solved = poplin.triangularSolve(graph, factor, right, True, True, False, prog)
    logs = popnn.logSoftmax(graph, bench.give(square), prog)
    acts, biases = bench.give(np.zeros((2, 3, 2, 2), np.float32)), bench.give(np.arange(3, dtype=np.float32))
    poplin.addBias(graph, acts, biases, prog)
    rows, columns = poplin.meshgrid(graph, [bench.give(np.arange(2.0)), bench.give(np.arange(3.0))])
    even = poplin.linspace(graph, FLOAT, 0.0, 1.0, 5)
    copied = bench.give(np.zeros((2, 3), np.float32))
    popops.addWithOutput(graph, rows, columns, copied, prog)
    found = bench.read(factor, solved, logs, acts, copied, even, right)
    np.testing.assert_allclose(found[0] @ found[0].T, positive, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[0] @ found[1], found[6], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.exp(found[2]).sum(1), 1, rtol=1e-5)
    assert (found[3] == np.arange(3).reshape(1, 3, 1, 1)).all()
    assert found[4].tolist() == [[0, 1, 2], [1, 2, 3]]
    assert found[5].tolist() == [0, 0.25, 0.5, 0.75, 1]


def test_a_weight_update_subtracts_the_scaled_gradient(bench):
    params = poplin.ConvParams(FLOAT, 1, [4], [3], 1, 1)
    x, grad, weights = (bench.give(np.ones(shape, np.float32)) for shape in ((1, 1, 4), (1, 1, 2), (1, 1, 1, 3)))
    poplin.convolutionWeightUpdate(bench.graph, grad, weights, x, params, -0.5, bench.prog)
    assert bench.read(weights)[0].reshape(-1).tolist() == [0, 0, 0]  # 1 - 0.5 * 2


def test_a_plain_recurrent_layer_is_torchs(bench):
    torch.manual_seed(0)
    layer = torch.nn.RNN(3, 4)
    x = torch.randn(5, 2, 3)
    expected, _ = layer(x)
    operands = [
        bench.give(values.detach().numpy().copy())
        for values in (layer.weight_ih_l0.T, layer.weight_hh_l0.T, layer.bias_ih_l0 + layer.bias_hh_l0)
    ]
    state = bench.give(np.zeros((2, 4), np.float32))
    weights, feedback, biases = operands
    weighted = popnn.rnn.forwardWeightInput(bench.graph, bench.give(x.numpy()), weights, bench.prog)
    made = popnn.rnn.forwardIterate(bench.graph, weighted, state, feedback, biases, bench.prog)
    np.testing.assert_allclose(bench.read(made)[0], expected.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_a_loss_with_scales_is_refused(bench) -> None:
    probabilities, labels, loss, deltas = (bench.graph.addVariable(poplar.FLOAT, [2, 2], n) for n in "pqrs")
    with pytest.raises(TypeError, match="Scales of deltas and outputs are not offered"):
        popnn.calcLoss(bench.graph, probabilities, labels, loss, deltas, 2.0, 1.0, popnn.CROSS_ENTROPY_LOSS, bench.prog)
