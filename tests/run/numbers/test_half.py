"""Half precision: float32 inside an operator, one rounding to half behind it."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from openipu.capture import capture_program, describe_optimizer
from openipu.graph import InputKind, OutputKind, RunOptions
from openipu.run import Executable
from openipu.run.drafts.draft import draft_graph
from openipu.run.engine.micro import draft_micro
from openipu.run.rewrites.half.operators import PRODUCTS, WIDENED
from openipu.run.rewrites.simplify import simplify

aten = torch.ops.aten


def sample(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)).half()


IMAGE, MATRIX, WEIGHT = sample(2, 3, 8, 8), sample(6, 6, seed=1), sample(4, 3, 3, 3, seed=2)
VOLUME = sample(1, 2, 4, 4, 4, seed=3)
EXACT = {  # the products of the IPU, and what only chooses among numbers
    "matrix product": (lambda a, b: a @ b, MATRIX, MATRIX),
    "product with a sum": (lambda a, b: torch.addmm(a[0], a, b), MATRIX, MATRIX),
    "batched product": (lambda a: a[0] @ a[1], IMAGE),
    "batched product with a sum": (lambda a: torch.baddbmm(a[0], a[0], a[1]), IMAGE),
    "matrix and vector": (lambda a: a @ a[0], MATRIX),
    "two vectors": (lambda a: a[0] @ a[1], MATRIX),
    "outer product": (lambda a: torch.addr(a, a[0], a[1]), MATRIX),
    "linear layer": (lambda a, b: F.linear(a, b, b[0]), MATRIX, MATRIX),
    "convolution": (F.conv2d, IMAGE, WEIGHT),
    "convolution in channels-last": (lambda a, b: F.conv2d(a.to(memory_format=torch.channels_last), b), IMAGE, WEIGHT),
    "transposed convolution": (lambda a, b: F.conv_transpose2d(a, b.transpose(0, 1)), IMAGE, WEIGHT),
    "largest of a window": (lambda a: F.max_pool2d(a, 2), IMAGE),
    "largest": (lambda a: a.amax(1), MATRIX),
    "mirrored": (lambda a: a.flip(0), MATRIX),
}
CLOSE = {
    "distances": (lambda x: torch.cdist(x, x * 2), MATRIX),
    "pairwise distances": (F.pdist, MATRIX),
    "pooling over three dimensions": (lambda x: F.avg_pool3d(x, 2), VOLUME),
    "adaptive pooling over three dimensions": (lambda x: F.adaptive_avg_pool3d(x, 2), VOLUME),
    "margin loss": (lambda x: F.multi_margin_loss(x, torch.tensor([0, 1, 2, 3, 0, 1])), MATRIX),
    "ctc loss": (lambda x: F.ctc_loss(x[:, None].log_softmax(-1), torch.tensor([[1, 2]]), (6,), (2,)), MATRIX),
    "power": (lambda x: x**3, MATRIX),
    "gelu": (F.gelu, MATRIX),
    "gated linear unit": (F.glu, MATRIX),
    "variance": (lambda x: x.var(1), MATRIX),
    "norm": (lambda x: torch.linalg.vector_norm(x, dim=1), MATRIX),
    "group norm": (lambda x: F.group_norm(x, 3), IMAGE),
    "binary cross entropy": (lambda x: F.binary_cross_entropy(x, x.detach()), MATRIX),
    "smooth loss": (lambda x: F.smooth_l1_loss(x, x.detach() * 2), MATRIX),
    "softmax": (lambda x: x.softmax(-1), MATRIX),
    "layer norm": (lambda x: F.layer_norm(x, (6,), x[0], x[1]), MATRIX),
    "mean": (lambda x: x.mean(0), MATRIX),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), IMAGE),
}


def run_half(function, *values):
    program = capture_program(function, values, {}, training=False, optimizer=None, name="model")
    (found,) = Executable(program, RunOptions()).run(list(values)).outputs
    return found


def compute_wide(function, *values):
    """The float32 operator on the half operands, rounded once."""
    return function(*(value.float() for value in values)).half()


def count_steps(found: torch.Tensor, expected: torch.Tensor) -> int:
    """How many half-precision numbers lie between two tensors, at most."""
    codes = [tensor.contiguous().view(torch.int16).int() for tensor in (found, expected)]
    ordered = [torch.where(code < 0, -32768 - code, code) for code in codes]
    return int((ordered[0] - ordered[1]).abs().max())


@pytest.mark.parametrize("name", EXACT)
def test_an_operator_equals_float32_arithmetic_rounded_once(name):
    function, *values = EXACT[name]
    found = run_half(function, *values)
    assert found.dtype is torch.float16
    assert torch.equal(found, compute_wide(function, *values))


@pytest.mark.parametrize("name", CLOSE)
def test_other_operators_differ_from_it_by_single_roundings(name):
    function, *values = CLOSE[name]
    found = run_half(function, *values)
    assert found.dtype is torch.float16
    # Functions of several operators round between them.
    steps = 8 if name in ("ctc loss", "distances") else 1
    assert count_steps(found, compute_wide(function, *values)) <= steps


class Trained(nn.Module):
    """Parameters through one operator, and a loss whose gradient is exact in half precision."""

    def __init__(self, function, values):
        super().__init__()
        self.function = function
        self.values = nn.ParameterList(value.clone() for value in values)

    def forward(self, weight):
        weighted = self.function(*self.values).float() * weight  # all positive: the loss is their sum
        return F.l1_loss(weighted, torch.zeros_like(weighted), reduction="sum")


@pytest.mark.parametrize("name", EXACT)
def test_gradients_are_computed_alike(name):
    function, *values = EXACT[name]
    expected_model = Trained(function, [value.float() for value in values])
    weight = sample(*function(*expected_model.values).shape, seed=9).float()
    expected = torch.autograd.grad(expected_model(weight), list(expected_model.parameters()))
    found = run_backward(Trained(function, values), weight)
    assert len(found) == len(values)
    for value, wanted in zip(found, expected, strict=True):
        assert value.dtype is torch.float16
        assert wanted.count_nonzero() > 0
        # Where an operand is read twice, both gradients are rounded, and their sum.
        assert count_steps(value, wanted.half()) <= (2 if "sum" in name or len(values) == 1 else 0)


def capture_training(model, *inputs):
    spec = describe_optimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), {id(value): name for name, value in model.named_parameters()}
    )
    return capture_program(model, inputs, {}, training=True, optimizer=spec, name="model")


def run_backward(model, *inputs):
    """The gradients of all parameters, from the simplified graph itself."""
    draft = draft_micro(capture_training(model, *inputs), RunOptions(training=True))
    named = dict(model.named_parameters())
    entries = {entry.node: entry for entry in draft.inputs}
    values = []
    for node in draft.graph.find_nodes(op="placeholder"):
        entry = entries.get(node.name)
        if entry is None or node.name in draft.bound:
            values.append(draft.bound[node.name])
        else:
            values.append(named[entry.name].detach() if entry.kind is InputKind.PARAMETER else inputs[entry.index])
    results = torch.fx.GraphModule(nn.Module(), draft.graph)(*values)
    gradients = {
        entry.name: value
        for entry, value in zip(draft.outputs, results, strict=True)
        if entry.kind is OutputKind.GRADIENT
    }
    return [gradients[name] for name in named]


class Block(nn.Module):
    """Attention, a norm, an activation, a pool: what models are made of."""

    def __init__(self):
        super().__init__()
        self.norm, self.query, self.key, self.value = nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.head = nn.Conv1d(5, 4, 1)

    def forward(self, x, labels):
        x = self.norm(x)
        attended = F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))
        return F.cross_entropy(F.gelu(self.head(attended + x)).mean(-1) ** 2, labels)


def draft_block():
    model = Block().half()
    values = (sample(3, 5, 8), torch.tensor([0, 1, 2]))
    return draft_micro(capture_training(model, *values), RunOptions(training=True))


def is_half(node) -> bool:
    return getattr(node.meta.get("val"), "dtype", None) is torch.float16


def test_no_product_and_no_slow_operator_of_a_step_has_half_operands():
    nodes = [node for node in draft_block().graph.nodes if node.target in WIDENED]
    assert {node.target for node in nodes} & PRODUCTS
    assert not [node for node in nodes if any(is_half(source) for source in node.all_input_nodes) or is_half(node)]


def test_a_weight_is_converted_once_a_step_though_forward_and_backward_read_it():
    conversions = [
        node.args[0].name
        for node in draft_block().graph.nodes
        if node.target is aten._to_copy.default and node.args[0].op == "placeholder"
    ]
    assert any("query_weight" in name for name in conversions)
    assert len(conversions) == len(set(conversions))


def test_an_activation_is_converted_once_for_all_layers_that_read_it():
    graph = draft_block().graph
    products = graph.find_nodes(op="call_function", target=aten.addmm.default)[:3]  # query, key and value
    assert len(products) == 3
    assert len({node.args[1] for node in products}) == 1


def test_a_conversion_there_and_back_goes_and_a_rounding_stays(build_program):
    def convert(x):
        return ((x.float().t().half() + 1).float() * 1.001).half()

    x = sample(4, 3)
    program = build_program(lambda x: (convert(x),), inputs={"x": x}, returns=[(OutputKind.OUTPUT, "y")])
    draft = draft_graph(program.micro, program.constants)
    simplify(draft)
    targets = [node.target for node in draft.graph.nodes if node.op == "call_function"]
    assert targets.count(aten._to_copy.default) == 2
    (found,) = Executable(program, RunOptions()).run([x]).outputs
    assert torch.equal(found, convert(x))


def list_operators(draft):
    nodes = [node for node in draft.graph.nodes if node.op == "call_function" and node.target is not operator.getitem]
    return [f"{node.target.overloadpacket.__name__}:{'half' if is_half(node) else 'float32'}" for node in nodes]


def simplify_function(build_program, function, inputs):
    program = build_program(function, inputs=inputs, returns=[(OutputKind.OUTPUT, "y")])
    draft = draft_graph(program.micro, program.constants)
    simplify(draft)
    return draft


def test_a_rounding_that_changes_a_number_stays(build_program):
    inputs = {"x": sample(4, 4), "w": sample(4, 4, seed=1)}
    draft = simplify_function(build_program, lambda x, w: (F.relu((x @ w) * 1.1) @ w,), inputs)
    operators = list_operators(draft)
    assert operators[operators.index("mm:float32") + 1 :][:3] == ["_to_copy:half", "mul:half", "relu:half"]


MIXED = {
    "operator": lambda a, b: a @ b,
    "reversed": lambda a, b: b @ a,
    "matmul": torch.matmul,
    "mm": lambda a, b: a.mm(b),
    "sum": lambda a, b: torch.addmm(a, b, a),
    "einsum": lambda a, b: torch.einsum("ij,jk->ik", a, b),
    "attention": lambda a, b: F.scaled_dot_product_attention(a[None], b[None], b[None]),
}


@pytest.mark.parametrize("name", MIXED)
def test_a_product_of_half_and_float32_is_computed_in_float32(name):
    half, full = sample(4, 4), torch.rand(4, 4, generator=torch.Generator().manual_seed(1))
    found = run_half(MIXED[name], half, full)
    assert found.dtype is torch.float32
    torch.testing.assert_close(found, MIXED[name](half.float(), full))


@pytest.mark.parametrize("name", ["momentum", "adam", "decoupled decay"])
def test_half_weights_are_updated_in_float32_and_rounded_once(start_training, name):
    makers = {
        "momentum": lambda values: torch.optim.SGD(values, lr=0.3, momentum=0.9),
        "adam": lambda values: torch.optim.Adam(values, lr=0.1),
        "decoupled decay": lambda values: torch.optim.AdamW(values, lr=0.1, weight_decay=0.1),
    }
    torch.manual_seed(0)
    model = Block().half()
    wide = {name: value.detach().float().requires_grad_() for name, value in model.named_parameters()}
    optimizer = makers[name](list(wide.values()))
    leaves = (sample(3, 5, 8), torch.tensor([0, 1, 2]))
    before = Block().half()
    before.load_state_dict(model.state_dict())
    trained = start_training(model, makers[name](list(model.parameters())), leaves, RunOptions(training=True))
    gradients = run_backward(before, *leaves)
    trained.executable.run(leaves)
    for value, gradient in zip(wide.values(), gradients, strict=True):
        value.grad = gradient.float()
    optimizer.step()
    for found, expected in zip(trained.read_weights().values(), wide.values(), strict=True):
        assert found.dtype is torch.float16
        assert count_steps(found, expected.detach().half()) <= 1
        assert (found != 0).any()
