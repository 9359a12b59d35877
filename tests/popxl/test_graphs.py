"""Graphs, calls, repeats, branches, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import popxl
from popart import popart_exception
from popxl import ops, transforms

ONES = np.ones((2, 2), np.float32)


class Linear(popxl.Module):
    def build(self, x: popxl.Tensor, width: int) -> popxl.Tensor:
        self.W = popxl.graph_input((x.shape[-1], width), popxl.float32, "W")
        self.b = popxl.graph_input((width,), popxl.float32, "b")
        return ops.gelu(x @ self.W + self.b)


def run(ir: popxl.Ir, *tensors: popxl.Tensor) -> list[Any]:
    with ir.main_graph:
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in tensors]
        for stream, tensor in zip(streams, tensors, strict=True):
            ops.host_store(stream, tensor)
    with popxl.Session(ir, "ipu_model") as session:
        found = session.run()
    return [found[stream] for stream in streams]


def test_a_module_is_called_twice_with_weights_of_its_own() -> None:
    ir = popxl.Ir()
    rows = np.random.default_rng(0).normal(size=(2, 3, 3)).astype(np.float32)
    with ir.main_graph:
        x = popxl.variable(rows[0], name="x")
        layer = Linear()
        graph = ir.create_graph(layer, x, 3)
        assert graph.name == "Linear_subgraph(0)"
        assert [t.name for t in graph.inputs] == ["x", "W", "b"]
        bias = popxl.variable(np.arange(3, dtype=np.float32))
        for matrix in rows:
            (x,) = ops.call(graph, x, inputs_dict={layer.W: popxl.variable(matrix), layer.b: bias})
    (found,) = run(ir, x)
    expected = torch.tensor(rows[0])
    for matrix in rows:
        expected = torch.nn.functional.gelu(expected @ torch.tensor(matrix) + torch.arange(3), approximate="tanh")
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5)


def test_only_what_is_given_by_reference_changes() -> None:
    def by_value(x: popxl.Tensor) -> popxl.Tensor:
        return ops.add_(x, popxl.constant(1.0, popxl.float32))

    def by_reference(x: popxl.TensorByRef) -> None:
        x += 10.0

    ir = popxl.Ir()
    with ir.main_graph:
        x, y, z = popxl.variable(ONES), popxl.variable(ONES), popxl.variable(ONES)
        (copy,) = ops.call(ir.create_graph(by_value, x), x)
        ops.call(ir.create_graph(by_reference, y), y)
        site = ops.call_with_info(ir.create_graph(by_value, z), z)
        site.set_parent_input_modified(z)
    found = run(ir, copy, x, y, z)
    assert [array[0, 0] for array in found] == [2, 1, 11, 2]


def test_a_view_in_place_shares_memory_and_another_does_not() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.arange(6, dtype=np.float32).reshape(2, 3))
        apart, shown = x.reshape((3, 2)), x.reshape_((3, 2))
        row = ops.slice_(x, 1, 2, axis=0)
        turned = x.T
        ops.add_(row, popxl.constant(100.0, popxl.float32))
    apart_, shown_, turned_, x_ = run(ir, apart, shown, turned, x)
    np.testing.assert_array_equal(apart_.reshape(-1), np.arange(6))
    np.testing.assert_array_equal(shown_.reshape(-1), [0, 1, 2, 103, 104, 105])
    np.testing.assert_array_equal(x_.reshape(-1), [0, 1, 2, 103, 104, 105])
    np.testing.assert_array_equal(turned_, np.arange(6).reshape(2, 3).T)


def test_a_repeat_carries_outputs_and_writes_what_it_has_by_reference() -> None:
    def step(x: popxl.Tensor, total: popxl.TensorByRef, y: popxl.Tensor) -> popxl.Tensor:
        total += x
        return x * y

    ir = popxl.Ir()
    with ir.main_graph:
        x, total, y = popxl.variable(ONES), popxl.variable(ONES * 0), popxl.constant(ONES * 2)
        (last,) = ops.repeat(ir.create_graph(step, x, total, y), 5, x, total, y)
        (same,) = ops.repeat(ir.create_graph(lambda x: x + 1, x), 0, x)
    found = run(ir, last, total, same, x)
    assert [array[0, 0] for array in found] == [32, 1 + 2 + 4 + 8 + 16, 1, 1]


@pytest.mark.parametrize("inner", [1, 3])
def test_streams_advance_inside_of_repeats(inner: int) -> None:
    count = 2 * inner + 1
    ir = popxl.Ir()
    ir.num_host_transfers = count
    with ir.main_graph:
        source, target = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
        total = popxl.variable(np.zeros(2, np.float32))

        def step(total: popxl.TensorByRef) -> None:
            x = ops.host_load(source)
            ops.add_(total, x)
            ops.host_store(target, x * total)

        graph = ir.create_graph(step, total)
        ops.call(graph, total)

        def twice(total: popxl.TensorByRef) -> None:
            ops.repeat(graph, inner, total)

        ops.repeat(ir.create_graph(twice, total), 2, total)
    data = np.arange(count * 2, dtype=np.float32).reshape(count, 2)
    with popxl.Session(ir, "ipu_model") as session:
        found = session.run({source: data})[target]
        again = session.run({source: data})[target]
        held = session.get_tensor_data(total)
    np.testing.assert_allclose(found, data * data.cumsum(0))
    np.testing.assert_allclose(again, data * (data.cumsum(0) + data.sum(0)))
    np.testing.assert_allclose(held, 2 * data.sum(0))


@pytest.mark.parametrize("value", [True, False])
def test_one_of_two_graphs_runs(value: bool, evaluate: Any) -> None:
    def build(flag: Any, x: Any) -> Any:
        ir = popxl.gcg().ir
        return ops.conditional(flag, ir.create_graph(lambda x: x * x, x), ir.create_graph(lambda x: x - 1, x), [x], [x])

    (found,) = evaluate(build, np.array(value), ONES * 3)
    assert found[0, 0] == (9 if value else 2)


@pytest.mark.parametrize("value", [True, False])
def test_gradients_flow_through_the_branch_that_ran(value: bool, differentiate: Any) -> None:
    def build(flag: Any, x: Any, y: Any) -> Any:
        ir = popxl.gcg().ir
        first, second = ir.create_graph(lambda x: ops.exp(x) * x, x), ir.create_graph(lambda y: y * y * y, y)
        return ops.sin(ops.conditional(flag, first, second, [x], [y])[0])

    arrays = np.array([[0.1, 0.2, 0.3], [1, 2, 3]], np.float32)
    found, gradients = differentiate(build, np.array(value), *arrays)
    x, y = (torch.tensor(array, requires_grad=True) for array in arrays)
    expected = torch.sin(x.exp() * x if value else y**3)
    expected.backward(torch.arange(1, 4).float())
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-5)
    for gradient, leaf in zip(gradients, (x, y), strict=True):
        wanted = np.zeros(3) if leaf.grad is None else leaf.grad.numpy()
        np.testing.assert_allclose(gradient, wanted, rtol=1e-4)


def test_a_gradient_graph_says_what_it_stands_for() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        x, w, b = popxl.variable(ONES), popxl.variable(ONES), popxl.variable(ONES[0])
        layer = Linear()
        graph = ir.create_graph(layer, x, 2)
        call = ops.call_with_info(graph, x, inputs_dict={layer.W: w, layer.b: b})
        info = transforms.autodiff(graph)
        kinds = [(entry.connection_type.value, entry.fwd_tensor.name) for entry in info.expected_inputs]
        assert kinds == [("FwdGrad", "gelu_out"), ("Fwd", "add_out"), ("Fwd", "x"), ("Fwd", "W")]
        assert [t.name for t in info.outputs] == ["x", "W", "b"]
        assert len(call.outputs) == len(graph.outputs) == 2  # what backward reads is an output now
        seed = popxl.constant(ONES)
        back = ops.call_with_info(info.graph, seed, inputs_dict=info.inputs_dict(call))
        found = info.fwd_parent_ins_to_grad_parent_outs(call, back)
        assert set(found) == {x, w, b}
        assert info.fwd_graph_ins_to_grad_parent_outs(back)[layer.W] is found[w]
        some = transforms.autodiff(graph, grads_required=[layer.b])
        assert some.outputs == (layer.b,)
        both = transforms.autodiff(graph, return_all_grad_graphs=True)
        assert set(both) == {graph}
        whole = ir.create_graph(lambda x: ops.cast(x, popxl.int32), x)
        with pytest.raises(popart_exception, match="Unable to provide required gradient"):
            transforms.autodiff(whole, grads_required=[whole.inputs[0]])
        again = ir.create_graph(lambda x: ops.repeat(ir.create_graph(lambda x: x * 2, x), 3, x), x)
        with pytest.raises(popart_exception, match="a repeat has no gradient"):
            transforms.autodiff(again)


@pytest.mark.parametrize("remote", [False, True])
def test_a_branch_cannot_store(remote: bool) -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        flag, x = popxl.constant(True), popxl.variable(ONES)
        stream, buffer = popxl.d2h_stream((2, 2), popxl.float32), popxl.remote_buffer((2, 2), popxl.float32)

        def store(x: popxl.Tensor) -> popxl.Tensor:
            if remote:
                ops.remote_store(buffer, 0, x)
            else:
                ops.host_store(stream, x)
            return x * 2

        (found,) = ops.conditional(flag, ir.create_graph(store, x), ir.create_graph(lambda x: x * 3, x), [x], [x])
        ops.host_store(popxl.d2h_stream(found.shape, found.dtype), found)
    with pytest.raises(NotImplementedError, match="is a branch, and moves data"):
        popxl.Session(ir, "ipu_model")


def test_each_call_of_a_graph_takes_back_the_results_that_are_read_of_it(differentiate: Any) -> None:
    def build(x: Any, y: Any) -> Any:
        powers = popxl.gcg().ir.create_graph(lambda t: (t * t, t * t * t), x)
        square, _ = ops.call(powers, x)
        _, cube = ops.call(powers, y)
        return square + cube

    x, y = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)
    found, gradients = differentiate(build, x, y)
    seed = np.arange(1, 4)
    np.testing.assert_allclose(found, x**2 + y**3, rtol=1e-6)
    for gradient, expected in zip(gradients, (seed * 2 * x, seed * 3 * y**2), strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-6)


def test_gradients_of_calls_inside_of_graphs_are_autograds(differentiate: Any) -> None:
    def build(x: Any, w: Any) -> Any:
        ir = popxl.gcg().ir
        inner = ir.create_graph(lambda x, w: ops.tanh(x @ w), x, w)
        (y,) = ops.call(inner, x, w)
        (z,) = ops.call(inner, y, w)
        return z + x

    x, w = (torch.randn(3, 3, requires_grad=True) for _ in range(2))
    found, gradients = differentiate(build, x.detach().numpy(), w.detach().numpy())
    expected = torch.tanh(torch.tanh(x @ w) @ w) + x
    expected.backward(torch.arange(1, 10).reshape(3, 3).float())
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-4, atol=1e-6)
    for gradient, leaf in zip(gradients, (x, w), strict=True):
        assert leaf.grad is not None
        np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_calls_that_do_not_fit_are_refused() -> None:
    ir, other = popxl.Ir(), popxl.Ir()
    with other.main_graph:
        stranger = popxl.variable(ONES)
    with ir.main_graph:
        x = popxl.variable(ONES)
        graph = ir.create_graph(lambda a, b: a + b, x, x)
        with pytest.raises(ValueError, match="Too many inputs"):
            ops.call(graph, x, x, x)
        with pytest.raises(ValueError, match="Not enough inputs"):
            ops.call(graph, x)
        with pytest.raises(ValueError, match="is not in parent graph"):
            ops.call(graph, x, stranger)
        with pytest.raises(ValueError, match="specified twice"):
            ops.call(graph, x, x, inputs_dict={graph.inputs[0]: x})
        with pytest.raises(ValueError, match="Repeat count must be >= 0"):
            ops.repeat(graph, -1, x, x)
        with pytest.raises(ValueError, match="not an input or output"):
            ops.call_with_info(graph, x, x).graph_to_parent(x)
        with pytest.raises(ValueError, match="within the main graph"):
            ir.create_graph(lambda: popxl.variable(1.0))
        with pytest.raises(ValueError, match="do not match the signature"):
            ir.create_graph(lambda a: a, x, x)
        with pytest.raises(ValueError, match="must be None, a Tensor or an iterable"):
            ir.create_graph(lambda a: 3, x)
        with pytest.raises(TypeError, match="mixture of Tensors"):
            ir.create_graph(lambda a: a[0], [x, 3])
        with pytest.raises(RuntimeError, match="different"), other.main_graph:
            pass
    with pytest.raises(RuntimeError, match="no graph has been selected"):
        popxl.gcg()
    with pytest.raises(popart_exception), ir.main_graph:
        ops.call(graph, x, popxl.variable(ONES[0]))


def test_names_and_places_follow_the_contexts() -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.name_scope("block"):
        x = popxl.variable(ONES, name="x")
        with pytest.raises(popxl.errors.UndefinedValue):
            _ = x.ipu
        with popxl.ipu(1), popxl.name_scope("inner"):
            y = ops.relu(x)
        moved = y.copy_to_ipu(0)
        with popxl.io_tiles():
            z = ops.io_tile_copy(moved)
    assert (x.name, y.name) == ("block/x", "block/inner/relu_out")
    assert (x.ipu, y.ipu, moved.ipu, moved.tile_set, z.tile_set) == (1, 1, 0, "compute", "io")


def test_hooks_see_new_ops() -> None:
    ir = popxl.Ir()
    seen: list[str] = []
    with ir.main_graph as main:
        handle = main.register_op_created_hook(lambda op: seen.append(op.kind))
        x = popxl.variable(ONES)
        ops.relu(x)
        main.remove_op_created_hook(handle)
        ops.tanh(x)
        with pytest.raises(ValueError, match="has the number"):
            main.remove_op_created_hook(handle)
        with pytest.raises(RuntimeError, match="will prevent overlap"), transforms.io_tile_exchange():
            ops.tanh(x)
    assert seen == ["Relu"]
