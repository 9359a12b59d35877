"""Layers that replicas have parts of give what one device gives, with the gradients."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.array_munging import repeat, shard, unshard
from popxl_addons.layers import Embedding
from popxl_addons.layers.layer_norm_distributed import LayerNormDistributed
from popxl_addons.layers.linear_gq import LinearGQ
from popxl_addons.ops.cross_entropy_sharded_loss import cross_entropy_sharded_loss
from popxl_addons.ops.cross_entropy_sharded_wr_loss import cross_entropy_sharded_wr_loss
from popxl_addons.ops.grad_reduce_square_add import grad_reduce_square_add
from popxl_addons.ops.group_quantize_decompress import (
    group_quantize_compress_numpy,
    group_quantize_decompress,
    group_quantize_decompress_numpy,
)
from popxl_addons.ops.replicated_all_reduce_TP import (
    replicated_all_reduce_identical_grad_inputs,
    replicated_all_reduce_identical_inputs,
)
from popxl_addons.ops.rotary_pos_embed import rotary_pos_embed, trig_tables
from popxl_addons.ops.static_sparse_ops import dense_const_sparse_matmul, random_sparse

REPLICAS = 4
RNG = np.random.default_rng(0)


def differentiate(function, *inputs, dy, replicas=1):
    """Outputs and gradients of a function of arrays, with a first dimension for the replicas if there are several."""
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence(True):
        each = ir.replica_grouping(group_size=1)
        ts = [popxl.variable(x, replica_grouping=each) for x in inputs]
        graph = ir.create_graph(function, *ts)
        floats = [t for t in graph.inputs if t.dtype == popxl.float32]
        gradient = addons.autodiff(graph, grads_required=floats)
        info = ops.call_with_info(graph, *ts)
        given = popxl.variable(dy, replica_grouping=each)
        results = gradient.call(given, args=gradient.grad_graph_info.inputs_dict(info))
        streams = [addons.host_store(t) for t in (info.outputs[0], *results)]
    with popxl.Session(ir, "ipu_hw") as session:
        out = session.run()
    return [out[stream] for stream in streams]


def test_a_product_in_columns_and_rows():
    """The two products of a tensor parallel layer, with the all-reduce that each direction needs."""
    x, dy = RNG.normal(size=(3, 8)).astype(np.float32), RNG.normal(size=(3, 8)).astype(np.float32)
    w1, w2 = (RNG.normal(size=(8, 8)).astype(np.float32) for _ in range(2))

    def layer(x, w1, w2):
        x = replicated_all_reduce_identical_inputs(x)
        return replicated_all_reduce_identical_grad_inputs(ops.relu(x @ w1) @ w2)

    y, dx, dw1, dw2 = differentiate(
        layer,
        repeat(x, REPLICAS),
        shard(w1, REPLICAS, 1),
        shard(w2, REPLICAS, 0),
        dy=repeat(dy, REPLICAS),
        replicas=REPLICAS,
    )
    tx, tw1, tw2 = (torch.tensor(a, requires_grad=True) for a in (x, w1, w2))
    ty = torch.relu(tx @ tw1) @ tw2
    ty.backward(torch.tensor(dy))
    for replica in range(REPLICAS):
        np.testing.assert_allclose(y[replica], ty.detach(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(dx[replica], tx.grad, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(unshard(dw1, 1), tw1.grad, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(unshard(dw2, 0), tw2.grad, rtol=1e-4, atol=1e-5)


def test_normalisation_of_a_shared_dimension():
    x, dy = (RNG.normal(size=(3, 8)).astype(np.float32) for _ in range(2))

    def layer(x):
        _, graph = LayerNormDistributed().create_graph(x)
        ones = popxl.constant(np.full(2, 2.0, np.float32))
        zeros = popxl.constant(np.zeros(2, np.float32))
        return graph.bind(addons.NamedTensors(weight=ones, bias=zeros)).call(x)[0]

    y, dx = differentiate(layer, shard(x, 4, 1), dy=shard(dy, 4, 1), replicas=4)
    tx = torch.tensor(x, requires_grad=True)
    ty = F.layer_norm(tx, (8,)) * 2
    ty.backward(torch.tensor(dy))
    np.testing.assert_allclose(unshard(y, 1), ty.detach(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(unshard(dx, 1), tx.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_cross_entropy_of_shared_classes(reduction):
    scores = RNG.normal(size=(6, 16)).astype(np.float32) * 4
    labels = np.array([0, 5, 15, 8, 3, 12])

    def loss(scores, labels):
        return cross_entropy_sharded_loss(scores, labels, reduction=reduction)

    offsets = (np.arange(REPLICAS) * 4)[:, None]
    value, gradient = differentiate(
        loss,
        shard(scores, REPLICAS, 1),
        (labels[None] - offsets).astype(np.int32),
        dy=np.ones(REPLICAS, np.float32),
        replicas=REPLICAS,
    )
    ts = torch.tensor(scores, requires_grad=True)
    expected = F.cross_entropy(ts, torch.tensor(labels), reduction=reduction)
    expected.backward()
    np.testing.assert_allclose(value, [expected.item()] * REPLICAS, rtol=1e-5)
    np.testing.assert_allclose(unshard(gradient, 1), ts.grad, rtol=1e-4, atol=1e-6)


def test_cross_entropy_of_classes_on_several_ipus():
    scores = RNG.normal(size=(5, 7)).astype(np.float32)
    labels = np.array([0, 6, 3, 3, 1])
    ir = popxl.Ir()
    with ir.main_graph:
        parts, copies = [], []
        for place, (start, end) in enumerate([(0, 4), (4, 7)]):
            with popxl.ipu(place):
                parts.append(popxl.variable(scores[:, start:end].copy()) + 0.0)
                copies.append(popxl.variable(labels.astype(np.int32)) + 0)
        stream = addons.host_store(cross_entropy_sharded_wr_loss(parts, copies))
    with popxl.Session(ir, "ipu_hw") as session:
        loss = session.run()[stream]
    expected = F.cross_entropy(torch.tensor(scores), torch.tensor(labels), reduction="none")
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_an_embedding_in_shards():
    table = RNG.normal(size=(64, 4)).astype(np.float32)
    tokens = np.array([0, 17, 63, 31, 32])
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        group = ir.replica_grouping(group_size=1)
        layer = Embedding(popxl.float32, 64, 4, replica_grouping=group)
        assert layer.vocab_shard_size == 32
        lowered = (tokens[None] - layer.offsets[:, None]).astype(np.int32)
        indices = popxl.variable(lowered, replica_grouping=group)
        factories, graph = layer.create_graph(indices)
        variables = factories.init()
        (rows,) = graph.bind(variables).call(indices)
        stream = addons.host_store(ops.collectives.replicated_all_reduce(rows))
    with popxl.Session(ir, "ipu_hw") as session:
        session.write_variable_data(variables.weight, shard(table, 2, 0))
        found = session.run()[stream]
    np.testing.assert_allclose(found[0], table[tokens])
    np.testing.assert_allclose(found[1], table[tokens])


@pytest.mark.parametrize("rotary", [None, 4])
def test_rotary_positions(rotary):
    x, dy = (RNG.normal(size=(2, 5, 3, 8)).astype(np.float32) for _ in range(2))
    size = rotary or 8
    sin, cos = trig_tables(5, size)

    def rotate(x):
        return rotary_pos_embed(x, popxl.constant(sin), popxl.constant(cos), rotary)

    y, dx = differentiate(rotate, x, dy=dy)
    turn = torch.complex(torch.tensor(cos), torch.tensor(sin))[None, :, None]

    def apply(t, turn):
        turned = torch.view_as_real(torch.view_as_complex(t[..., :size].unflatten(-1, (-1, 2)).contiguous()) * turn)
        return torch.cat([turned.flatten(-2), t[..., size:]], -1)

    np.testing.assert_allclose(y, apply(torch.tensor(x), turn), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx, apply(torch.tensor(dy), turn.conj()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dim", [-1, 0])
def test_weights_of_four_bits(dim):
    weight = RNG.normal(size=(16, 32)).astype(np.float16)
    packed, scale, bias = group_quantize_compress_numpy(weight, 8, dim)
    restored = group_quantize_decompress_numpy(packed, scale, bias, dim)
    assert restored.shape == weight.shape
    assert np.abs(restored - weight).max() <= scale.max() * 0.51
    ir = popxl.Ir()
    with ir.main_graph:
        tensors = [popxl.variable(a) for a in (packed, scale, bias)]
        stream = addons.host_store(group_quantize_decompress(*tensors, dim=dim))
    with popxl.Session(ir, "ipu_hw") as session:
        found = session.run()[stream]
    np.testing.assert_array_equal(found, restored)


def test_a_layer_of_four_bits():
    torch.manual_seed(0)
    reference = torch.nn.Linear(16, 8)
    x = RNG.normal(size=(3, 16)).astype(np.float16)
    from popxl_addons.testing_utils import TensorInput, run_module

    layer = LinearGQ(8, group_size=8)
    (y,) = run_module(
        layer,
        TensorInput(x),
        weights=lambda v: LinearGQ.torch_mapping(v, reference, dtype=popxl.float16, group_size=8),
    )
    np.testing.assert_allclose(y, reference(torch.tensor(x).float()).detach(), atol=0.1)


def test_squares_of_scaled_gradients():
    x = RNG.normal(size=(4, 5)).astype(np.float16)
    ir = popxl.Ir()
    with ir.main_graph:
        stream = addons.host_store(grad_reduce_square_add(popxl.variable(x), 4))
    with popxl.Session(ir, "ipu_hw") as session:
        found = session.run()[stream]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.square(x.astype(np.float64) / 4).sum(), rtol=1e-5)


def test_products_with_a_known_sparse_matrix():
    class Rows:
        data = np.array([1.0, 2.0, 3.0], np.float32)
        indices = np.array([0, 2, 1])
        indptr = np.array([0, 2, 2, 3])

    x = RNG.normal(size=(2, 3)).astype(np.float32)
    ir = popxl.Ir()
    with ir.main_graph:
        stream = addons.host_store(dense_const_sparse_matmul(popxl.variable(x), Rows, 4))
    with popxl.Session(ir, "ipu_hw") as session:
        found = session.run()[stream]
    np.testing.assert_allclose(found, x @ np.array([[1, 0, 2, 0], [0, 0, 0, 0], [0, 3, 0, 0]]), rtol=1e-6)
    assert 0 < np.count_nonzero(random_sparse(np.ones((8, 8)), 0.25)) < 40
    assert np.count_nonzero(random_sparse(np.ones((2, 2)), 0.0)) == 1
