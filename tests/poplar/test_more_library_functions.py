"""PopLibs' less usual functions against PyTorch and their formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as functional

import poplar
import poplin
import popnn
import popops
import poputil
from poplar import FLOAT, HALF, INT, UNSIGNED_CHAR
from poplar.program import Copy, Sequence
from poplin import ConvParams, multiconv

RANDOM = np.random.default_rng(11)


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("function", "combine"), [("multiUpdateMul", np.multiply), ("multiUpdateMax", np.maximum)])
@pytest.mark.parametrize("dimension", [0, 1])
def test_rows_are_multiplied_or_the_larger_kept_as_often_as_they_are_named(bench, function, combine, dimension) -> None:
    whole, rows = numbers(4, 4), np.array([[2], [0], [2]], np.uint32)
    new = numbers(3, 1, 4) if dimension == 0 else numbers(3, 4, 1)
    tensor = bench.give(whole)
    update = getattr(popops, function)
    update(bench.graph, tensor, bench.give(new), bench.give(rows), [dimension], [1], bench.prog)
    expected = whole.copy() if dimension == 0 else whole.T.copy()
    combine.at(expected, rows[:, 0], new.reshape(3, 4))
    np.testing.assert_allclose(bench.read(tensor)[0], expected if dimension == 0 else expected.T, rtol=1e-6)


@pytest.mark.parametrize("element", [UNSIGNED_CHAR, HALF, FLOAT])
def test_an_image_is_normalised_and_gets_a_fourth_channel(bench, element) -> None:
    pixels = RANDOM.integers(0, 256, (2, 3, 5, 3))
    wanted = FLOAT if element is FLOAT else HALF
    offsets, scales = np.array([0.5, 0.4, 0.3]), np.array([4.0, 2.0, 1.0])
    made = popops.normaliseImage(
        bench.graph, bench.prog, bench.give(pixels, element), 1 / 255, bench.give(offsets, wanted),
        bench.give(scales, wanted),
    )  # fmt: skip
    found = bench.read(made)[0]
    assert (made.elementType(), found.shape) == (wanted, (2, 3, 5, 4))
    np.testing.assert_allclose(found[..., :3], (pixels / 255 - offsets) * scales, atol=5e-3 if wanted is HALF else 1e-6)
    assert not found[..., 3].any()
    with pytest.raises(poplar.poplar_error, match="3 channels"):
        popops.createNormaliseImageInput(bench.graph, FLOAT, [2, 4])


@pytest.mark.parametrize("zero", [True, False])
def test_pieces_of_a_sequence_go_to_their_places(bench, zero) -> None:
    source, old = numbers(10, 2, 3), numbers(8, 6)
    sizes, starts, places = (np.array(one, np.uint32) for one in ([3, 2, 0], [6, 1, 9], [1, 6, 4]))
    out = bench.give(old)
    popops.sequenceSlice(
        bench.graph,
        bench.give(source),
        out,
        bench.give(sizes),
        bench.give(starts),
        bench.give(places),
        zero,
        bench.prog,
    )
    expected = np.zeros_like(old) if zero else old.copy()
    for size, start, place in zip(sizes, starts, places, strict=True):
        expected[place : place + size] = source[start : start + size].reshape(size, 6)
    np.testing.assert_array_equal(bench.read(out)[0], expected)


def b_spline(degree: int, x: float) -> float:
    """Cox and de Boor's recursion, over whole knots."""
    if degree == 0:
        return float(0 <= x < 1)
    rising, falling = b_spline(degree - 1, x) * x, b_spline(degree - 1, x - 1) * (degree + 1 - x)
    return (rising + falling) / degree


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("is_open", [(1, 1), (0, 1)])
def test_splines_are_those_of_the_recursion_and_weight_features(bench, degree, is_open) -> None:
    edges, sizes, splines = 5, [5, 6], (degree + 1) ** 2
    pseudo = RANDOM.uniform(0, 0.99, (edges, 2)).astype(np.float32)
    basis = bench.give(np.zeros((edges, splines), np.float32))
    index = bench.give(np.zeros((edges, splines), np.int32))
    popops.splineBasis(
        bench.graph, bench.give(pseudo), bench.give(np.array(sizes), INT), bench.give(is_open, UNSIGNED_CHAR), basis,
        index, degree, bench.prog,
    )  # fmt: skip
    features, weights = numbers(edges, 3), numbers(30, 3, 4)
    out = popops.splineWeighting(bench.graph, bench.give(features), bench.give(weights), basis, index, bench.prog)
    values, places, weighted = bench.read(basis, index, out)
    for edge in range(edges):
        for spline in range(splines):
            value, place, stride = 1.0, 0, 1
            for dimension, step in enumerate((spline % (degree + 1), spline // (degree + 1))):
                knot = pseudo[edge, dimension] * (sizes[dimension] - degree * is_open[dimension])
                value *= b_spline(degree, knot - np.floor(knot) + degree - step)
                place += (int(knot) + step) % sizes[dimension] * stride
                stride *= sizes[dimension]
            assert values[edge, spline] == pytest.approx(value, abs=1e-5)
            assert places[edge, spline] == place
    np.testing.assert_allclose(values.sum(1), 1, atol=1e-5)
    expected = np.einsum("es,ei,esio->eo", values, features, weights[places])
    np.testing.assert_allclose(weighted, expected, rtol=1e-4, atol=1e-5)


def test_several_convolutions_at_once_are_those_one_by_one(bench) -> None:
    kinds = [ConvParams(FLOAT, 2, [6, 6], [3, 3], 2, 4), ConvParams(FLOAT, 1, [5], [2], 3, 1, stride=[2])]
    images, kernels = [numbers(2, 2, 6, 6), numbers(1, 3, 5)], [numbers(1, 4, 2, 3, 3), numbers(1, 1, 3, 2)]
    given, weights = [bench.give(one) for one in images], [bench.give(one) for one in kernels]
    args = [multiconv.ConvolutionArgs(*one) for one in zip(given, weights, kinds, strict=True)]
    made = multiconv.convolution(bench.graph, args, False, bench.prog)
    w = [torch.from_numpy(one[0]).requires_grad_() for one in kernels]
    first = functional.conv2d(torch.from_numpy(images[0]), w[0])
    second = functional.conv1d(torch.from_numpy(images[1]), w[1], stride=2)
    change = [numbers(*first.shape), numbers(*second.shape)]
    torch.autograd.backward([first, second], [torch.from_numpy(one) for one in change])
    deltas = [bench.give(one) for one in change]
    wanted = [multiconv.CalculateWeightDeltasArgs(*one) for one in zip(deltas, given, kinds, strict=True)]
    grads = multiconv.calculateWeightDeltas(bench.graph, wanted, bench.prog)
    updates = [
        multiconv.ConvWeightUpdateArgs(delta, weight, image, -0.5, kind)
        for delta, weight, image, kind in zip(deltas, weights, given, kinds, strict=True)
    ]
    multiconv.convolutionWeightUpdate(bench.graph, updates, bench.prog)
    found = bench.read(*made, *grads, *weights)
    expected = [first, second, *(one.grad[None] for one in w), *((one - 0.5 * one.grad)[None] for one in w)]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other.detach(), rtol=1e-4, atol=1e-5)
    create = [multiconv.CreateTensorArgs(kind) for kind in kinds]
    assert multiconv.createInput(bench.graph, create, 1).shape() == [1, 3, 5]
    assert multiconv.createWeights(bench.graph, create, 0).shape() == [1, 4, 2, 3, 3]
    with pytest.raises(poplar.poplar_error, match="no number 2"):
        poplin.multiconv.createInput(bench.graph, create, 2)


@pytest.mark.parametrize("disabled", [False, True])
def test_the_expected_place_in_a_field(bench, disabled) -> None:
    fields = np.abs(numbers(2, 3, 4))
    made, temperature = popnn.spatialSoftMax2D(bench.graph, bench.prog, bench.give(fields), 0.5, disabled)
    found, held = bench.read(made, temperature)
    flat = torch.from_numpy(fields).reshape(2, -1)
    shares = (flat if disabled else torch.softmax(flat / 0.5, 1)).reshape(2, 3, 4).numpy()
    down = (shares.sum(2) * np.linspace(-1, 1, 3)).sum(1)
    across = (shares.sum(1) * np.linspace(-1, 1, 4)).sum(1)
    np.testing.assert_allclose(found, np.stack([down, across], 1), rtol=1e-5, atol=1e-6)
    assert float(held) == 0.5


def test_a_first_value_is_there_when_a_program_is_loaded_and_may_change(device, graph) -> None:
    counter = graph.addVariable(FLOAT, [2], "counter")
    graph.setTileMapping(counter, 0)
    graph.setInitialValue(counter, [3.0, 4.0])
    graph.createHostRead("counter", counter)
    prog = Sequence()
    popops.addInPlace(graph, counter, 1.0, prog)
    engine = poplar.Engine(graph, prog)
    engine.load(device)
    assert engine.readTensor("counter").tolist() == [3, 4]
    engine.run()
    engine.run()
    assert engine.readTensor("counter").tolist() == [5, 6]
    with pytest.raises(poplar.graph_connection_error, match="one whole variable"):
        graph.setInitialValue(counter[0], 1.0)
    with pytest.raises(poplar.graph_connection_error, match="3 values for a variable of 2"):
        graph.setInitialValue(counter, [1.0, 2.0, 3.0])


def test_utilities_tell_how_tensors_lie_and_fit(bench):
    graph = bench.graph
    t = graph.addVariable(FLOAT, [4, 8], "t")
    for row in range(4):
        graph.setTileMapping(t[row], row)
    assert poputil.dimIsSplitOverTiles(graph, t, 0)
    assert not poputil.dimIsSplitOverTiles(graph, t, 1)
    assert not poputil.dimIsSplitOverIPUs(graph, t, 0)
    assert poputil.canBroadcastToMatch(t, t[0])
    assert not poputil.canBroadcastToMatch(t, t.transpose())
    assert [one.shape() for one in poputil.expandToMatchRanks(t, t[0])] == [[4, 8], [1, 8]]
    assert poputil.balancedPartition(10, 4) == [2, 3, 2, 3]
    merged = poputil.mergeAdjacentRegions([poplar.Interval(4, 6), poplar.Interval(0, 2), poplar.Interval(2, 4)])
    assert [(one.begin, one.end) for one in merged] == [(0, 6)]
    assert poputil.intervalSequenceNumElements([merged, merged]) == 12
    assert poputil.cloneN(graph, t, 3).shape() == [3, 4, 8]


@pytest.mark.parametrize(("numbers", "first", "after"), [((3,), 3, 5), ((32, 8, 3), 3, 5), ((3, False), 3, 1)])
def test_a_linear_mapping_begins_at_a_tile(bench, numbers, first, after):
    t = bench.graph.addVariable(FLOAT, [64], "t")  # 128 bytes a tile at least: two tiles
    assert poputil.mapTensorLinearlyWithOffset(bench.graph, t, *numbers) == after
    assert bench.graph.getTileMapping(t)[first][0].begin == 0


def test_graph_functions_are_written_once_and_called_with_other_tensors(bench):
    from poputil import graphfn

    x, y = bench.give(np.array([1.0, 2.0], np.float32)), bench.give(np.array([10.0, 20.0], np.float32))
    graph, prog = bench.graph, bench.prog

    def add(args, body):
        popops.addInPlace(graph, args[1], args[0], body)
        args[2] = popops.mul(graph, args[0], 2.0, body)

    function = graphfn.VoidFunction(graph, [graphfn.input(x), graphfn.inout(y), graphfn.created()], add)
    arguments = [x, y, None]
    function(arguments, prog)
    product = graphfn.TensorFunction(
        graph, [graphfn.input(x), graphfn.input(y)], lambda args, body: popops.mul(graph, *args, body)
    )
    again = product([x, y], prog)
    whole = graphfn.ProgramFunction(graph, [graphfn.inout(x)], lambda args: Copy(args[0], args[0]), True)
    prog.add(whole([x]))
    found = bench.read(y, arguments[2], again)
    assert [one.tolist() for one in found] == [[11, 22], [2, 4], [11, 44]]
    with pytest.raises(poplar.poplar_error, match="takes 3 arguments, not 1"):
        function([x], prog)


def test_rows_that_are_masked_or_outside_say_so(bench):
    x = bench.give(np.arange(8, dtype=np.float32).reshape(4, 2))
    labels = bench.give(np.array([1, popops.MASKED_LABEL_CODE, 2, 0], np.uint32))
    chosen = popops.selectScalarFromRows(bench.graph, x, labels, bench.prog)
    popops.updateScalarInRows(bench.graph, x, labels, bench.prog)
    picked, changed = bench.read(chosen, x)
    np.testing.assert_array_equal(picked, [1, 0, np.nan, 6])
    np.testing.assert_array_equal(changed, [[0, 0], [2, 3], [np.nan, np.nan], [5, 7]])


def test_windows_are_held_at_the_edge_and_their_sizes_are_checked(bench):
    x = bench.give(np.arange(12, dtype=np.float32).reshape(3, 4))
    places = bench.give(np.array([[2, 3]], np.uint32))
    held = popops.gather(bench.graph, x, places, 1, [1, 2], [2, 2], [], [0, 1], bench.prog)
    column = popops.gather(bench.graph, x, places, 1, [0], [3, 1], [1], [0, 1], bench.prog)
    found = bench.read(held, column)
    assert found[0].tolist() == [[[6, 7], [10, 11]]]
    assert found[1].tolist() == [[3], [7], [11]]
    with pytest.raises(poplar.poplar_error, match="slices of"):
        popops.gather(bench.graph, x, places, 1, [1, 2], [4, 2], [], [0, 1], bench.prog)
    with pytest.raises(poplar.poplar_error, match="offsetDims 1"):
        popops.gather(bench.graph, x, places, 1, [1], [2, 2], [], [0, 1], bench.prog)
    with pytest.raises(poplar.poplar_error, match="are not the 2 of the tensor"):
        popops.scatter(bench.graph, x, places, x, 1, [0, 1], [0], [0, 1], bench.prog)


def test_padding_needs_what_it_pads_with(bench):
    x = bench.give(np.arange(4, dtype=np.float32))
    with pytest.raises(poplar.poplar_error, match="cannot be reflected"):
        popops.pad(x, [4], [0], popops.padding.Type.REFLECT)
    with pytest.raises(poplar.poplar_error, match="needs the graph"):
        popops.pad(x, [4], [0], 1.0)
    with pytest.raises(poplar.poplar_error, match="do not fit the 1 dimensions"):
        popops.pad(bench.graph, x, [4, 1], [0, 0], 1.0)


@pytest.mark.parametrize(("begin", "limit", "step", "expected"), [(2, 8, 3, [2, 5]), (5, 1, -2, [5, 3]), (3, 3, 1, [])])
@pytest.mark.parametrize("known", [True, False])
def test_a_loop_counts_up_to_a_limit_that_may_be_a_tensor(bench, begin, limit, step, expected, known):
    graph = bench.graph
    total, counter = bench.give(np.array([0], np.int32)), bench.give(np.array([0], np.int32))
    times = bench.give(np.array([0], np.int32))
    body = Sequence()
    popops.addInPlace(graph, total, counter, body)
    popops.addInPlace(graph, times, 1, body)
    bound = limit if known else bench.give(np.array([limit], np.int32))
    bench.prog.add(popops.countedForLoop(graph, counter, begin, bound, step, body))
    found = bench.read(total, times)
    assert [one.item() for one in found] == [sum(expected), len(expected)]


def test_regions_come_in_the_order_of_memory(bench):
    t = bench.graph.addVariable(FLOAT, [2, 4], "t")
    turned = t.reverse(0).flatten()  # elements 4 to 7, then 0 to 3
    found = bench.graph.getSortedContiguousRegions(turned, [poplar.Interval(0, 8)])
    assert found == [[(4, 8), (0, 4)]]
    assert bench.graph.getSortedContiguousRegions(turned, [poplar.Interval(0, 2), poplar.Interval(5, 6)]) == [
        [(5, 6)],
        [(0, 2)],
    ]


def test_non_linearities_have_names_and_places_have_numbers(bench):
    x = bench.give(np.array([-1.0, 2.0], np.float32))
    positive, copied = popnn.relu(bench.graph, x, bench.prog), popnn.sigmoid(bench.graph, x, bench.prog)
    popnn.tanhInPlace(bench.graph, x, bench.prog)
    found = bench.read(positive, copied, x)
    np.testing.assert_allclose(found[0], [0, 2])
    np.testing.assert_allclose(found[1], 1 / (1 + np.exp([1.0, -2.0])), rtol=1e-6)
    np.testing.assert_allclose(found[2], np.tanh([-1.0, 2.0]), rtol=1e-6)
    assert poputil.flattenIndex([2, 3, 4], [1, 2, 3]) == 23
    assert poputil.unflattenIndex([2, 3, 4], 23) == [1, 2, 3]
