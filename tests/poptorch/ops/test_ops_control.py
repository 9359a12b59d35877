"""for_loop, cond and CPU: what runs inside a program besides ATen ops."""

import pytest
import torch
from torch import nn

import openipu
import poptorch
from openipu.graph import BranchCall, LoopCall


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


class Function(nn.Module):
    """A function as a model."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def run(function, *args, options=None):
    return poptorch.inferenceModel(Function(function), options or quiet())(*args)


def find_call(executor, kind):
    nodes = executor._compiled.program.micro.module.graph.nodes
    return next(node.target for node in nodes if isinstance(node.target, kind))


def test_a_loop_is_one_node_over_a_graph_of_its_own():
    executor = poptorch.inferenceModel(Function(lambda x: poptorch.for_loop(7, lambda y: y + y, [x])[0]), quiet())
    assert executor(torch.ones(3)).tolist() == [128.0] * 3
    loop = find_call(executor, LoopCall)
    assert loop.count == 7
    assert [node.name for node in loop.body.module.graph.nodes if node.op == "call_function"] == ["add_tensor"]


def test_bodies_reach_weights_constants_and_outer_values_through_closures():
    layer = nn.Linear(4, 4)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            offset = torch.arange(4.0)
            scaled = x * 0.5
            return poptorch.for_loop(3, lambda y: self.layer(y) + offset + scaled, [x])[0]

    x = torch.randn(2, 4)
    expected = x
    for _ in range(3):
        expected = layer(expected) + torch.arange(4.0) + x * 0.5
    torch.testing.assert_close(poptorch.inferenceModel(Model(), quiet())(x), expected)


def test_loops_nest_and_results_can_change_places():
    def forward(x):
        def outer(a, b):
            return b, poptorch.for_loop(2, lambda c: c * 3, [a])[0]

        return poptorch.for_loop(3, outer, [x, x + 1])

    first, second = run(forward, torch.tensor([1.0]))
    a, b = 1.0, 2.0
    for _ in range(3):
        a, b = b, a * 9
    assert (first.item(), second.item()) == (a, b)


def test_a_loop_that_never_runs_returns_its_inputs():
    x = torch.tensor([1.0, 2.0])
    assert torch.equal(run(lambda x: poptorch.for_loop(0, lambda y: y * 2, [x])[0], x), x)


def test_what_a_body_writes_in_place_stays_inside():
    def forward(x):
        def body(y):
            y[0] += 1  # through a view
            return y

        return poptorch.for_loop(3, body, [x])[0], x

    x = torch.zeros(2)
    changed, same = run(forward, x)
    assert changed.tolist() == [3.0, 0.0]
    assert same.tolist() == x.tolist() == [0.0, 0.0]


def test_a_body_must_return_what_it_takes():
    with pytest.raises(poptorch.Error, match=r"tensor 0 is float32\[4\] and float32\[2\]"):
        run(lambda x: poptorch.for_loop(2, lambda y: torch.cat([y, y]), [x]), torch.ones(2))
    with pytest.raises(poptorch.Error, match="2 tensors and 1"):
        run(lambda x: poptorch.for_loop(2, lambda y: (y, y), [x]), torch.ones(2))
    with pytest.raises(poptorch.Error, match=r"returns a float\. Return tensors only"):
        run(lambda x: poptorch.for_loop(2, lambda y: 1.0, [x]), torch.ones(2))


def test_random_numbers_inside_a_loop_follow_the_seed():
    def make():
        model = Function(lambda x: poptorch.for_loop(2, lambda y: y + torch.rand_like(y), [x])[0])
        return poptorch.inferenceModel(model, quiet().randomSeed(5))

    first, second, x = make(), make(), torch.zeros(4)
    once = first(x)
    assert torch.equal(once, second(x))
    assert not torch.equal(once, first(x))


def test_half_products_in_a_body_are_rounded_as_outside():
    weight = torch.randn(8, 8).half()
    x = torch.randn(8, 8).half()

    def looped(x, w):
        return poptorch.for_loop(1, lambda y: y @ w, [x])[0]

    assert torch.equal(run(looped, x, weight), run(lambda x, w: x @ w, x, weight))


def test_a_branch_is_chosen_by_the_value_of_each_run():
    def forward(condition, x):
        return poptorch.cond(condition, lambda a: (a + 1, a), [x], lambda: (x * 10, x), [])

    executor = poptorch.inferenceModel(Function(forward), quiet())
    x = torch.tensor([2.0])
    assert [value.item() for value in executor(torch.tensor([True]), x)] == [3.0, 2.0]
    assert [value.item() for value in executor(torch.tensor([False]), x)] == [20.0, 2.0]
    assert len(find_call(executor, BranchCall).bodies) == 2


def test_branches_must_agree_and_a_condition_has_one_element():
    with pytest.raises(poptorch.Error, match="What one branch returns"):
        run(lambda c, x: poptorch.cond(c, lambda: x, [], lambda: x.int(), []), torch.tensor([True]), torch.ones(2))
    with pytest.raises(poptorch.Error, match="A condition has one element, not 2"):
        run(lambda c, x: poptorch.cond(c, lambda: x, [], lambda: x, []), torch.tensor([True, False]), torch.ones(2))


@pytest.mark.parametrize("name", ["for_loop", "cond"])
def test_control_flow_is_for_inference_only(name):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            if name == "cond":
                y = poptorch.cond(x.sum() > 0, self.layer, [x], self.layer, [x])[0]
            else:
                y = poptorch.for_loop(2, self.layer, [x])[0]
            return poptorch.identity_loss(y, "sum")

    with pytest.raises(poptorch.Error, match=rf"poptorch\.{name}\(\) is only supported in inference"):
        poptorch.trainingModel(Model(), quiet())(torch.ones(1, 2))


def test_on_the_cpu_a_loop_runs_once_and_a_condition_is_read():
    x = torch.tensor([3.0])
    assert poptorch.for_loop(5, lambda y: y.add_(1), [x])[0].item() == 4.0
    assert x.item() == 3.0
    assert poptorch.cond(x > 5, lambda: x, [], lambda: x * 2, [])[0].item() == 6.0


def test_a_loop_is_planned_as_often_as_it_runs_and_a_condition_as_its_longer_branch():
    def plan(function, *args):
        executor = poptorch.inferenceModel(Function(function), quiet())
        executor.compile(*args)
        return {op.op: op for op in executor._compiled.plan.ops}

    x = torch.ones(256, 256)
    once = plan(lambda x: poptorch.for_loop(1, lambda y: y @ y, [x]), x)["openipu.for_loop"]
    tenfold = plan(lambda x: poptorch.for_loop(10, lambda y: y @ y, [x]), x)["openipu.for_loop"]
    assert tenfold.flops == 10 * once.flops
    assert tenfold.cycles == pytest.approx(10 * once.cycles, rel=0.1)  # some syncs fall together
    branch = plan(lambda x: poptorch.cond(x.sum() > 0, lambda: x @ x, [], lambda: x + x, []), x)["openipu.cond"]
    assert branch.flops == once.flops == 2 * 256**3
    assert max(branch.plan["cycles_of_branches"]) > min(branch.plan["cycles_of_branches"]) > 0


def test_a_cpu_op_runs_on_host_values_with_the_models_own_weights():
    seen = []

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.host = poptorch.CPU(self.work, "work")

        def work(self, x):
            seen.append((x.device.type, poptorch.isRunningOnIpu(), x.tolist()))
            return self.layer(x).detach(), torch.tensor(float(x.sum() > 2))  # a branch on data would do as well

        def forward(self, x):
            y, flag = self.host(x * 2)
            return y + 1, flag

    model = Model()
    executor = poptorch.inferenceModel(model, quiet())
    y, flag = executor(torch.ones(1, 2))
    torch.testing.assert_close(y, model.layer(torch.full((1, 2), 2.0)) + 1)
    assert flag.item() == 1.0
    assert seen == [("cpu", False, [[0.0, 0.0]]), ("cpu", False, [[2.0, 2.0]])]


def test_a_cpu_op_must_keep_its_shapes_and_is_for_inference_only():
    host = poptorch.CPU(lambda x: x[x > 0] if x.sum() else x, "filter")
    with pytest.raises(poptorch.Error, match=r"filter returned shapes \[\[1\]\]"):
        run(host, torch.tensor([1.0, -2.0]))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return poptorch.identity_loss(host(x * self.weight), "sum")

    with pytest.raises(poptorch.Error, match="CPU ops are only supported in inference graphs"):
        poptorch.trainingModel(Model(), quiet())(torch.ones(2))


def test_custom_ops_are_python_functions_with_gradients():
    openipu.register_custom_op(
        "Cube",
        "test.ops",
        2,
        forward=lambda inputs, attributes: [attributes["scale"] * inputs[0] ** 3],
        backward=lambda inputs, gradients, attributes: [3 * attributes["scale"] * inputs[0] ** 2 * gradients[0]],
        shape=lambda shapes, attributes: [shapes[0]],
    )

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([2.0]))

        def forward(self, x):
            cubed = poptorch.custom_op([x * self.weight], "Cube", "test.ops", 2, [x], {"scale": 0.5})
            return poptorch.identity_loss(cubed[0], "sum")

    model = Model()
    trained = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))
    assert trained(torch.tensor([1.0])).item() == 4.0  # 0.5 * 2 ** 3
    assert model.weight.item() == pytest.approx(2 - 0.1 * 6)  # 3 * 0.5 * 2 ** 2


def test_a_custom_op_that_nobody_registered_says_how_to_register_it():
    x = torch.ones(2)

    def forward(x):
        return poptorch.custom_op([x], "Unknown", "test.ops", 1, [x])

    assert torch.equal(forward(x)[0], torch.zeros(2))  # on the CPU, as in PopTorch
    with pytest.raises(poptorch.Error, match=r'openipu\.register_custom_op\("Unknown", "test\.ops", 1'):
        run(forward, x)


def test_custom_ops_check_shapes_and_attributes():
    openipu.register_custom_op("Twice", "test.ops", forward=lambda inputs, attributes: [torch.cat([inputs[0]] * 2)])
    x = torch.ones(2)
    with pytest.raises(poptorch.Error, match=r"returned shapes \[\(4,\)\], and \[\(2,\)\] were announced"):
        run(lambda x: poptorch.custom_op([x], "Twice", "test.ops", 1, [x]), x)
    for attributes, message in (
        ({1: 2}, "All attribute keys must be strings"),
        ({"a": {}}, "Attribute values must be floats, ints"),
        ({"a": [1, 2.0]}, "must all be the same"),
        ({"a": "größe"}, "größe contains non-ASCII characters"),
    ):
        with pytest.raises(ValueError, match=message):
            poptorch.custom_op([x], "Twice", "test.ops", 1, [x], attributes)
    with pytest.raises(poptorch.Error, match=r"1e\+300 is too high for a Popart float attribute"):
        run(lambda x: poptorch.custom_op([x], "Twice", "test.ops", 1, [x], {"a": 1e300}), x)
