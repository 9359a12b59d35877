"""Modules: names of variables, shared graphs, calls in graphs of their own, gradients written by hand."""

from functools import partial

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from popxl_addons.layers import Linear


@pytest.fixture
def ir():
    return popxl.Ir()


def run(ir, streams, inputs=None):
    with popxl.Session(ir, "ipu_hw") as session:
        outputs = session.run(inputs or {})
    return [outputs[stream] for stream in streams]


class Scale(addons.Module):
    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return x * self.add_variable_input("factor", iter(np.arange(1.0, 9.0, dtype=np.float32)), x.dtype)


class Nest(addons.Module):
    def __init__(self):
        super().__init__()
        self.left = Linear(3)
        self.right = Linear(3, bias=False)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return self.left(x) + self.right(x)


def test_variables_have_the_names_of_parts(ir):
    with ir.main_graph:
        factories, graph = Nest().create_graph(popxl.TensorSpec((2, 4), popxl.float32))
        variables = factories.init("net")
    assert sorted(factories.to_dict()) == ["left.bias", "left.weight", "right.weight"]
    assert sorted(graph.args.to_dict()) == sorted(factories.to_dict())
    assert variables.left.weight.shape == (4, 3)
    assert variables.left.bias.name.startswith("net.left.bias")
    assert len(graph.graph.inputs) == 4


def test_a_module_can_be_built_again(ir):
    """What it collected for one graph is gone for the next."""
    net = Nest()
    with ir.main_graph:
        first, _ = net.create_graph(popxl.TensorSpec((2, 4), popxl.float32))
        second, graph = net.create_graph(popxl.TensorSpec((2, 6), popxl.float32))
    assert first.left.weight.shape == (4, 3)
    assert second.left.weight.shape == (6, 3)
    assert graph.graph.inputs[0].shape == (2, 6)


def test_one_graph_has_as_many_sets_of_variables_as_are_made(ir):
    with ir.main_graph:
        x = popxl.variable(np.ones(2, np.float32))
        factories, graph = Scale().create_graph(x)
        streams = [addons.host_store(graph.bind(factories.init(str(i))).call(x)[0]) for i in "abc"]
    first, second, third = run(ir, streams)
    assert (first[0], second[0], third[0]) == (1, 2, 3)


def test_a_cached_graph_is_shared_by_equal_arguments(ir):
    net = Scale(cache=True)
    spec = popxl.TensorSpec((2,), popxl.float32)
    with ir.main_graph:
        _, first = net.create_graph(spec)
        _, again = net.create_graph(spec)
        _, other = net.create_graph(popxl.TensorSpec((3,), popxl.float32))
        with popxl.ipu(1):
            _, elsewhere = net.create_graph(spec)
    assert first.graph is again.graph
    assert first.args.to_dict() == again.args.to_dict()
    assert len({first.graph, other.graph, elsewhere.graph}) == 3


def test_functions_become_graphs(ir):
    calls = []

    @addons.function
    def double(x):
        calls.append(x)
        return x + x

    with ir.main_graph:
        x = popxl.variable(np.full(2, 3, np.float32))
        (y,) = double(x)
        (z,) = double(y)
        stream = addons.host_store(z)
    assert len(calls) == 1
    np.testing.assert_array_equal(run(ir, [stream])[0], [12, 12])


def test_modules_in_a_list(ir):
    class Sequence(addons.Module):
        def __init__(self):
            super().__init__()
            self.parts = addons.Module.from_list([Linear(3), Linear(2)])

        def build(self, x: popxl.Tensor) -> popxl.Tensor:
            for part in self.parts:
                x = part(x)
            return x

    with ir.main_graph:
        factories, _ = Sequence().create_graph(popxl.TensorSpec((2, 4), popxl.float32))
    assert factories.parts[1].weight.shape == (3, 2)


class Dense(addons.Module):
    """A product whose gradient by x is made three times too large by hand, so that one can see whose it is."""

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        w = self.add_variable_input("w", partial(np.full, (2, 2), 2.0), x.dtype)
        self.aux["x"] = x
        self.aux["w"] = w
        self.aux["factor"] = 3.0
        return x @ w

    def build_grad(self, dy: popxl.Tensor) -> popxl.Tensor:
        self.var_grad["w"] = self.aux["x"].T @ dy
        return (dy @ self.aux["w"].T) * self.aux["factor"]


