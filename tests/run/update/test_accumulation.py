"""Gradients go into their accumulators by the shortest way, and the sums are those of a plain loop."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from openipu.graph import RunOptions
from openipu.run.drafts.rules import apply_rules
from openipu.run.engine.micro import draft_micro
from openipu.run.rewrites.in_place.accumulation import ADDED_ROWS, accumulate_gradients, add_half_rows, add_rows

aten = torch.ops.aten
WORDS, WIDTH, PADDING = 12, 6, 3


class Language(nn.Module):
    """Looks words up, and scores words with the same matrix or with another one."""

    def __init__(self, *, tied: bool, padding: int | None = None):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=padding)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.score = nn.Linear(WIDTH, WORDS, bias=False)
        if tied:
            self.score.weight = self.words.weight

    def forward(self, tokens, labels):
        scores = self.score(torch.tanh(self.mix(self.words(tokens))))
        return F.cross_entropy(scores.flatten(0, 1), labels.flatten())


def make_model(**settings):
    torch.manual_seed(0)
    return Language(**settings)


def make_tokens(count):
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, WORDS, (count, 5), generator=generator)
    tokens[:, 0], tokens[:, 1] = PADDING, 7  # padding, and a word that comes again and again
    return tokens, torch.randint(0, WORDS, (count, 5), generator=generator)


@pytest.mark.parametrize("accumulation", [1, 4])
@pytest.mark.parametrize("batching", [True, False])
@pytest.mark.parametrize("padding", [None, PADDING])
@pytest.mark.parametrize("tied", [True, False])
def test_training_equals_a_plain_loop(start_training, tied, padding, batching, accumulation):
    model = make_model(tied=tied, padding=padding)
    eager = copy.deepcopy(model)
    options = RunOptions(training=True, gradient_accumulation=accumulation, batching=batching)
    leaves = make_tokens(2 * accumulation)
    trained = start_training(model, torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), leaves, options)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.5, momentum=0.9)
    for _ in range(3):
        trained.executable.run(list(leaves))
        optimizer.zero_grad()
        for part in zip(*(leaf.split(2) for leaf in leaves), strict=True):
            (eager(*part) / accumulation).backward()
        optimizer.step()
    for name, value in trained.read_weights().items():
        torch.testing.assert_close(value, eager.state_dict()[name], rtol=1e-5, atol=1e-6)


def draft_step(start_training, tied, accumulation):
    model = make_model(tied=tied)
    options = RunOptions(training=True, gradient_accumulation=accumulation, batching=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    program = start_training(model, optimizer, make_tokens(2 * accumulation), options).executable.program
    return draft_micro(program, options), {name: torch.zeros_like(value) for name, value in model.named_parameters()}


def list_targets(draft):
    return [node.target for node in draft.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("tied", [True, False])
def test_products_and_rows_are_added_where_they_are_computed(start_training, tied):
    draft, accumulators = draft_step(start_training, tied, 4)
    accumulate_gradients(draft, accumulators, 0.25)
    draft.graph.lint()
    targets = list_targets(draft)
    assert targets.count(torch.Tensor.addmm_) == 2  # of the two matrices that are multiplied with
    assert targets.count(add_rows) == 1
    assert targets.count(torch.Tensor.add_) == 1  # the bias
    assert aten.embedding_dense_backward.default not in targets
    assert aten.add.Tensor not in targets


def test_each_gradient_has_an_operator_of_its_own_where_operators_are_watched(start_training):
    draft, accumulators = draft_step(start_training, True, 4)
    accumulate_gradients(draft, accumulators, 0.25, single=True)
    targets = list_targets(draft)
    assert targets.count(torch.Tensor.add_) == len(accumulators)
    assert aten.embedding_dense_backward.default in targets


def test_rows_are_added_to_the_gradient_of_a_shared_matrix(start_training):
    draft, _ = draft_step(start_training, True, 1)
    before = list_targets(draft)
    assert aten.embedding_dense_backward.default in before
    apply_rules(draft.graph, ADDED_ROWS)
    draft.graph.lint()
    after = list_targets(draft)
    assert aten.embedding_dense_backward.default not in after
    assert after.count(add_rows) == 1
    assert len(after) == len(before) - 1


class Shared(nn.Module):
    """Two weights with one gradient, and a third whose gradient is a sum that holds it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.third, self.first, self.second = (nn.Parameter(torch.randn(4, 4)) for _ in range(3))

    def forward(self, x):
        both = self.first + self.second
        found = x @ (both + self.third) + torch.tanh(x @ self.third)
        return F.mse_loss(found, torch.ones_like(found))


