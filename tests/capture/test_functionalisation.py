"""Random programs full of in-place ops and views: the functional graph computes what eager torch computes."""

from __future__ import annotations

import random

import pytest
import torch
from torch import fx, nn

from openipu.capture.functional import rewriting
from openipu.capture.functional.functionalise import finish_graph, make_functional
from openipu.capture.record.recorder import Recorder
from openipu.graph import Note, OutputKind

# Each writes into its first argument. `x` and `y` are tensors of the pool, of any shapes that broadcast.
WRITES = [
    lambda x, y: x.add_(1),
    lambda x, y: x.mul_(0.5),
    lambda x, y: x.copy_(y * 1) if x.shape == y.shape else x.fill_(2),
    lambda x, y: x.zero_(),
    lambda x, y: x.add_(y.clone()) if x.shape == y.shape else x.neg_(),
    lambda x, y: x.__setitem__(0, 3.0),
    lambda x, y: x.clamp_(max=2.5),
]
READS = [
    lambda x, y: x * 2,
    lambda x, y: x.detach(),
    lambda x, y: x[:2],
    lambda x, y: x.t() if x.dim() == 2 else x.view(-1),
    lambda x, y: x.clone(),
    lambda x, y: x + y if x.shape == y.shape else x - 1,
    lambda x, y: x.reshape(-1)[1:],
    lambda x, y: x.view(x.shape),
]


def make_program(seed: int, length: int = 14):
    """A function of two inputs that does `length` random things and returns some of what it made."""
    choices = random.Random(seed)
    script = [(choices.random() < 0.45, choices.randrange(1000), choices.randrange(1000)) for _ in range(length)]
    picks = [choices.randrange(1000) for _ in range(3)]

    def program(a, b):
        pool = [a, b]
        for writes, number, place in script:
            x, y = pool[place % len(pool)], pool[number % len(pool)]
            if writes:
                WRITES[number % len(WRITES)](x, y)
            else:
                pool.append(READS[number % len(READS)](x, y))
        return tuple(pool[pick % len(pool)] for pick in picks)

    return program


@pytest.mark.parametrize("seed", range(60))
def test_a_random_program_computes_what_eager_computes(seed, capture_inference, run_micro):
    program = make_program(seed)
    a, b = torch.arange(9.0).reshape(3, 3), torch.arange(9.0, 18.0).reshape(3, 3)
    eager_a, eager_b = a.clone(), b.clone()
    expected = program(eager_a, eager_b)
    captured = capture_inference(program, a, b)
    for node in captured.micro.module.graph.nodes:
        assert not (isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable)
    results = run_micro(captured, None, a, b)
    for entry, wanted in zip(captured.micro.outputs_of(OutputKind.OUTPUT), expected, strict=True):
        assert torch.equal(results.values[(entry.kind, entry.name)], wanted), entry
    written = results.of(OutputKind.INPUT)
    assert torch.equal(written.get("a", a), eager_a)
    assert torch.equal(written.get("b", b), eager_b)


def record(function, *inputs):
    recorder = Recorder(Note)
    for index, tensor in enumerate(inputs):
        recorder.add_placeholder(f"input_{index}", tensor)
    with torch.no_grad(), recorder:
        outputs = function(*inputs)
    return recorder.graph, tuple(recorder.node_of(output) for output in outputs)


def test_both_ways_to_functionalise_are_in_use_on_these_programs():
    rewritten = []
    for seed in range(60):
        graph, results = record(make_program(seed), *(torch.empty(3, 3, device="meta") for _ in range(2)))
        rewritten.append(rewriting.rewrite_mutations(graph, results) is not None)
    assert 5 <= sum(rewritten) <= 55


def test_the_plain_case_is_rewritten_without_a_replay():
    def function(x):
        y = x * 2
        y += 1
        z = y.view(-1)
        return (z.relu_(), y)

    graph, results = record(function, torch.empty(2, 2, device="meta"))
    assert rewriting.rewrite_mutations(graph, results) is None  # relu_ writes through a view that y shows, too

    def without_view(x):
        y = x * 2
        y += 1
        z = y.view(-1)
        return (z.relu(), y)

    graph, results = record(without_view, torch.empty(2, 2, device="meta"))
    functional = make_functional(graph, results)
    module = finish_graph(functional, functional.results)
    assert isinstance(module, fx.GraphModule)
    x = torch.tensor([[1.0, -2.0], [0.0, 3.0]])
    assert torch.equal(module(x)[0], torch.tensor([3.0, 0.0, 1.0, 7.0]))


def test_a_model_wrapped_in_torch_compile_is_captured_as_plain_python(capture_inference, run_micro):
    inner = nn.Linear(2, 2)
    runs = []

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x):
            runs.append(x.device.type)
            return self.inner(x)

    model = Model()
    program = capture_inference(torch.compile(model), torch.ones(1, 2))
    assert runs == ["ipu"]
    assert [entry.name for entry in program.micro.inputs] == ["_orig_mod.inner.weight", "_orig_mod.inner.bias", "x"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x.bernoulli_(),
        lambda x: x.bernoulli_(0.3),
        lambda x: x.bernoulli_(torch.full_like(x, 0.7)),
        lambda x: x.uniform_(),
        lambda x: x.uniform_(-1, 2),
        lambda x: x.normal_(),
        lambda x: x.normal_(2, 3),
        lambda x: x.exponential_(),
        lambda x: x.geometric_(0.3),
        lambda x: x.log_normal_(),
        lambda x: x.cauchy_(),
        lambda x: x.random_(),
        lambda x: x.random_(5),
        lambda x: x.random_(2, 9),
        lambda x: nn.functional.dropout(x, 0.5),
        lambda x: nn.functional.dropout(x, 0.1, inplace=True),
        lambda x: nn.functional.rrelu(x, training=True),
        lambda x: nn.functional.gumbel_softmax(x, hard=True),
    ],
)
def test_random_ops_draw_what_eager_draws(draw, capture_inference, run_micro):
    x = torch.linspace(-2, 2, 12).reshape(3, 4)
    program = capture_inference(lambda x: draw(x * 1), x)
    torch.manual_seed(7)
    result = run_micro(program, None, x).of(OutputKind.OUTPUT)["output_0"]
    torch.manual_seed(7)
    assert torch.equal(result, draw(x * 1))
