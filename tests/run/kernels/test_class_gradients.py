"""Cross-entropy over many classes: the gradient in one call."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from openipu.graph import EngineMode, OutputKind, RunOptions, Tap
from openipu.run import thresholds
from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.rules import apply_rules
from openipu.run.engine import micro
from openipu.run.engine.micro import draft_micro
from openipu.run.rewrites.fusion.class_gradients import (
    RULES,
    differentiate_classes,
    differentiate_in_place,
)
from openipu.run.rewrites.in_place.reused_memory import reuse_memory

aten = torch.ops.aten
CLASSES = 37
TWO_CALLS = (aten.nll_loss_backward.default, aten._log_softmax_backward_data.default)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(thresholds, "CROSS_ENTROPY_ELEMENTS", 1)
    monkeypatch.setattr(thresholds, "REUSED_ELEMENTS", 1)
    monkeypatch.setattr(thresholds, "CROSS_ENTROPY_CACHED_BYTES", 5 * CLASSES * 4)  # five rows at a time


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that functions are generated from."""
    found = []

    def generate(graph, *arguments):
        found.append(graph)
        return generate_function(graph, *arguments)

    monkeypatch.setattr(micro, "generate_function", generate)
    return found


def count(graph, *targets):
    return sum(node.target in targets for node in graph.nodes)


class Language(nn.Module):
    """Predicts the token after each place."""

    def __init__(self, lose, twice=False):
        super().__init__()
        self.embed, self.classify = nn.Embedding(CLASSES, 16), nn.Linear(16, CLASSES)
        self.lose, self.twice = lose, twice

    def forward(self, tokens, labels):
        logits = self.classify(self.embed(tokens))
        loss = self.lose(logits, labels)
        return (logits, loss) if self.twice else loss


def shift(logits, labels, **options):
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), **options)


def shift_forward(logits, labels):
    """A place predicts the token before it."""
    return functional.cross_entropy(logits[:, 1:].reshape(-1, CLASSES), labels[:, :-1].reshape(-1))


def keep_all(logits, labels, **options):
    return functional.cross_entropy(logits.view(-1, CLASSES), labels.view(-1), **options)


