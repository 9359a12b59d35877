"""Connectionist temporal classification against PyTorch's loss, and against all alignments one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as functional

import poplar
from poplar import FLOAT
from popnn import ctc, ctc_infer

TIME, BATCH, CLASSES, LONGEST = 7, 3, 4, 3
RANDOM = np.random.default_rng(7)
LOGITS = RANDOM.normal(size=(TIME, BATCH, CLASSES)).astype(np.float32)
TIMES = np.array([7, 5, 6], np.uint32)
LENGTHS = np.array([3, 1, 2], np.uint32)


def make_labels(blank: int) -> np.ndarray:
    """With a label twice in a row, which needs a blank between."""
    others = [kind for kind in range(CLASSES) if kind != blank]
    return np.array([[others[0], others[0], others[1]], [others[2], 0, 0], [others[1], others[2], 0]], np.uint32)


def run_torch(blank: int) -> tuple[np.ndarray, np.ndarray]:
    logits = torch.from_numpy(LOGITS.astype(np.float64)).requires_grad_()
    loss = functional.ctc_loss(
        torch.log_softmax(logits, 2), torch.from_numpy(make_labels(blank).astype(np.int64)),
        torch.from_numpy(TIMES.astype(np.int64)), torch.from_numpy(LENGTHS.astype(np.int64)), blank, "none",
    )  # fmt: skip
    loss.sum().backward()
    assert logits.grad is not None
    return loss.detach().numpy(), logits.grad.numpy()


def give(bench, blank: int, logits: bool) -> list[poplar.Tensor]:
    data = LOGITS if logits else torch.log_softmax(torch.from_numpy(LOGITS), 2).numpy()
    return [bench.give(one) for one in (data, make_labels(blank), TIMES, LENGTHS)]


@pytest.mark.parametrize("blank", [0, CLASSES - 1])
def test_loss_and_gradient_of_logits_are_pytorchs(bench, blank) -> None:
    plan = ctc.plan(bench.graph, FLOAT, FLOAT, BATCH, TIME, LONGEST, CLASSES)
    given = give(bench, blank, True)
    loss, grad = ctc.calcLossAndGradientLogits(bench.graph, FLOAT, *given, bench.prog, blank, plan)
    alone = ctc.calcCTCLossLogits(bench.graph, FLOAT, *given, bench.prog, blank, plan)
    found = bench.read(loss, grad, alone)
    losses, grads = run_torch(blank)
    np.testing.assert_allclose(found[0], losses, rtol=1e-5)
    np.testing.assert_allclose(found[1], grads, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found[2], found[0])


def test_the_gradient_of_log_probabilities_is_minus_the_share_of_alignments(bench) -> None:
    plan = ctc.plan(bench.graph, FLOAT, FLOAT, BATCH, TIME, LONGEST, CLASSES)
    given = give(bench, 0, False)
    loss, grad = ctc.calcLossAndGradientLogProbabilities(bench.graph, FLOAT, *given, bench.prog, 0, plan)
    alone = ctc.calcCTCLossLogProbabilities(bench.graph, FLOAT, *given, bench.prog, 0, plan)
    losses, grads, again = bench.read(loss, grad, alone)
    np.testing.assert_array_equal(again, losses)
    chances = torch.softmax(torch.from_numpy(LOGITS), 2).numpy()
    for sample in range(BATCH):
        wanted = make_labels(0)[sample][: LENGTHS[sample]].tolist()
        total, shares = 0.0, np.zeros((TIME, CLASSES))
        for path in itertools.product(range(CLASSES), repeat=int(TIMES[sample])):
            if [kind for kind, _ in itertools.groupby(path) if kind != 0] == wanted:
                chance = np.prod([chances[step, sample, kind] for step, kind in enumerate(path)], dtype=np.float64)
                total += chance
                shares[np.arange(len(path)), path] += chance
        assert losses[sample] == pytest.approx(-np.log(total), rel=1e-5)
        np.testing.assert_allclose(grads[:, sample], -shares / total, rtol=1e-4, atol=1e-6)


def test_an_empty_label_sequence_is_all_blanks(bench) -> None:
    plan = ctc.plan(bench.graph, FLOAT, FLOAT, 1, TIME, 1, CLASSES)
    logs = torch.log_softmax(torch.from_numpy(LOGITS[:, :1]), 2).numpy()
    given = [
        bench.give(one) for one in (logs, np.ones((1, 1), np.uint32), np.array([4], np.uint32), np.zeros(1, np.uint32))
    ]
    loss, grad = ctc.calcLossAndGradientLogProbabilities(bench.graph, FLOAT, *given, bench.prog, 0, plan)
    found, grads = bench.read(loss, grad)
    assert found[0] == pytest.approx(-logs[:4, 0, 0].sum(), rel=1e-6)
    expected = np.zeros((TIME, CLASSES))
    expected[:4, 0] = -1
    np.testing.assert_allclose(grads[:, 0], expected, atol=1e-6)


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("logits", [True, False])
def test_a_wide_beam_finds_the_likeliest_label_sequences_of_all(bench, blank, logits) -> None:
    time, classes = 4, 3
    values = RANDOM.normal(size=(time, 2, classes)).astype(np.float32)
    logs = torch.log_softmax(torch.from_numpy(values), 2).numpy()
    times, width, paths = np.array([4, 3], np.uint32), 40, 5
    plan = ctc_infer.plan(bench.graph, FLOAT, 2, time, classes, width)
    decode = ctc_infer.beamSearchDecoderLogits if logits else ctc_infer.beamSearchDecoderLogProbabilities
    data = bench.give(values if logits else logs)
    made = decode(bench.graph, data, bench.give(times), bench.prog, blank, width, paths, plan)
    probs, lengths, labels = bench.read(*made)
    assert labels.shape == (2, paths, time)
    for sample in range(2):
        chances: dict[tuple[int, ...], float] = {}
        for path in itertools.product(range(classes), repeat=int(times[sample])):
            found = tuple(kind for kind, _ in itertools.groupby(path) if kind != blank)
            chance = float(np.exp(sum(logs[step, sample, kind] for step, kind in enumerate(path))))
            chances[found] = chances.get(found, 0.0) + chance
        best = sorted(chances.items(), key=lambda one: -one[1])[:paths]
        decoded = [tuple(labels[sample, at, : lengths[sample, at]].tolist()) for at in range(paths)]
        assert decoded == [found for found, _ in best]
        np.testing.assert_allclose(probs[sample], [-np.log(chance) for _, chance in best], rtol=1e-4)
        assert all((labels[sample, at, lengths[sample, at] :] == blank).all() for at in range(paths))


def test_a_narrow_beam_keeps_what_looks_best_at_each_step(bench) -> None:
    # One beam: after one step the label wins (0.6), and the blanks that would win in the end are gone.
    chances = np.log(np.array([[[0.4, 0.6]], [[0.9, 0.1]]], np.float32))
    plan = ctc_infer.plan(bench.graph, FLOAT, 1, 2, 2, 1)
    made = ctc_infer.beamSearchDecoderLogProbabilities(
        bench.graph, bench.give(chances), bench.give(np.array([2], np.uint32)), bench.prog, 0, 1, 1, plan
    )
    probs, lengths, labels = bench.read(*made)
    assert (lengths.tolist(), labels.tolist()) == ([[1]], [[[1, 0]]])
    assert probs[0, 0] == pytest.approx(-np.log(0.6 * 0.9 + 0.6 * 0.1), rel=1e-5)


def test_shapes_blanks_and_paths_that_cannot_be_are_refused(bench) -> None:
    given = give(bench, 0, True)
    with pytest.raises(poplar.poplar_error, match="blank class 4 is none of 4"):
        ctc.calcCTCLossLogits(bench.graph, FLOAT, *given, bench.prog, 4, ctc.Plan())
    with pytest.raises(poplar.poplar_error, match=r"data are \[time, batch, classes\]"):
        ctc.calcCTCLossLogits(bench.graph, FLOAT, given[1], *given[1:], bench.prog, 0, ctc.Plan())
    with pytest.raises(poplar.poplar_error, match="topPaths is from 1 to the beam width 2, not 3"):
        ctc_infer.beamSearchDecoderLogits(bench.graph, given[0], given[2], bench.prog, 0, 2, 3, ctc.Plan())
