"""Routing tensors through calls, counting operations, options of ops, groups of replicas."""

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.graph_surgery import list_ops
from popxl_addons.named_replica_grouping import (
    NamedReplicaGrouping,
    fill_none_group,
    get_ild_replica_grouping,
    get_instance_replica_grouping,
    is_cross_ild,
    is_cross_instance,
)
from popxl_addons.patterns import apply_pre_alias_patterns
from popxl_addons.rts import replica_sharded_spec
from popxl_addons.utils import OrderedDict, suffix_graph_name, timer


def test_a_tensor_is_routed_through_calls_and_loops():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence(True):
        total = popxl.variable(np.zeros((), np.float32), name="total")
        inner = ir.create_empty_graph("inner")
        outer = ir.create_empty_graph("outer")
        with outer:
            ops.call(inner)
            ops.call(inner)
        ops.repeat(outer, 3)
        with inner:
            here = addons.route_tensor_into_graph(total, modified=True)
            assert addons.route_tensor_into_graph(total, modified=True) is here
            ops.var_updates.accumulate_(here, popxl.constant(1, popxl.float32))
        assert addons.route_tensor_into_graph(total) is total
        assert addons.is_subgraph(ir.main_graph, inner)
        other = ir.create_empty_graph("other")
        with other, pytest.raises(ValueError, match="nor in a graph"):
            addons.route_tensor_into_graph(total)
    with popxl.Session(ir, "ipu_hw") as session:
        session.run()
        assert session.get_tensor_data(total) == 6


def test_operations_are_counted_through_calls_and_loops(capsys):
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        x = popxl.variable(np.ones((3, 4), np.float32))
        w = popxl.variable(np.ones((4, 4), np.float32))
        y = x @ w + 1.0
        graph = ir.create_graph(lambda x, w: x @ w, y, w)
        ops.repeat(graph, 5, y, w)
    product = 2 * 4 * 12
    assert addons.evaluate_FLOPs(ir.main_graph)["TOT"] == 6 * product + 12
    assert addons.total_FLOPs(ir) == 2 * (6 * product + 12)
    for mode in ("type", "flat"):
        addons.print_FLOPs(addons.evaluate_ir_FLOPs(ir), mode)
        assert "MatMul" in capsys.readouterr().out
    assert addons.format_flops_scientific(9072) == "9.072E+03"
    assert addons.format_flops_scientific(900) == "0.900E+03"
    assert addons.format_flops_scientific(2.5e9, "T") == "0.003E+12"


def test_memory_proportions_by_ipu():
    ir = popxl.Ir()
    with ir.main_graph:
        for place in range(2):
            with popxl.ipu(place):
                x = popxl.variable(np.ones((2, 2), np.float32))
                ops.matmul(x, x, available_memory_proportion=0.6)
    addons.set_available_memory_proportion_by_ipu(ir, [0.1, 0.2])
    products = [op for op in list_ops(ir.main_graph) if op.kind == "MatMul"]
    assert [op.attributes["available_memory_proportion"] for op in products] == [0.1, 0.2]
    addons.set_graph_available_memory_proportion_by_ipu(ir.main_graph, [0.3])
    assert [op.attributes["available_memory_proportion"] for op in products] == [0.3, 0.3]


def test_parts_of_groups():
    ir = popxl.Ir(replication=8)
    with ir.main_graph, pytest.MonkeyPatch.context() as patch:
        everyone = ir.replica_grouping()
        assert get_instance_replica_grouping() == everyone
        assert not is_cross_instance(everyone)
        patch.setenv("POPLAR_TARGET_OPTIONS", '{"ipuLinkDomainSize": "4"}')
        assert is_cross_ild(everyone)
        assert get_ild_replica_grouping(ir.replica_grouping(stride=2)).group_size == 2
        patch.setenv("POPLAR_TARGET_OPTIONS", '{"ipuLinkDomainSize": "2"}')
        with pytest.raises(ValueError, match="stride"):
            get_ild_replica_grouping(ir.replica_grouping(stride=4))
        pair = ir.replica_grouping(group_size=2)
        assert fill_none_group(None, pair) is pair
        assert NamedReplicaGrouping.build_groups(["a.b"], pair).a.b == pair


def test_forms_of_shards():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        even = popxl.TensorSpec((2, 4), popxl.float32)
        odd = popxl.TensorSpec((3, 3), popxl.float32)
        group = ir.replica_grouping()
        assert replica_sharded_spec(even, group) == popxl.TensorSpec((2,), popxl.float32, (2, 4))
        assert replica_sharded_spec(odd, group) == odd
        assert replica_sharded_spec(even, threshold=9) == even
        assert replica_sharded_spec(even, ir.replica_grouping(group_size=1)) == even
        with pytest.raises(ValueError, match="9 elements do not divide"):
            addons.create_remote_buffer(odd)
        buffer = addons.create_remote_buffer(even, entries=3, shard_over=2)
        assert (buffer.tensor_shape, buffer.meta_shape, buffer.entries) == ((4,), (2, 4), 3)


def test_small_helpers(caplog):
    with caplog.at_level("INFO"), timer("Work"):
        pass
    assert "Work duration" in caplog.text
    ordered = OrderedDict(a=1, b=2)
    assert ordered.idx(1) == 2
    assert repr(ordered) == "{\na: 1,\nb: 2,\n}"
    assert suffix_graph_name("Net_subgraph(3)", "grad") == "Net_grad"
    apply_pre_alias_patterns(popxl.Ir(), "all")
    with pytest.raises(KeyError):
        apply_pre_alias_patterns(popxl.Ir(), "most")
