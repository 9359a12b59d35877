"""Layers in phases: graphs for many micro-batches with activations and weights in remote memory."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.layers import Linear
from popxl_addons.remote import load_remote, store_remote
from popxl_addons.rts import all_gather_replica_sharded_graph

STEPS, MICRO, SIZE = 4, 3, 8


class Layer(addons.Module):
    def __init__(self):
        super().__init__()
        self.linear = Linear(SIZE)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return ops.gelu(self.linear(x))


def run_phased(io_mode, layers, replicas=1, sharded=False):
    """Two or more equal layers by one graph: forward over all micro-batches layer by layer, then backward.

    Out: the data, the weights by layer, outputs, gradients of the input, accumulated gradients of the weights.
    """
    np.random.seed(1)
    ir = popxl.Ir(replication=replicas)
    ir.num_host_transfers = STEPS
    ir._pb_ir.getSessionOptions().numIOTiles = 32
    with ir.main_graph, popxl.in_sequence(True):
        spec = popxl.TensorSpec((MICRO, SIZE), popxl.float32)
        x_stream = popxl.h2d_stream(spec.shape, spec.dtype, "x")
        y_stream, dx_stream = (popxl.d2h_stream(spec.shape, spec.dtype, n) for n in ("y", "dx"))
        group = ir.replica_grouping() if sharded else None
        x_buffer, dx_buffer = (addons.batch_serial_buffer(spec, STEPS, layers + 1, group) for _ in range(2))
        factories, fwd = Layer().create_graph(spec)
        bwd_factories, bwd = addons.autodiff_with_accumulation(
            fwd, fwd.args.tensors, grads_required=[fwd.graph.inputs[0]]
        )
        buffers = addons.named_variable_buffers(factories, layers, shard_over_dict=sharded)
        gradients = addons.named_variable_buffers(
            addons.NamedVariableFactories.from_dict(bwd_factories.accum.to_dict()), layers, shard_over_dict=False
        )
        stored = [factories.init_remote(buffers, layer, f"layer{layer}") for layer in range(layers)]
        kept = [
            addons.NamedVariableFactories.from_dict(bwd_factories.accum.to_dict()).init_remote(gradients, n, f"grad{n}")
            for n in range(layers)
        ]

        def handle(buffer, row):
            return addons.RemoteHandle(buffer, row, group)

        copy = _make_copy(ir, spec)
        enter = addons.batch_serialise(
            copy,
            STEPS,
            {copy.graph.inputs[0]: x_stream},
            {},
            {copy.graph.outputs[0]: handle(x_buffer, 0)},
            io_mode=io_mode,
        )
        forward, backward = addons.batch_serialise_fwd_and_grad(
            fwd,
            bwd,
            fwd.args,
            STEPS,
            {fwd.graph.inputs[0]: handle(x_buffer, 0), bwd.graph.inputs[0]: handle(dx_buffer, 1)},
            {},
            {fwd.graph.outputs[0]: handle(x_buffer, 1), bwd.graph.outputs[0]: handle(dx_buffer, 0)},
            rows=layers,
            io_mode=io_mode,
        )
        load, names = addons.load_remote_graph(buffers, layers)
        gather, gathered = all_gather_replica_sharded_graph(addons.NamedTensors.pack(names, load.graph.outputs))

        def weights(layer):
            parts = addons.NamedTensors.pack(names, load.call(layer))
            return addons.NamedTensors.pack(gathered, gather.bind(parts).call())

        enter.graph.call(0)
        for layer in range(layers):
            forward.graph.bind(weights(layer)).call(layer)
        leave = _make_copy(ir, spec)
        addons.batch_serialise(
            leave,
            STEPS,
            {leave.graph.inputs[0]: handle(x_buffer, layers)},
            {leave.graph.outputs[0]: y_stream},
            {leave.graph.outputs[0]: handle(dx_buffer, layers)},  # the loss is half the sum of squares: dy is y
            io_mode=io_mode,
        ).graph.call(0)
        for layer in reversed(range(layers)):
            accumulators = bwd_factories.init_zero()
            named = weights(layer)
            named.update(accumulators)
            backward.graph.bind(named).call(layer)
            store_remote(gradients, accumulators.accum, layer)
        last = _make_copy(ir, spec)
        addons.batch_serialise(
            last,
            STEPS,
            {last.graph.inputs[0]: handle(dx_buffer, 0)},
            {last.graph.outputs[0]: dx_stream},
            {},
            io_mode=io_mode,
        ).graph.call(0)

    lead = (STEPS, replicas) if replicas > 1 else (STEPS,)
    data = np.random.default_rng(2).normal(size=(*lead, MICRO, SIZE)).astype(np.float32)
    if replicas > 1:
        data = np.broadcast_to(data[:, :1], data.shape).copy()
    with popxl.Session(ir, "ipu_hw") as session:
        out = session.run({x_stream: data})
        every = [*stored, *kept]
        values = session.get_tensors_data([t for tree in every for t in tree.tensors])
    read = [{name: values[t] for name, t in tree.to_dict().items()} for tree in every]
    return data, read[:layers], out[y_stream], out[dx_stream], read[layers:]


def _make_copy(ir, spec):
    return addons.GraphWithNamedArgs(ir.create_graph(lambda x: x + 0.0, spec))


def check(layers, data, weights, y, dx, gradients):
    """Against PyTorch over all micro-batches at once; accumulators hold means."""
    x = torch.tensor(data, requires_grad=True)
    params = [{name: torch.tensor(value, requires_grad=True) for name, value in w.items()} for w in weights]
    h = x
    for p in params:
        h = F.gelu(h @ p["linear.weight"] + p["linear.bias"], approximate="tanh")
    (h.square().sum() / 2).backward()
    np.testing.assert_allclose(y, h.detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx, x.grad, rtol=1e-4, atol=1e-9)
    assert len(params) == layers
    for found, p in zip(gradients, params, strict=True):
        for name, t in p.items():
            np.testing.assert_allclose(found[name], t.grad / STEPS, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("io_mode", ["compute", "io", "io_overlapped"])
def test_layers_in_phases_are_the_layers(io_mode):
    check(3, *run_phased(io_mode, 3))


def test_phases_with_sharded_weights_and_activations():
    """All replicas get the same data, so they have what one device has."""
    data, weights, y, dx, gradients = run_phased("compute", 2, replicas=2, sharded=True)
    assert (y[:, 0] == y[:, 1]).all()
    check(2, data[:, 0], weights, y[:, 0], dx[:, 0], gradients)


def test_rows_by_function_and_without():
    ir = popxl.Ir()
    ir.num_host_transfers = 2
    with ir.main_graph, popxl.in_sequence(True):
        spec = popxl.TensorSpec((2,), popxl.float32)
        buffer = addons.batch_serial_buffer(spec, 2, 3)
        fixed = addons.batch_serial_buffer(spec, 2, 1)
        source = popxl.h2d_stream((2,), popxl.float32, "in")
        target = popxl.d2h_stream((2,), popxl.float32, "out")
        first, second = _make_copy(ir, spec), _make_copy(ir, spec)
        write = addons.batch_serialise(
            first,
            2,
            {first.graph.inputs[0]: source},
            {},
            {first.graph.outputs[0]: addons.RemoteHandle(buffer, lambda row: row + 1)},
            rows=3,
            io_mode="compute",
        )
        middle = _make_copy(ir, spec)
        move = addons.batch_serialise(
            middle,
            2,
            {middle.graph.inputs[0]: (buffer, 0)},
            {},
            {middle.graph.outputs[0]: (fixed, None)},
            rows=3,
            io_mode="compute",
        )
        read = addons.batch_serialise(
            second, 2, {second.graph.inputs[0]: (fixed, 0)}, {second.graph.outputs[0]: target}, {}, io_mode="compute"
        )
        write.graph.call(1)  # to row 2
        move.graph.call(2)  # from row 2 to the only row of the other buffer
        read.graph.call(0)
    assert fixed.entries == 2
    data = np.arange(4, dtype=np.float32).reshape(2, 2)
    with popxl.Session(ir, "ipu_hw") as session:
        np.testing.assert_array_equal(session.run({source: data})[target], data)


def test_a_seed_for_each_micro_batch():
    ir = popxl.Ir()
    ir.num_host_transfers = 3
    with ir.main_graph, popxl.in_sequence(True):
        graph = addons.GraphWithNamedArgs(
            ir.create_graph(lambda seed: ops.random_normal(seed, (4,)), popxl.TensorSpec((2,), popxl.uint32))
        )
        stream = popxl.d2h_stream((4,), popxl.float32, "noise")
        serial = addons.batch_serialise(
            graph, 3, {}, {graph.graph.outputs[0]: stream}, {}, seed_input=graph.graph.inputs[0], io_mode="compute"
        )
        _, seed = addons.seed_variable(5)
        serial.graph.call(0, seed)
    with popxl.Session(ir, "ipu_hw") as session:
        noise = session.run()[stream]
    assert len(np.unique(noise)) == noise.size


def test_what_cannot_be_serialised_is_said():
    ir = popxl.Ir()
    with ir.main_graph:
        graph = _make_copy(ir, popxl.TensorSpec((2,), popxl.float32))
        with pytest.raises(ValueError, match="io_mode"):
            addons.batch_serialise(graph, 2, {}, {}, {}, io_mode="tiles")
        with pytest.raises(ValueError, match="IO tiles"):
            addons.batch_serialise(graph, 2, {}, {}, {}, io_mode="io")
        with pytest.raises(ValueError, match="rows"):
            addons.batch_serialise(graph, 2, {}, {}, {}, rows=0, io_mode="compute")


def test_loads_and_stores_of_sets_of_tensors():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence(True):
        values = addons.NamedTensors(a=popxl.constant(np.ones(2, np.float32)), b=popxl.constant(np.ones(3, np.float32)))
        buffers = addons.named_buffers(values, entries=2)
        store_remote(buffers, values.map(lambda t: t + 4.0), 1)
        streams = [addons.host_store(t) for t in load_remote(buffers, 1).tensors]
    with popxl.Session(ir, "ipu_hw") as session:
        a, b = (session.run()[stream] for stream in streams)
    np.testing.assert_array_equal(a, [5, 5])
    np.testing.assert_array_equal(b, [5, 5, 5])
