"""Parameters with the same rule are updated together, in place."""

import copy

import pytest
import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

from openipu.capture import capture_program, describe_optimizer
from openipu.graph import RunOptions
from openipu.run import thresholds
from openipu.run.update.contraction import contract_arithmetic
from openipu.run.update.functions import build_rule_functions
from openipu.run.update.in_place import write_results
from openipu.run.update.rules import plan_update

aten = torch.ops.aten


class Regression(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.gain = nn.Parameter(torch.tensor(1.0))  # a 0-dim parameter, whose state is 0-dim, too

    def forward(self, x, y):
        return nn.functional.mse_loss(self.layers(x) * self.gain, y)


def make_model():
    torch.manual_seed(0)
    return Regression(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 1))


def make_data():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(4, 6, generator=generator), torch.randn(4, 1, generator=generator)


def plan(make_optimizer):
    model = make_model()
    spec = describe_optimizer(make_optimizer(model), {id(value): name for name, value in model.named_parameters()})
    return plan_update(capture_program(model, make_data(), {}, training=True, optimizer=spec, name="test"))


@pytest.mark.parametrize(
    "make_optimizer",
    [
        lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        lambda model: torch.optim.Adam(model.parameters(), lr=0.1),
    ],
)
def test_all_parameters_of_a_group_share_a_rule(make_optimizer):
    found = plan(make_optimizer)
    assert sorted(len(family.parameters) for family in found.families) == [1, 4]  # the 0-dim one is apart
    assert found.other_parameters == ()


def test_groups_do_not_share_a_rule():
    def two_groups(model):
        return torch.optim.SGD(
            [{"params": model.layers[0].parameters()}, {"params": model.layers[2].parameters()}], lr=0.1
        )

    assert [len(family.parameters) for family in plan(two_groups).families] == [2, 2]


def test_an_adam_without_a_kernel_takes_as_few_passes_over_memory_as_pytorchs_own():
    found = plan(lambda model: torch.optim.Adam(model.parameters(), lr=0.1, maximize=True))
    rule = max(found.families, key=lambda family: len(family.parameters)).rule
    functions = build_rule_functions(rule)
    calls = [name for name in functions.update_elements.__code__.co_names if name.startswith("_")]
    # the gradient's negative, lerp, mul, addcmul, sqrt, div, add, addcdiv, and the negative of a number
    assert len(set(calls)) == 9
    assert all(functions.numbers)


def test_updates_in_pieces_equal_whole_ones(start_training, monkeypatch):
    def train(pieces, alone):
        monkeypatch.setattr(thresholds, "UPDATE_PIECE_ELEMENTS", pieces)
        monkeypatch.setattr(thresholds, "UPDATED_ALONE_ELEMENTS", alone)
        model = make_model()
        optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01, momentum=0.9)  # PyTorch has no one kernel for it
        trained = start_training(model, optimizer, make_data(), RunOptions(training=True))
        for _ in range(5):
            trained.executable.run(make_data())
        return trained.read_weights()

    whole = train(1 << 18, 1 << 16)
    for settings in ((7, 1 << 16), (7, 1), (1 << 18, 1)):
        for name, value in train(*settings).items():
            torch.testing.assert_close(value, whole[name], atol=1e-7, rtol=1e-6)


def test_half_precision_weights_keep_their_format(start_training):
    model = make_model().half()
    reference = copy.deepcopy(model).float()
    x, y = make_data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    reference_optimizer = torch.optim.SGD(reference.parameters(), lr=0.1, momentum=0.9)
    trained = start_training(model, optimizer, (x.half(), y.half()), RunOptions(training=True))
    for _ in range(3):
        trained.executable.run((x.half(), y.half()))
        reference_optimizer.zero_grad()
        reference(x, y).backward()
        reference_optimizer.step()
    for name, value in trained.read_weights().items():
        assert value.dtype is torch.float16
        torch.testing.assert_close(value.float(), reference.state_dict()[name], atol=5e-3, rtol=5e-3)


CONTRACTIONS = {
    "lerp": (lambda a, b, c: a + (b - a) * 0.25, [aten.lerp.Scalar]),
    "addcmul": (lambda a, b, c: a + b * c * 0.25, [aten.addcmul.default]),
    "addcdiv": (lambda a, b, c: a + b / c * 0.25, [aten.addcdiv.default]),
    "scaled add": (lambda a, b, c: b * 0.25 + a, [aten.add.Tensor]),
    "scaled sub": (lambda a, b, c: a - b * 0.25, [aten.sub.Tensor]),
    "two readers": (lambda a, b, c: (lambda part: (a + part) / part)(b * 0.25), [aten.add.Tensor, aten.div.Tensor]),
}


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_contracted_arithmetic_gives_the_same_numbers(name):
    function, expected = CONTRACTIONS[name]
    arguments = [torch.rand(5) + 0.5 for _ in range(3)]
    module = make_fx(function)(*arguments)
    contract_arithmetic(module.graph, set())
    module.recompile()
    found = [node.target for node in module.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    assert found[-len(expected) :] == expected
    assert (len(found) == len(expected)) == (name != "two readers")  # a product that is read twice stays
    torch.testing.assert_close(module(*arguments), function(*arguments))


def test_a_value_that_is_still_read_is_not_overwritten():
    """new a = a + b, new b = a * b: the old a is read after the new one is known."""
    module = make_fx(lambda a, b: (a + b, a * b), tracing_mode="fake")(torch.zeros(1), torch.zeros(1))
    first, second = module.graph.find_nodes(op="placeholder")
    write_results(module.graph, [first, second], module.graph.output_node())
    a, b = torch.tensor([2.0]), torch.tensor([3.0])
    fx.Interpreter(fx.GraphModule(module, _with_out_overloads(module.graph))).run(a, b)
    assert (a.item(), b.item()) == (5, 6)


def test_swapped_values_do_not_overwrite_each_other():
    module = make_fx(lambda a, b: (b, a), tracing_mode="fake")(torch.zeros(1), torch.zeros(1))
    first, second = module.graph.find_nodes(op="placeholder")
    write_results(module.graph, [first, second], module.graph.output_node())
    a, b = torch.tensor([2.0]), torch.tensor([3.0])
    fx.Interpreter(fx.GraphModule(module, module.graph)).run(a, b)
    assert (a.item(), b.item()) == (3, 2)


def _with_out_overloads(graph: fx.Graph) -> fx.Graph:
    """Generated code calls torch's functions, which take `out`; the interpreter needs the same ones."""
    from openipu.run.drafts.fast_calls import FUNCTIONS

    for node in graph.nodes:
        node.target = FUNCTIONS.get(node.target, node.target)
    return graph
