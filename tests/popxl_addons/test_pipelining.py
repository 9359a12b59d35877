"""Pipelines compute what their stages compute for one micro-batch after the other."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.layers import Linear
from popxl_addons.transforms.repeat_graph import repeat_graph

MICRO, SIZE, STEPS = 2, 4, 6


class Layer(addons.Module):
    def __init__(self):
        super().__init__()
        self.linear = Linear(SIZE)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return ops.gelu(self.linear(x))


def build_pipeline(ir, recompute):
    """Forward of two layers on two IPUs and backward again: three stages."""
    spec = popxl.TensorSpec((MICRO, SIZE), popxl.float32)
    x_stream = popxl.h2d_stream(spec.shape, spec.dtype, "x")
    y_stream = popxl.d2h_stream(spec.shape, spec.dtype, "y")
    graphs, variables, accumulators = [], [], []
    for place in range(2):
        with popxl.ipu(place):
            factories, fwd = Layer().create_graph(spec)
            required = [fwd.graph.inputs[0]] if place else []
            bwd_factories, bwd = addons.autodiff_with_accumulation(fwd, fwd.args.tensors, grads_required=required)
            graphs.append((fwd, addons.recompute_graph(bwd) if recompute else bwd))
            variables.append(factories.init(f"layer{place}"))
            accumulators.append(bwd_factories.init(f"layer{place}"))
    (fwd0, bwd0), (fwd1, bwd1) = graphs
    with popxl.in_sequence(True), addons.pipelined_execution(STEPS) as pipeline:
        with pipeline.stage(0), popxl.ipu(0):
            x = ops.host_load(x_stream)
            info0 = fwd0.bind(variables[0]).call_with_info(x)
            x = info0.outputs[0].copy_to_ipu(1)
        with pipeline.stage(1), popxl.ipu(1):
            info1 = fwd1.bind(variables[1]).call_with_info(x)
            y = info1.outputs[0]
            ops.host_store(y_stream, y)
            (dx,) = bwd1.bind(accumulators[1]).call(y, args=bwd1.grad_graph_info.inputs_dict(info1))
            dx = dx.copy_to_ipu(0)
        with pipeline.stage(2), popxl.ipu(0):
            activations = pipeline.stash_and_restore_activations(info0, bwd0.grad_graph_info)
            bwd0.bind(accumulators[0]).call(dx, args=activations)
    return x_stream, y_stream, variables, accumulators


@pytest.mark.parametrize("recompute", [False, True])
def test_a_pipeline_accumulates_the_gradients_of_all_micro_batches(recompute):
    np.random.seed(0)
    ir = popxl.Ir()
    ir.num_host_transfers = STEPS
    with ir.main_graph:
        x_stream, y_stream, variables, accumulators = build_pipeline(ir, recompute)
    data = np.random.default_rng(1).normal(size=(STEPS, MICRO, SIZE)).astype(np.float32)
    with popxl.Session(ir, "ipu_hw") as session:
        y = session.run({x_stream: data})[y_stream]
        values = session.get_tensors_data([t for tree in (*variables, *accumulators) for t in tree.tensors])
    h = torch.tensor(data)
    params = []
    for tree in variables:
        w, b = (torch.tensor(values[t], requires_grad=True) for t in (tree.linear.weight, tree.linear.bias))
        h = F.gelu(h @ w + b, approximate="tanh")
        params.append((w, b))
    (h.square().sum() / 2).backward()
    np.testing.assert_allclose(y, h.detach(), rtol=1e-5, atol=1e-7)
    for (w, b), tree in zip(params, accumulators, strict=True):
        assert values[tree.mean_accum_counter] == STEPS
        np.testing.assert_allclose(values[tree.accum.linear.weight], w.grad / STEPS, rtol=1e-4, atol=1e-9)
        np.testing.assert_allclose(values[tree.accum.linear.bias], b.grad / STEPS, rtol=1e-4, atol=1e-9)


def test_rules_of_pipelines():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(2, np.float32))
        with (
            pytest.raises(ValueError, match="twice as many"),
            addons.pipelined_execution(1) as pipeline,
            pipeline.stage(0),
        ):
            x + 1
        with pytest.raises(RuntimeError, match="stage"), addons.pipelined_execution(4):
            x + 1
        with addons.pipelined_execution(4) as pipeline, pipeline.stage(1):
            with pytest.raises(RuntimeError, match="from_stage"):
                pipeline.stash_and_restore_tensor(x)
            x + 1


def test_a_whole_graph_in_a_loop():
    ir = popxl.Ir()
    ir.num_host_transfers = 3
    with ir.main_graph, popxl.in_sequence(True):
        total = popxl.variable(np.zeros(2, np.float32), name="total")
        source = popxl.h2d_stream((2,), popxl.float32, "source")
        target = popxl.d2h_stream((2,), popxl.float32, "target")
        ops.var_updates.accumulate_(total, ops.host_load(source))
        ops.host_store(target, total * 2)
    assert repeat_graph(ir.main_graph, 1) is ir.main_graph
    body = repeat_graph(ir.main_graph, 3)
    assert body is not ir.main_graph
    with popxl.Session(ir, "ipu_hw") as session:
        out = session.run({source: np.arange(6, dtype=np.float32).reshape(3, 2)})[target]
        np.testing.assert_array_equal(out, [[0, 2], [4, 8], [12, 18]])
        np.testing.assert_array_equal(session.get_tensor_data(total), [6, 9])
