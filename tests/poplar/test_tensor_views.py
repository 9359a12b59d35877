"""Views against numpy: every view of a tensor names the elements that numpy's does."""

from __future__ import annotations

import numpy as np
import pytest

import poplar
from poplar import FLOAT, HALF, INT, Interval


@pytest.fixture
def pair(graph):
    """A tensor, and its element numbers as numpy has them."""
    return graph.addVariable(FLOAT, [2, 3, 4], "t"), np.arange(24).reshape(2, 3, 4)


VIEWS = {
    "index": (lambda t: t[1], lambda a: a[1]),
    "two indices": (lambda t: t[1][2], lambda a: a[1][2]),
    "tuple": (lambda t: t[1, :, 3], lambda a: a[1, :, 3]),
    "slice": (lambda t: t.slice(1, 3, 1), lambda a: a[:, 1:3]),
    "slice of all": (lambda t: t.slice([0, 1, 2], [1, 3, 4]), lambda a: a[0:1, 1:3, 2:4]),
    "interval": (lambda t: t.slice(Interval(1, 2), dimension=2), lambda a: a[:, :, 1:2]),
    "step": (lambda t: t[0, 0, ::2], lambda a: a[0, 0, ::2]),
    "flatten": (lambda t: t.flatten(), lambda a: a.reshape(-1)),
    "flatten part": (lambda t: t.flatten(1, 3), lambda a: a.reshape(2, 12)),
    "reshape": (lambda t: t.reshape([4, 6]), lambda a: a.reshape(4, 6)),
    "reshape partial": (lambda t: t.reshapePartial(2, 3, [2, 2]), lambda a: a.reshape(2, 3, 2, 2)),
    "shuffle": (lambda t: t.dimShuffle([2, 0, 1]), lambda a: a.transpose(2, 0, 1)),
    "shuffle partial": (lambda t: t.dimShufflePartial([0], [2]), lambda a: a.transpose(1, 2, 0)),
    "roll": (lambda t: t.dimRoll(2, 0), lambda a: a.transpose(2, 0, 1)),
    "transpose": (lambda t: t[0].transpose(), lambda a: a[0].T),
    "reshape of a transpose": (lambda t: t[0].transpose().flatten(), lambda a: a[0].T.reshape(-1)),
    "reverse": (lambda t: t.reverse(1), lambda a: a[:, ::-1]),
    "subsample": (lambda t: t.subSample(2, 2), lambda a: a[:, :, ::2]),
    "broadcast": (lambda t: t[0][0].expand([0]).broadcast(3, 0), lambda a: np.tile(a[0, 0], (3, 1))),
    "broadcast of several": (lambda t: t[0].broadcast(2, 0), lambda a: np.tile(a[0], (2, 1))),
    "upsample": (lambda t: t[0][0].upsample(2, 0), lambda a: np.repeat(a[0, 0], 2)),
    "expand": (lambda t: t.expand([0, 3]), lambda a: a.reshape(1, 2, 3, 4, 1)),
    "squeeze": (lambda t: t[:, :1].squeeze([1]), lambda a: a[:, 0]),
    "concat": (lambda t: poplar.concat(t[0], t[1], 1), lambda a: np.concatenate([a[0], a[1]], 1)),
    "concat of a list": (lambda t: poplar.concat([t[1], t[0]]), lambda a: np.concatenate([a[1], a[0]])),
    "slice of a concat": (lambda t: poplar.concat(t[1], t[0])[2:5], lambda a: np.concatenate([a[1], a[0]])[2:5]),
    "append": (lambda t: poplar.append(t[0], t[1][0]), lambda a: np.concatenate([a[0], a[1][:1]])),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_names_the_elements_that_numpy_names(pair, name):
    tensor, array = pair
    ours, theirs = VIEWS[name]
    expected = theirs(array)
    found = ours(tensor)
    assert found.shape() == list(expected.shape)
    assert (found.addresses() == expected).all()


def test_views_of_a_view_follow_numpy_at_any_depth(graph):
    generator = np.random.default_rng(0)
    for _ in range(300):
        tensor, array = graph.addVariable(FLOAT, [2, 3, 4], "t"), np.arange(24).reshape(2, 3, 4)
        start = int(tensor.addresses().reshape(-1)[0])
        for _ in range(4):
            choice = generator.integers(5)
            axis = int(generator.integers(array.ndim))
            if choice == 0:
                order = generator.permutation(array.ndim).tolist()
                tensor, array = tensor.dimShuffle(order), array.transpose(order)
            elif choice == 1:
                tensor, array = tensor.reverse(axis), np.flip(array, axis)
            elif choice == 2:
                low = int(generator.integers(array.shape[axis]))
                tensor = tensor.slice(low, array.shape[axis], axis)
                array = array.take(range(low, array.shape[axis]), axis)
            elif choice == 3:
                tensor, array = tensor.flatten().expand([0]), array.reshape(1, -1)
            else:
                shape = [array.shape[0], array.size // array.shape[0], 1]
                tensor, array = tensor.reshape(shape), array.reshape(shape)
        assert (tensor.addresses() - start == array).all()


def test_regions_are_runs_of_neighbouring_elements(pair):
    tensor, _ = pair
    assert tensor.getContiguousRegions() == [Interval(0, 24)]
    assert tensor[0].transpose().getContiguousRegions()[:2] == [Interval(0, 1), Interval(1, 2)]
    assert tensor.slice(0, 2, 2).getContiguousRegions()[0] == Interval(0, 2)
    assert tensor.isContiguous()
    assert not tensor[0].transpose().isContiguous()


def test_aliases_and_constants_cannot_be_written_in_parallel(graph):
    tensor = graph.addVariable(FLOAT, [4], "t")
    constant = graph.addConstant(FLOAT, [2], [1.0, 2.0])
    assert tensor.isParallelWriteable()
    assert tensor.broadcast(2, 0).containsAliases()
    assert not tensor.broadcast(2, 0).isParallelWriteable()
    assert not poplar.concat(tensor, constant).isParallelWriteable()


def test_a_view_can_be_read_as_another_type_of_the_same_size(graph, run):
    number = graph.addConstant(FLOAT, [1], [1.0])
    graph.setTileMapping(number, 0)
    result = graph.addVariable(INT, [1], "bits")
    graph.setTileMapping(result, 0)
    graph.createHostRead("bits", result)
    engine = run(graph, poplar.program.Copy(number.reinterpret(INT), result))
    assert engine.readTensor("bits")[0] == 0x3F800000


@pytest.mark.parametrize(
    ("mistake", "error"),
    [
        (lambda t: t[2], poplar.index_error),
        (lambda t: t.slice(2, 5, 1), poplar.index_error),
        (lambda t: t.slice(2, 1, 1), poplar.index_error),
        (lambda t: t.reshape([5, 5]), poplar.poplar_error),
        (lambda t: t.transpose(), poplar.poplar_error),
        (lambda t: t.dimShuffle([0, 0, 1]), poplar.poplar_error),
        (lambda t: t.squeeze([0]), poplar.poplar_error),
        (lambda t: t.dim(3), poplar.index_error),
        (lambda t: t.reinterpret(HALF), poplar.type_error),
        (lambda t: poplar.concat([t, t[0]]), poplar.poplar_error),
        (lambda t: poplar.concat([t, t.graph.addVariable(INT, [2, 3, 4])]), poplar.type_error),
    ],
)
def test_a_view_that_cannot_be_is_refused(pair, mistake, error):
    with pytest.raises(error):
        mistake(pair[0])
