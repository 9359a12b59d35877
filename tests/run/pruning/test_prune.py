"""What is read alone is computed alone, with the results of eager PyTorch."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import torch
from torch import nn

from openipu.capture import capture_program, describe_optimizer
from openipu.graph import RunOptions, Tap
from openipu.run import Executable
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.random_numbers import RANDOM_BITS, compute_bits, random_rows, sample_bits, sample_rows
from openipu.run.engine import pass_list
from openipu.run.engine.micro import draft_micro

aten = torch.ops.aten

TOKENS, WIDTH, HEADS, CLASSES = 6, 16, 2, 3
PRODUCTS = (aten.mm.default, aten.addmm.default, aten.bmm.default)


class Block(nn.Module):
    """A layer of a transformer, its norms first or last."""

    def __init__(self, dropout: float = 0.0, first: bool = False) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.drop, self.first = nn.Dropout(dropout), first

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        for part, norm in ((self.attend, self.norms[0]), (self.think, self.norms[1])):
            if self.first:
                tokens = tokens + self.drop(part(norm(tokens)))
            else:
                tokens = norm(tokens + self.drop(part(tokens)))
        return tokens

    def attend(self, tokens: torch.Tensor) -> torch.Tensor:
        batch, count, width = tokens.shape
        query, key, value = (
            layer(tokens).view(batch, count, HEADS, -1).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        scores = torch.softmax(query @ key.transpose(-2, -1) / 3, -1)
        return self.out((self.drop(scores) @ value).transpose(1, 2).reshape(batch, count, width))

    def think(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.narrow(nn.functional.gelu(self.wide(tokens)))


class Classifier(nn.Module):
    """Layers, and a classifier on one token."""

    def __init__(self, layers: int = 2, token: Any = 0, **options: Any) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block(**options) for _ in range(layers)))
        self.head, self.token = nn.Linear(WIDTH, CLASSES), token

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.head(self.blocks(tokens)[:, self.token].reshape(len(tokens), WIDTH))
        return scores, nn.functional.cross_entropy(scores, labels)


def make_inputs(batch: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, TOKENS, WIDTH), torch.randint(0, CLASSES, (batch,))


def make_draft(model: nn.Module, inputs: tuple[torch.Tensor, ...], *, training: bool = True, **options: Any) -> Draft:
    spec = None
    if training:
        names = {id(value): name for name, value in model.named_parameters()}
        spec = describe_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), names)
    program = capture_program(model, inputs, {}, training=training, optimizer=spec, name="model")
    return draft_micro(program, RunOptions(training=training, **options))


def list_products(draft: Draft) -> list[tuple[int, ...]]:
    return [tuple(node.meta["val"].shape) for node in draft.graph.nodes if node.target in PRODUCTS]


def count_multiplications(draft: Draft) -> int:
    """Of all products."""
    total = 0
    for node in draft.graph.nodes:
        if node.target in PRODUCTS:
            left = node.args[1 if node.target is aten.addmm.default else 0]
            total += node.meta["val"].numel() * left.meta["val"].shape[-1]
    return total


def train(start_training: Any, model: nn.Module, inputs: tuple[torch.Tensor, ...], **options: Any) -> Any:
    """Losses of three steps and the weights after them."""
    model = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trained = start_training(model, optimizer, inputs, RunOptions(training=True, random_seed=5, **options))
    losses = [trained.executable.run(list(inputs)).outputs[-1] for _ in range(3)]
    return losses, trained.read_weights()


def train_eagerly(model: nn.Module, inputs: tuple[torch.Tensor, ...], batches: int = 1) -> Any:
    model = copy.deepcopy(model)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(3):
        for batch in zip(*(value.chunk(batches) for value in inputs), strict=True):
            loss = model(*batch)[-1]
            (loss / batches).backward()
        losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    return losses, model.state_dict()


def compare(found: Any, expected: Any, batches: int = 1) -> None:
    if batches == 1:
        for loss, wanted in zip(found[0], expected[0], strict=True):
            torch.testing.assert_close(loss.reshape(()), wanted.reshape(()), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("first", [False, True], ids=["norms last", "norms first"])
@pytest.mark.parametrize("token", [0, 2, -1, slice(0, 1), slice(-1, None)], ids=str)
def test_a_classifier_on_one_token_trains_as_in_eager_pytorch(start_training, token, first):
    model, inputs = Classifier(token=token, first=first), make_inputs()
    compare(train(start_training, model, inputs), train_eagerly(model, inputs))


@pytest.mark.parametrize("batch", [1, 2, TOKENS, WIDTH])
def test_sizes_that_are_equal_are_not_mistaken_for_each_other(start_training, batch):
    model, inputs = Classifier(), make_inputs(batch)
    compare(train(start_training, model, inputs), train_eagerly(model, inputs))


@pytest.mark.parametrize("batches", [2, 4])
def test_accumulation_gives_what_a_loop_of_eager_pytorch_gives(start_training, batches):
    model, inputs = Classifier(), make_inputs(8)
    found = train(start_training, model, inputs, gradient_accumulation=batches)
    compare(found, train_eagerly(model, inputs, batches), batches)


@pytest.mark.parametrize("batches", [1, 4])
def test_dropout_keeps_the_same_elements(start_training, monkeypatch, batches):
    model, inputs = Classifier(dropout=0.3), make_inputs(4)
    found = train(start_training, model, inputs, gradient_accumulation=batches)
    monkeypatch.setattr(pass_list, "prune_rows", lambda draft: None)
    compare(found, train(start_training, model, inputs, gradient_accumulation=batches), batches)


def test_inference_gives_the_results_of_eager_pytorch():
    model, inputs = Classifier().eval(), make_inputs()
    program = capture_program(model, inputs, {}, training=False, optimizer=None, name="model")
    executable = Executable(program, RunOptions())
    executable.load_weights(dict(model.named_parameters()), {})
    with torch.no_grad():
        expected = model(*inputs)
    torch.testing.assert_close(tuple(executable.run(list(inputs)).outputs), expected, rtol=1e-5, atol=1e-6)


def test_of_the_last_layer_keys_and_values_alone_are_computed_for_all_tokens():
    inputs = make_inputs()
    products = list_products(make_draft(Classifier(layers=1).eval(), inputs, training=False))
    rows, heads = 4 * TOKENS, 4 * HEADS
    assert sorted(products) == sorted(
        [
            *((rows, WIDTH), (rows, WIDTH)),  # keys and values
            *((4, WIDTH), (heads, 1, TOKENS), (heads, 1, WIDTH // HEADS), (4, WIDTH)),  # query, attention, output
            *((4, 4 * WIDTH), (4, WIDTH), (4, CLASSES)),
        ]
    )


def test_a_training_step_multiplies_no_more_than_it_must():
    """Forward, gradients of inputs and of weights: three times what the products of a layer take, but for the first
    layer's inputs, which have no gradient."""
    batch = 4
    rows, layer = batch * TOKENS, WIDTH * WIDTH
    whole = 2 * rows * layer  # keys and values
    alone = batch * (2 + 8) * layer + batch * WIDTH * CLASSES  # query and output, the wide layers, the classifier
    attention = 2 * batch * TOKENS * WIDTH
    inputs = (2 * rows + batch) * layer  # of the first layer's keys, values and query
    expected = 3 * (whole + alone + attention) - inputs
    assert count_multiplications(make_draft(Classifier(layers=1), make_inputs(batch))) == expected