def test_one_gradient_may_belong_to_several_weights(start_training):
    model = Shared()
    eager = copy.deepcopy(model)
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    options = RunOptions(training=True, gradient_accumulation=4, batching=False)
    trained = start_training(model, torch.optim.SGD(model.parameters(), lr=0.5), (x,), options)
    trained.executable.run([x])
    for part in x.split(2):
        (eager(part) / 4).backward()
    torch.optim.SGD(eager.parameters(), lr=0.5).step()
    for name, value in trained.read_weights().items():
        torch.testing.assert_close(value, eager.state_dict()[name])


def test_a_value_that_is_read_again_is_not_written_to(build_program):
    from openipu.graph import OutputKind
    from openipu.run.drafts.draft import draft_graph

    def both(gradient, places, other):
        product = other * 2
        rows = torch.ops.aten.embedding_dense_backward(gradient, places, WORDS, -1, False)
        return product + rows, product

    inputs = {
        "gradient": torch.ones(4, WIDTH),
        "places": torch.tensor([1, 1, 2, 5]),
        "other": torch.ones(WORDS, WIDTH),
    }
    program = build_program(both, inputs=inputs, returns=[(OutputKind.OUTPUT, "sum"), (OutputKind.OUTPUT, "product")])
    draft = draft_graph(program.micro, program.constants)
    apply_rules(draft.graph, ADDED_ROWS)
    assert add_rows not in list_targets(draft)


def test_padding_and_repeated_rows():
    total = torch.ones(4, 2)
    gradient, places = torch.arange(8.0).view(2, 2, 2), torch.tensor([[0, 3], [3, 1]])
    found = add_rows(total, gradient, places, 1, 0.5)
    assert found is total
    # Row 3 is looked up twice: 1 + 0.5 * ((2, 3) + (4, 5)); row 1 is padding.
    assert total.tolist() == [[1, 1.5], [1, 1], [1, 1], [4, 5]]


@pytest.mark.parametrize("padding", [-1, 5, 999], ids=["no padding", "padding that occurs", "padding that does not"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float32 sums", "half sums"])
def test_half_rows_are_added_up_to_the_bits_of_the_whole_table(dtype, padding):
    """A thousand words, of which ten occur, often: every sum is rounded many times, and in one order."""
    numbers = torch.Generator().manual_seed(0)
    gradient = torch.randn(4, 50, 8, generator=numbers).half()
    places = torch.randint(0, 10, (4, 50), generator=numbers) * 5
    total = torch.randn(1000, 8, generator=numbers).to(dtype)
    whole = aten.embedding_dense_backward.default(gradient, places, 1000, padding, False)
    expected = total.clone().add_(whole, alpha=0.25)
    add_half_rows(total, gradient, places, padding, 0.25)
    assert torch.equal(total, expected)


class Labels(nn.Module):
    """Half rows of a large table: each sentence is the sum of its words."""

    def __init__(self, words):
        super().__init__()
        self.words = nn.Embedding(words, WIDTH)

    def forward(self, tokens):
        total = self.words(tokens).sum(1).float()
        return F.mse_loss(total, torch.zeros_like(total))


@pytest.mark.parametrize(("words", "sparse"), [(200, True), (20, False)])
def test_half_embeddings_with_many_more_rows_than_words_have_only_those_added(start_training, words, sparse):
    torch.manual_seed(0)
    model, tokens = Labels(words).half(), (torch.randint(0, 20, (8, 5)),)
    options = RunOptions(training=True, gradient_accumulation=4, batching=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    program = start_training(model, optimizer, tokens, options).executable.program
    draft = draft_micro(program, options)
    accumulate_gradients(draft, {"words.weight": torch.zeros(words, WIDTH)}, 0.25)
    draft.graph.lint()
    assert (add_half_rows in list_targets(draft)) == sparse
    assert (aten.embedding_dense_backward.default in list_targets(draft)) != sparse