class Outer(addons.Module):
    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        (y,) = self.call_module(Dense(), "dense")(x)
        return y + x


def test_gradients_by_hand(ir):
    data = np.array([[1.0, 2.0]], np.float32)
    with ir.main_graph:
        x = popxl.variable(data)
        factories, graph = Dense().create_graph(x)
        gradient = graph.autodiff()
        info = graph.bind(factories.init()).call_with_info(x)
        dy = popxl.constant(np.ones((1, 2), np.float32))
        dx, dw = gradient.call(dy, args=gradient.grad_graph_info.inputs_dict(info))
        streams = [addons.host_store(t) for t in (info.outputs[0], dx, dw)]
    y, dx, dw = run(ir, streams)
    np.testing.assert_allclose(y, [[6, 6]])
    np.testing.assert_allclose(dx, [[12, 12]])
    np.testing.assert_allclose(dw, [[1, 1], [2, 2]])


def test_autodiff_of_the_caller_uses_the_gradient_by_hand(ir):
    with ir.main_graph:
        x = popxl.variable(np.array([[1.0, 2.0]], np.float32))
        factories, graph = Outer().create_graph(x)
        assert factories.keys_flat() == ["dense.w"]
        gradient = addons.autodiff(graph, grads_required=[graph.graph.inputs[0]])
        info = graph.bind(factories.init()).call_with_info(x)
        dy = popxl.constant(np.ones((1, 2), np.float32))
        (dx,) = gradient.call(dy, args=gradient.grad_graph_info.inputs_dict(info))
        stream = addons.host_store(dx)
    np.testing.assert_allclose(run(ir, [stream])[0], [[13, 13]])


def test_a_gradient_by_hand_is_not_lost_in_silence(ir):
    class Inlined(addons.Module):
        def __init__(self, mode):
            super().__init__()
            self.part = Dense(grad_inlining_error=mode)

        def build(self, x: popxl.Tensor) -> popxl.Tensor:
            return self.part(x)

    spec = popxl.TensorSpec((1, 2), popxl.float32)
    with ir.main_graph:
        with pytest.raises(RuntimeError, match="build_grad"):
            Inlined("error").create_graph(spec)
        with pytest.warns(UserWarning, match="build_grad"):
            Inlined("warning").create_graph(spec)
        Inlined("none").create_graph(spec)
        with pytest.raises(ValueError, match="caching"):
            Dense(cache=True)


def test_what_a_gradient_by_hand_leaves_out_is_said(ir):
    class Forgetful(Dense):
        def build_grad(self, dy: popxl.Tensor) -> popxl.Tensor:
            return dy @ self.aux["w"].T

    class Misshapen(Dense):
        def build_grad(self, dy: popxl.Tensor) -> popxl.Tensor:
            self.var_grad["w"] = dy
            return dy

    spec = popxl.TensorSpec((1, 2), popxl.float32)
    with ir.main_graph:
        _, graph = Forgetful().create_graph(spec)
        with pytest.raises(RuntimeError, match=r"no `var_grad` for \['w'\]"):
            graph.autodiff()
        _, graph = Forgetful().create_graph(spec)
        graph.autodiff(grads_required=[graph.graph.inputs[0]])
        with pytest.raises(RuntimeError, match="already"):
            graph.autodiff()
        _, graph = Misshapen().create_graph(spec)
        with pytest.raises(ValueError, match="shape"):
            graph.autodiff()
    with pytest.raises(RuntimeError, match="build_grad"):
        _ = Dense().aux["x"]


def test_factories_refuse_what_makes_no_values(ir):
    def fail():
        raise OSError("no disk")

    with ir.main_graph:
        with pytest.raises(ValueError, match="fails"):
            addons.VariableFactory(fail)
        with pytest.raises(ValueError, match="iterable"):
            addons.VariableFactory(3)
        with pytest.raises(ValueError, match="arrays"):
            addons.VariableFactory(iter([None]))


def test_values_of_groups_of_replicas():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        groups = ir.replica_grouping(group_size=2)
        factory = addons.VariableFactory(iter(np.arange(4.0, dtype=np.float32)), name="v", replica_grouping=groups)
        variable = factory.create_tensor()
        assert variable.shape_on_host == (2,)
        stream = addons.host_store(variable)
    np.testing.assert_array_equal(run(ir, [stream])[0], [0, 0, 1, 1])
