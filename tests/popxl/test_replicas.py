"""Several replicas: groups, collectives, sharded variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import popxl
from popxl import ops
from popxl.ops import collectives

DATA = np.arange(4 * 6, dtype=np.float32).reshape(4, 6)


def run(build: Any, data: Any = DATA, replicas: int = 4) -> list[Any]:
    """What `build` makes of each replica's row of `data`."""
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph:
        source = popxl.h2d_stream(data.shape[1:], popxl.float32)
        made = build(ir, ops.host_load(source))
        tensors = list(made) if isinstance(made, list | tuple) else [made]
        targets = [popxl.d2h_stream(t.shape, t.dtype) for t in tensors]
        for target, tensor in zip(targets, tensors, strict=True):
            ops.host_store(target, tensor)
    with popxl.Session(ir, "ipu_model") as session:
        found = session.run({source: data})
    return [found[target] for target in targets]


@pytest.mark.parametrize(
    ("stride", "size", "groups"),
    [(1, None, [[0, 1, 2, 3]]), (1, 2, [[0, 1], [2, 3]]), (2, 2, [[0, 2], [1, 3]]), (1, 1, [[0], [1], [2], [3]])],
)
def test_groups_reduce_among_themselves(stride: int, size: int | None, groups: list[list[int]]) -> None:
    def build(ir: Any, x: Any) -> Any:
        group = ir.replica_grouping(stride, size)
        assert group.members == groups
        names = ("add", "mean", "max", "min")
        return [collectives.replicated_all_reduce(x, name, group) for name in names]

    found = run(build)
    expected = np.empty((4, 4, 6), np.float32)
    for members in groups:
        rows = DATA[members]
        for place, value in enumerate((rows.sum(0), rows.mean(0), rows.max(0), rows.min(0))):
            expected[place, members] = value
    for array, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(array, wanted)


def test_shares_are_scattered_and_gathered() -> None:
    def build(ir: Any, x: Any) -> Any:
        share = collectives.replicated_reduce_scatter(x, "add", configure_output_for_replicated_tensor_sharding=True)
        assert (share.shape, share.meta_shape) == ((2,), (6,))
        whole = collectives.replicated_all_gather(share)
        return share, whole, collectives.replicated_all_gather(x, output_shape="new_axis")

    share, whole, rows = run(build)
    total = DATA.sum(0)
    np.testing.assert_allclose(share, np.pad(total, (0, 2)).reshape(4, 2))
    np.testing.assert_allclose(whole, np.tile(total, (4, 1)))
    np.testing.assert_allclose(rows, np.tile(DATA, (4, 1, 1)))


def test_a_slice_goes_to_each_replica() -> None:
    square = np.arange(4 * 2 * 4, dtype=np.float32).reshape(4, 2, 4)

    def build(ir: Any, x: Any) -> Any:
        pairs = ir.replica_grouping(1, 2)
        return collectives.replicated_slice(x, 1), collectives.replicated_slice(x, 0, pairs)

    columns, rows = run(build, square)
    np.testing.assert_allclose(columns, np.stack([square[place, :, place] for place in range(4)]))
    np.testing.assert_allclose(rows, np.stack([square[place, place % 2] for place in range(4)]))
    ir = popxl.Ir(replication=4)
    with ir.main_graph, pytest.raises(ValueError, match="must equally divide axis"):
        collectives.replicated_slice(popxl.variable(DATA), 1)


def test_gradients_of_exchanges_are_exchanges(evaluate: Any) -> None:
    def build(ir: Any, x: Any) -> Any:
        graph = ir.create_graph(lambda x: collectives.replicated_all_reduce(x) * x, x)
        call = ops.call_with_info(graph, x)
        info = popxl.transforms.autodiff(graph)
        seed = popxl.constant(np.ones(6, np.float32))
        return ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call))

    (found,) = run(build)
    np.testing.assert_allclose(found, DATA.sum(0) + np.tile(DATA.sum(0), (4, 1)))


@pytest.mark.parametrize("form", ["concat", "new_axis"])
def test_the_gradient_of_a_gather_is_the_replicas_own_share(form: Any) -> None:
    def build(ir: Any, x: Any) -> Any:
        graph = ir.create_graph(lambda x: collectives.replicated_all_gather(x, 1, output_shape=form), x)
        info = popxl.transforms.autodiff(graph)
        (whole,) = ops.call(graph, x)
        return ops.call(info.graph, whole)

    data = DATA.reshape(4, 2, 3)
    (found,) = run(build, data)
    np.testing.assert_allclose(found, data)