def train(start_training, model, length=9, samples=3, ignored=None, **options):
    """Losses of three steps and weights, here and in eager PyTorch, and what the last run gave."""
    torch.manual_seed(0)
    batches = options.get("gradient_accumulation", 1)
    tokens, labels = (torch.randint(0, CLASSES, (samples * batches, length)) for _ in range(2))
    if ignored is not None:
        labels[:, ::4] = ignored
    mine, eager = copy.deepcopy(model), copy.deepcopy(model)
    run_options = RunOptions(training=True, engine=EngineMode.OPERATORS, **options)
    trained = start_training(mine, torch.optim.SGD(mine.parameters(), lr=0.5), (tokens, labels), run_options)
    optimizer, losses, wanted = torch.optim.SGD(eager.parameters(), lr=0.5), [], []
    for _ in range(3):
        results = trained.executable.run([tokens, labels])
        losses.append(results.outputs[-1].reshape(-1)[-1])
        for batch in zip(tokens.chunk(batches), labels.chunk(batches), strict=True):
            found = eager(*batch)
            loss = found[-1] if model.twice else found
            (loss / batches).backward()
        wanted.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    if batches == 1:
        torch.testing.assert_close(losses, wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(trained.read_weights(), eager.state_dict(), rtol=1e-4, atol=1e-6)
    return results


@pytest.mark.parametrize("batches", [1, 4])
@pytest.mark.parametrize("length", [4, 9, 32])
@pytest.mark.parametrize("lose", [shift, shift_forward, keep_all])
def test_a_language_model_trains_as_in_pytorch(start_training, graphs, lose, length, batches):
    train(start_training, Language(lose), length, gradient_accumulation=batches)
    assert count(graphs[-1], *TWO_CALLS) == 0
    assert count(graphs[-1], differentiate_in_place) == 1
    assert count(graphs[-1], aten._log_softmax.default) == 0  # in place, too


@pytest.mark.parametrize("batches", [1, 4])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("ignored", [-100, -1, 0, 5])
@pytest.mark.parametrize("lose", [shift, keep_all])
def test_labels_that_are_ignored_have_no_gradient(start_training, graphs, lose, ignored, reduction, batches):
    model = Language(lambda *values: lose(*values, ignore_index=ignored, reduction=reduction))
    train(start_training, model, ignored=ignored, gradient_accumulation=batches)
    assert count(graphs[-1], differentiate_in_place) == 1


def test_smoothed_labels_have_their_own_gradient(start_training, graphs):
    train(start_training, Language(lambda *values: shift(*values, label_smoothing=0.1)))


def test_a_weighted_loss_stays_two_calls(start_training, graphs):
    train(start_training, Language(_Weighted(torch.rand(CLASSES))))
    assert count(graphs[-1], *TWO_CALLS) == 2


class _Weighted(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.register_buffer("weights", weights)

    def forward(self, logits, labels):
        return keep_all(logits, labels, weight=self.weights)


def lose_codebooks(logits, labels):
    """Two classes a token, each from its own part of the classes' first 36."""
    parts = logits[:, :-1, :36].reshape(-1, 18)
    return functional.cross_entropy(parts, labels[:, 1:].repeat_interleave(2, 1).flatten() % 18)


def lose_parts_of_a_softmax(logits, labels):
    """The rows that the loss reads are thirds of those that were normalized."""
    parts = functional.log_softmax(logits[..., :36], -1).view(-1, 12)
    return functional.nll_loss(parts, labels.repeat_interleave(3, 1).flatten() % 12)


def lose_first(logits, labels):
    return functional.cross_entropy(logits[:, :3].flatten(0, 1), labels[:, :3].flatten())


def lose_a_single_row(logits, labels):
    return functional.cross_entropy(logits[0, 0], labels[0, 0])


@pytest.mark.parametrize("lose", [lose_first, lose_codebooks, lose_parts_of_a_softmax, lose_a_single_row])
@pytest.mark.parametrize("batches", [1, 4])
def test_losses_of_parts_of_the_logits_have_their_own_gradients(start_training, lose, batches):
    train(start_training, Language(lose), gradient_accumulation=batches)


def test_logits_that_are_returned_are_those_of_the_model(start_training, graphs):
    results = train(start_training, Language(shift, twice=True))
    assert results.outputs[0].exp().sum(-1).sub(1).abs().min() > 1e-3  # and not their logarithmic softmax


def test_logarithms_that_are_tapped_are_not_written_over(start_training, graphs):
    results = train(start_training, Language(keep_all), taps=(Tap("logarithms", "_log_softmax:0"),))
    torch.testing.assert_close(results.taps["logarithms"].exp().sum(-1), torch.ones(27))


def test_checked_arithmetic_is_that_which_the_model_writes(start_training, graphs):
    train(start_training, Language(shift), floating_point_exceptions=True)
    assert count(graphs[-1], differentiate_in_place, differentiate_classes) == 0


def run_layer(build_program, layer, values):
    returns = [(OutputKind.OUTPUT, str(place)) for place in range(len(layer(*values)))]
    program = build_program(layer, inputs=dict(zip(("logits", "labels"), values, strict=True)), returns=returns)
    draft = draft_micro(program, RunOptions())
    apply_rules(draft.graph, RULES)
    reuse_memory(draft)
    draft.graph.lint()
    return draft.graph, generate_function(draft.graph, draft.bound, "test")(*values)


def make_layer(extra=lambda logarithms, picked: (), reduction=1):
    def layer(logits, labels):
        logarithms = aten._log_softmax(logits * 2, 1, False)
        loss, total = aten.nll_loss_forward(logarithms, labels, None, reduction, -100)
        picked = aten.nll_loss_backward(loss.exp() - 2, logarithms, labels, None, reduction, -100, total)
        return (loss, aten._log_softmax_backward_data(picked, logarithms, 1, logits.dtype), *extra(logarithms, picked))

    return layer


def draw(rows=11, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn((rows, CLASSES), generator=generator)).to(dtype)
    return [logits, torch.randint(0, CLASSES, (rows,), generator=generator)]


@pytest.mark.parametrize("rows", [1, 5, 11, 20])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_the_gradient_of_a_loss_weighs_that_of_its_rows(build_program, rows, reduction):
    layer, values = make_layer(reduction=reduction), draw(rows)
    values[0] /= 8  # losses whose exponentials are numbers like 40
    values[1][::4] = -100
    graph, found = run_layer(build_program, layer, values)
    assert count(graph, differentiate_in_place) == 1
    wanted = layer(*values)
    torch.testing.assert_close(tuple(found), wanted, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_logarithms_that_are_read_later_are_not_written_over(build_program):
    layer, values = make_layer(lambda logarithms, picked: (logarithms.exp(),)), draw()
    graph, found = run_layer(build_program, layer, values)
    assert [count(graph, differentiate_classes), count(graph, differentiate_in_place)] == [1, 0]
    torch.testing.assert_close(tuple(found), tuple(layer(*values)), rtol=1e-5, atol=1e-7)


def test_a_gradient_that_somebody_else_reads_stays_two_calls(build_program):
    layer, values = make_layer(lambda logarithms, picked: (picked.sum(0),)), draw()
    graph, found = run_layer(build_program, layer, values)
    assert count(graph, *TWO_CALLS) == 2
    torch.testing.assert_close(tuple(found), tuple(layer(*values)), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_formats_stay_two_calls(build_program, dtype):
    values = draw(dtype=dtype)
    graph, found = run_layer(build_program, make_layer(), values)
    assert count(graph, *TWO_CALLS) == 2
    torch.testing.assert_close(tuple(found), tuple(make_layer()(*values)), rtol=0, atol=0)


def test_rows_without_a_class_have_no_gradient_whatever_they_are(build_program):
    values = draw()
    values[0][3:5] = torch.tensor([float("nan"), float("inf")]).unsqueeze(1)
    values[1][3:5] = -100
    _, found = run_layer(build_program, make_layer(), values)
    kept = [row for row in range(11) if row not in (3, 4)]
    wanted = make_layer()(values[0][kept], values[1][kept])
    assert not found[1][3:5].any()
    torch.testing.assert_close((found[0], found[1][kept]), wanted, rtol=1e-5, atol=1e-7)


def test_without_any_class_there_is_no_gradient(build_program):
    values = draw()
    values[1][:] = -100
    _, found = run_layer(build_program, make_layer(), values)
    assert found[0].isnan()
    assert not found[1].any()


def test_a_class_that_does_not_exist_is_an_error(build_program):
    values = draw()
    wrong = [values[0], values[1].clone()]
    wrong[1][2] = CLASSES
    with pytest.raises(IndexError, match="out of bounds"):
        _run_with(build_program, values, wrong)


def _run_with(build_program, values, given):
    """Build for some values, run with others."""
    program = build_program(
        make_layer(),
        inputs=dict(zip(("logits", "labels"), values, strict=True)),
        returns=[(OutputKind.OUTPUT, "loss"), (OutputKind.OUTPUT, "gradient")],
    )
    draft = draft_micro(program, RunOptions())
    apply_rules(draft.graph, RULES)
    return generate_function(draft.graph, draft.bound, "test")(*given)