def test_what_somebody_reads_is_computed():
    class Reader(Classifier):
        def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> Any:
            encoded = self.blocks(tokens)
            return encoded.sum(1), nn.functional.cross_entropy(self.head(encoded[:, 0]), labels)

    inputs = make_inputs()
    products = list_products(make_draft(Reader(layers=1).eval(), inputs, training=False))
    assert products.count((4 * TOKENS, WIDTH)) == 5  # query, key, value, output, and the last of the wide layers
    assert all(shape[0] != 4 for shape in products if shape != (4, CLASSES))


def test_a_tapped_value_is_whole():
    inputs, model = make_inputs(), Classifier(layers=1).eval()
    program = capture_program(model, inputs, {}, training=False, optimizer=None, name="model")
    executable = Executable(program, RunOptions(taps=(Tap("last", "blocks/0/norms/1/native_layer_norm:0"),)))
    executable.load_weights(dict(model.named_parameters()), {})
    with torch.no_grad():
        expected = model.blocks(inputs[0])
    torch.testing.assert_close(executable.run(list(inputs)).taps["last"], expected, rtol=1e-5, atol=1e-6)


def test_without_products_to_spare_nothing_is_changed(monkeypatch):
    class Mean(nn.Module):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return torch.tanh(tokens * 2)[:, 0]

    inputs = (torch.randn(4, TOKENS, WIDTH),)
    found = [node.name for node in make_draft(Mean(), inputs, training=False).graph.nodes]
    monkeypatch.setattr(pass_list, "prune_rows", lambda draft: None)
    assert found == [node.name for node in make_draft(Mean(), inputs, training=False).graph.nodes]


def test_where_exceptions_are_looked_for_every_entry_is_computed():
    inputs = make_inputs()
    model = Classifier(layers=1).eval()
    products = list_products(make_draft(model, inputs, training=False, floating_point_exceptions=True))
    assert products.count((4 * TOKENS, WIDTH)) == 5


@pytest.mark.parametrize("seed", [torch.tensor(7, dtype=torch.int32), torch.tensor([7, 8, 9], dtype=torch.int32)])
def test_rows_are_sampled_as_in_the_whole_sample(seed):
    whole = sample_bits(seed, 3, (4, TOKENS, 5))
    for index in (0, 2, TOKENS - 1):
        expected = whole[..., index : index + 1, :]
        arguments = (seed, 3, [4, 1, 5], index, TOKENS)
        assert torch.equal(sample_rows(*arguments), expected)
        assert torch.equal(compute_bits(*arguments), expected)
        assert torch.equal(random_rows(*arguments), expected)