def test_variables_have_a_value_for_each_group() -> None:
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        pairs = ir.replica_grouping(stride=2, group_size=2)
        assert pairs.transpose().members == [[0, 1], [2, 3]]
        values = np.array([[1, 2], [30, 40]], np.float32)
        x = popxl.variable(values, replica_grouping=pairs)
        every = popxl.variable(np.zeros(2, np.float32), retrieval_mode="all_replicas")
        assert (x.shape, x.shape_on_host) == ((2,), (2, 2))
        source = popxl.h2d_stream((2,), popxl.float32)
        ops.add_(x, popxl.constant(1.0, popxl.float32))
        ops.add_(every, ops.host_load(source))
        target = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(target, x)
        with pytest.raises(ValueError, match="number of groups"):
            popxl.variable(np.ones((3, 2)), replica_grouping=pairs)
    data = np.arange(8, dtype=np.float32).reshape(4, 2)
    with popxl.Session(ir, "ipu_model") as session:
        found = session.run({source: data})[target]
        np.testing.assert_allclose(found, values[[0, 1, 0, 1]] + 1)
        np.testing.assert_allclose(session.get_tensor_data(x), values + 1)
        np.testing.assert_allclose(session.get_tensor_data(every), data)
        session.write_variable_data(x, values * 0)
        np.testing.assert_allclose(session.run({source: data})[target], np.ones((4, 2)))
        with pytest.raises(NotImplementedError, match="all_replicas"):
            session.write_variable_data(every, np.zeros(2, np.float32))


@pytest.mark.parametrize("remote", [False, True])
def test_shares_of_a_variable_live_on_replicas(remote: bool) -> None:
    ir = popxl.Ir(replication=2)
    values = np.arange(5, dtype=np.float32)
    with ir.main_graph:
        if remote:
            buffer = popxl.replica_sharded_buffer((5,), popxl.float32)
            whole = popxl.remote_replica_sharded_variable(values, buffer)
            share = ops.remote_load(buffer, 0)
        else:
            whole, share = popxl.replica_sharded_variable(values)
        assert (share.shape, share.meta_shape) == ((3,), (5,))
        ops.var_updates.accumulate_(share, popxl.constant(np.ones(3, np.float32)))
        if remote:
            ops.remote_store(buffer, 0, share)
        joined = collectives.replicated_all_gather(share)
        target = popxl.d2h_stream((5,), popxl.float32)
        ops.host_store(target, joined)
    with popxl.Session(ir, "ipu_model") as session:
        for step in range(2):
            found = session.run()[target]
            np.testing.assert_allclose(found, np.tile(values + 1 + step, (2, 1)))
    np.testing.assert_allclose(session.get_tensor_data(whole), values + 2)
    alone = popxl.Ir()
    with alone.main_graph, pytest.raises(ValueError, match="must be greater than 1"):
        popxl.replica_sharded_variable(values)


def test_groups_that_cannot_be_are_refused() -> None:
    ir = popxl.Ir(replication=4)
    for stride, size, what in (
        (0, 1, "stride is between 1"),
        (3, 1, "factor of the number"),
        (1, 5, "size is between 1"),
    ):
        with pytest.raises(ValueError, match=what):
            ir.replica_grouping(stride, size)
    uneven = ir.replica_grouping_from_assignments([0, 1, 1, 0])
    assert not uneven.is_const
    assert uneven.members == [[0, 3], [1, 2]]
    with pytest.raises(NotImplementedError, match="non-constant stride"):
        _ = uneven.stride
    for assignment, what in (
        ([0, 0, 0, 1], "as many members"),
        ([1, 1, 0, 0], "order of their numbers"),
        ([0, 1], "2 entries for 4"),
    ):
        with pytest.raises(ValueError, match=what):
            ir.replica_grouping_from_assignments(assignment)


def test_tensors_of_several_ipus_are_reduced(evaluate: Any) -> None:
    def build(x: Any) -> Any:
        with popxl.ipu(1):
            y = ops.relu(x.copy_to_ipu(1, 0))
        both = collectives.all_reduce([ops.relu(x), y])
        assert [t.ipu for t in both] == [0, 1]
        same = collectives.all_reduce_identical_inputs([ops.relu(x), y])
        return [both[0], both[1].copy_to_ipu(0), same[0]]

    first, second, same = evaluate(build, DATA)
    np.testing.assert_allclose(first, DATA * 2)
    np.testing.assert_allclose(second, DATA * 2)
    np.testing.assert_allclose(same, DATA)