def test_stochastic_rounding_samples_numbers_of_its_own():
    inputs = tuple(value.half() if value.is_floating_point() else value for value in make_inputs())
    draft = make_draft(Classifier(dropout=0.3).half(), inputs, stochastic_rounding=True)
    samples = [node.args[1] for node in draft.graph.nodes if node.target in RANDOM_BITS]
    assert any(node.target is random_rows for node in draft.graph.nodes)
    assert len(samples) == len(set(samples))


class FusedAttention(Block):
    """Attention by PyTorch's function, which computes half numbers in float32, and converts its gradients back."""

    def attend(self, tokens: torch.Tensor) -> torch.Tensor:
        batch, count, width = tokens.shape
        heads = [
            layer(tokens).view(batch, count, HEADS, -1).transpose(1, 2) for layer in (self.query, self.key, self.value)
        ]
        found = nn.functional.scaled_dot_product_attention(*heads, dropout_p=0.1)
        return self.out(found.transpose(1, 2).reshape(batch, count, width))


def test_attention_in_half_is_computed_for_the_same_tokens_as_in_float32():
    model, inputs = Classifier(), make_inputs()
    model.blocks = nn.Sequential(FusedAttention(), FusedAttention())
    narrow = [value.half() if value.is_floating_point() else value for value in inputs]
    expected = list_products(make_draft(model, inputs))
    found = list_products(make_draft(copy.deepcopy(model).half(), tuple(narrow)))
    assert sorted(found) == sorted(expected)
    assert (4 * HEADS, 1, TOKENS) in found, "scores of one token"


class Scrambled(nn.Module):
    """Operators in an order that was sampled, then one entry of a dimension that was sampled."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        sample = random.Random(seed)
        self.steps = [sample.choice(("linear", "norm", "gelu", "turn", "mix", "add", "flat", "soft")) for _ in range(7)]
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in self.steps)  # every dimension has four entries
        self.dim, self.index = sample.randrange(3), sample.randrange(4)

    def forward(self, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        start = value
        for step, layer in zip(self.steps, self.layers, strict=True):
            if step == "linear":
                value = layer(value)
            elif step == "norm":
                value = nn.functional.layer_norm(value, (4,), layer.bias + 1, layer.bias)
            elif step == "gelu":
                value = nn.functional.gelu(value) * layer.bias
            elif step == "turn":
                value = value.transpose(0, 1)
            elif step == "mix":
                value = torch.bmm(value, layer(start).transpose(1, 2))
            elif step == "add":
                value = value + layer(start)
            elif step == "flat":
                value = layer(value.reshape(16, 4)).view(4, 4, 4)
            else:
                value = torch.softmax(value, -1)
        chosen = value.select(self.dim, self.index)
        return chosen, nn.functional.mse_loss(chosen, torch.zeros_like(chosen))


@pytest.mark.parametrize("seed", range(60))
def test_operators_in_any_order_give_the_gradients_of_eager_pytorch(start_training, seed):
    torch.manual_seed(seed)
    model, inputs = Scrambled(seed), (torch.randn(4, 4, 4),)
    compare(train(start_training, model, inputs), train_eagerly(model, inputs))


class AddedProduct(nn.Module):
    """A product that is added to a matrix, of which one row is read."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, WIDTH))

    def forward(self, tokens: torch.Tensor, added: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        row = torch.addmm(added, tokens, self.weight)[2]
        return row, nn.functional.mse_loss(row, torch.ones_like(row))


@pytest.mark.parametrize("shape", [(TOKENS, WIDTH), (TOKENS, 1), (1, WIDTH), (WIDTH,), (1,)], ids=str)
def test_a_product_that_is_added_to_anything_gives_one_row(start_training, shape):
    torch.manual_seed(0)
    model, inputs = AddedProduct(), (torch.randn(TOKENS, 4), torch.randn(shape))
    compare(train(start_training, model, inputs), train_eagerly(model, inputs))


class PartlyFrozen(nn.Module):
    """A norm over as many features as there are samples; a single one of its weights is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.sample, self.scale = nn.Parameter(torch.randn(1, 4)), nn.Parameter(torch.randn(1))
        for name, shape in (("samples", (3, 4)), ("scales", (3,)), ("matrix", (4, 4))):
            self.register_buffer(name, torch.randn(shape))

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scales = torch.cat([self.scale, self.scales])
        normed = nn.functional.layer_norm(torch.cat([self.sample, self.samples]), (4,), scales)
        return normed, nn.functional.mse_loss(normed @ self.matrix, tokens)


def test_one_entry_of_the_gradient_of_a_weight_is_a_sum_over_all_samples(start_training):
    torch.manual_seed(0)
    model, inputs = PartlyFrozen(), (torch.randn(4, 4),)
    compare(train(start_training, model, inputs), train_eagerly(model, inputs))
