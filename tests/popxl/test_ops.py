"""Results of ops against PyTorch, and their gradients against autograd's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import popxl
from popart import popart_exception
from popxl import ops

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
Y = np.random.default_rng(1).uniform(0.5, 2, size=(3, 4)).astype(np.float32)
IMAGE = np.random.default_rng(2).normal(size=(2, 4, 7, 6)).astype(np.float32)
KERNEL = np.random.default_rng(3).normal(size=(6, 2, 3, 2)).astype(np.float32)
TURNED = np.random.default_rng(4).normal(size=(4, 3, 3, 2)).astype(np.float32)


def sample_region(image: Any, region: Any) -> Any:
    """Means of 2 x 2 samples in each of 2 x 1 cells, each sample by bilinear weights."""
    left, top, right, bottom = region
    width, height = max(right - left, 1), max(bottom - top, 1)
    cells = np.zeros((image.shape[0], 2, 1), np.float32)
    for row in range(4):
        for column in range(2):
            y, x = top + (row + 0.5) * height / 4, left + (column + 0.5) * width / 2
            y0, x0 = int(y), int(x)
            down, across = y - y0, x - x0
            y1, x1 = min(y0 + 1, image.shape[1] - 1), min(x0 + 1, image.shape[2] - 1)
            value = image[:, y0, x0] * (1 - down) * (1 - across) + image[:, y0, x1] * (1 - down) * across
            value = value + image[:, y1, x0] * down * (1 - across) + image[:, y1, x1] * down * across
            cells[:, row // 2, 0] += value / 4
    return cells


DIFFERENTIABLE: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {  # popxl's, torch's, operands
    "abs": (ops.abs, torch.abs, (X,)),
    "add": (ops.add, torch.add, (X, Y[0])),
    "sub": (ops.sub, torch.sub, (X, Y)),
    "mul": (ops.mul, torch.mul, (X, Y[:, :1])),
    "div": (ops.div, torch.div, (X, Y)),
    "pow": (lambda t: ops.pow(t, 3), lambda t: t**3, (Y,)),
    "fmod": (ops.fmod, torch.fmod, (X, Y)),
    "maximum": (ops.maximum, torch.maximum, (X, Y)),
    "scaled add": (lambda a, b: ops.scaled_add(a, b, 2.0, -0.5), lambda a, b: 2 * a - 0.5 * b, (X, Y)),
    "cos": (ops.cos, torch.cos, (X,)),
    "sin": (ops.sin, torch.sin, (X,)),
    "exp": (ops.exp, torch.exp, (X,)),
    "log": (ops.log, torch.log, (Y,)),
    "log2": (ops.log2, torch.log2, (Y,)),
    "sqrt": (ops.sqrt, torch.sqrt, (Y,)),
    "tanh": (ops.tanh, torch.tanh, (X,)),
    "relu": (ops.relu, torch.relu, (X,)),
    "gelu": (ops.gelu, lambda t: F.gelu(t, approximate="tanh"), (X,)),
    "geluerf": (ops.geluerf, F.gelu, (X,)),
    "swish": (ops.swish, F.silu, (X,)),
    "negate": (ops.negate, torch.neg, (X,)),
    "clip": (lambda t: ops.clip(t, -0.5, 0.5), lambda t: t.clamp(-0.5, 0.5), (X,)),
    "where": (lambda a, b: ops.where(ops.greater(a, b), a, b), torch.maximum, (X, Y)),
    "softmax": (lambda t: ops.softmax(t, -1), lambda t: t.softmax(-1), (X,)),
    "sum": (lambda t: ops.sum(t, 1), lambda t: t.sum(1), (X,)),
    "mean": (lambda t: ops.mean(t, [0, 1]), torch.mean, (X,)),
    "max": (lambda t: ops.max(t, 0, keepdims=True), lambda t: t.amax(0, keepdim=True), (X,)),
    "min": (lambda t: ops.min(t, -1), lambda t: t.amin(-1), (X,)),
    "prod": (lambda t: ops.prod(t, (0, 1)), torch.prod, (Y,)),
    "l1": (lambda t: ops.l1(t, 0), lambda t: t.abs().sum(0), (X,)),
    "l2": (lambda t: ops.l2(t, 0), lambda t: t.norm(dim=0), (X,)),
    "logsum": (lambda t: ops.logsum(t, 0), lambda t: t.sum(0).log(), (Y,)),
    "logsumexp": (lambda t: ops.logsumexp(t, 0), lambda t: t.logsumexp(0), (X,)),
    "sumsquare": (lambda t: ops.sumsquare(t, 1), lambda t: (t * t).sum(1), (X,)),
    "median": (lambda t: ops.median(t, 1), lambda t: t.median(1).values, (X,)),
    "cumsum": (lambda t: ops.cumsum(t, 1), lambda t: t.cumsum(1), (X,)),
    "reshape": (lambda t: ops.reshape(t, (2, -1)), lambda t: t.reshape(2, -1), (X,)),
    "transpose": (lambda t: t.T, lambda t: t.T, (X,)),
    "slice": (lambda t: t[1:, ::-2], lambda t: t[1:].flip(1)[:, ::2], (X,)),
    "index": (lambda t: t[-1], lambda t: t[-1], (X,)),
    "squeeze": (lambda t: ops.squeeze(t[0:1]), lambda t: t[0], (X,)),
    "concat": (lambda a, b: ops.concat([a, b], 1), lambda a, b: torch.cat([a, b], 1), (X, Y)),
    "split": (lambda t: ops.split(t, [1, 3], 1)[1], lambda t: t[:, 1:], (X,)),
    "subsample": (lambda t: ops.subsample(t, [2, 3]), lambda t: t[::2, ::3], (X,)),
    "topk": (lambda t: ops.topk(t, 2, 1, True, True)[0], lambda t: t.topk(2, 1).values, (X,)),
    "matmul": (lambda a, b: a @ b.T, lambda a, b: a @ b.T, (X, Y)),
    "batched matmul": (ops.matmul, torch.matmul, (IMAGE[0], IMAGE[1].swapaxes(1, 2).copy())),
    "conv": (
        lambda t, w: ops.conv(t, w, (2, 1), (1, 0, 2, 1), (1, 2), 2),
        lambda t, w: F.conv2d(F.pad(t, (0, 1, 1, 2)), w, None, (2, 1), 0, (1, 2), 2),
        (IMAGE, KERNEL),
    ),
    "conv same": (
        lambda t, w: ops.conv(t, w, groups=2, pad_type="same_upper"),
        lambda t, w: F.conv2d(F.pad(t, (0, 1, 1, 1)), w, groups=2),
        (IMAGE, KERNEL),
    ),
    "conv transpose": (
        lambda t, w: ops.conv_transpose(t, w, (2, 2), (1, 0, 1, 0), output_padding=(1, 0)),
        lambda t, w: F.conv_transpose2d(t, w, None, (2, 2), (1, 0), (1, 0)),
        (IMAGE, TURNED),
    ),
    "max pool": (
        lambda t: ops.max_pool(t, (2, 3), (2, 1), (1, 1, 0, 1)),
        lambda t: F.max_pool2d(F.pad(t, (1, 1, 1, 0), value=-9e9), (2, 3), (2, 1)),
        (IMAGE,),
    ),
    "average pool": (
        lambda t: ops.average_pool(t, (3, 3), (2, 2), (1, 1, 1, 1)),
        lambda t: F.avg_pool2d(t, 3, 2, 1, count_include_pad=False),
        (IMAGE,),
    ),
    "interpolate": (
        lambda t: ops.interpolate(t, (1, 1, 2, 0.5), "linear"),
        lambda t: F.interpolate(t, scale_factor=(2, 0.5), mode="bilinear", recompute_scale_factor=False),
        (IMAGE,),
    ),
    "layer norm": (
        ops.layer_norm,
        lambda t, w, b: F.layer_norm(t, (4,), w, b),
        (X, Y[0], X[1]),
    ),
    "group norm": (
        lambda t, w, b: ops.group_norm(t, w, b, 2),
        lambda t, w, b: F.group_norm(t, 2, w, b),
        (IMAGE, Y[0], X[1]),
    ),
    "add in place": (lambda a, b: ops.add_(ops.mul(a, a), b), lambda a, b: a * a + b, (X, Y)),
    "relu in place": (lambda a: ops.relu_(ops.mul(a, a[0])), lambda a: (a * a[0]).relu(), (X,)),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_results_and_gradients_are_pytorchs(name: str, differentiate: Any) -> None:
    build, reference, operands = DIFFERENTIABLE[name]
    found, gradients = differentiate(build, *operands)
    leaves = [torch.tensor(operand, requires_grad=True) for operand in operands]
    expected = reference(*leaves)
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    expected.backward(torch.arange(1, expected.numel() + 1).reshape(expected.shape).float())
    assert len(gradients) == len(leaves)
    for gradient, leaf in zip(gradients, leaves, strict=True):
        assert leaf.grad is not None
        np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=2e-4, atol=2e-4)


I = np.array([2, 0, 2], np.int32)  # noqa: E741
PLAIN: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "ceil": (ops.ceil, np.ceil, (X,)),
    "floor": (ops.floor, np.floor, (X,)),
    "sign": (ops.sign, np.sign, (X,)),
    "equal": (lambda t: ops.equal(t, ops.relu(t)), lambda t: t >= 0, (X,)),
    "not finite": (lambda t: ops.logical_not(ops.isfinite(ops.log(t))), lambda t: t <= 0, (X,)),
    "isnan": (lambda t: ops.isnan(ops.sqrt(t)), lambda t: t < 0, (X,)),
    "isinf": (lambda t: ops.isinf(ops.exp(t * 1000)), lambda t: t > 0.0888, (X,)),
    "or": (lambda a, b: (a | b) & ~a, lambda a, b: (a | b) & ~a, (X > 0, Y > 1)),
    "argmax": (lambda t: ops.argmax(t, 1), lambda t: t.argmax(1).astype(np.int32), (X,)),
    "argmin": (lambda t: ops.argmin(t, 0, True), lambda t: t.argmin(0).astype(np.int32)[None], (X,)),
    "whole division": (ops.div, lambda a, b: np.trunc(a / b).astype(np.int32), (I - 3, I + 1)),
    "gather": (ops.gather, lambda t, i: t[i], (X, I)),
    "gather of an axis": (lambda t, i: ops.gather(t, i, 1), lambda t, i: t[:, i], (X, I)),
    "gather zeros": (
        lambda t, i: ops.gather(t, i + 1, 0, zero_OOR=True),
        lambda t, i: np.stack([t[0] * 0, t[1], t[0] * 0]),
        (X, I),
    ),
    "grouped gather": (
        lambda t, i: ops.groupedgather(t, i, 1, 2),
        lambda t, i: np.stack([t[0][i[0]], t[1][i[1]]]),
        (IMAGE[:, :, 0], np.array([[0, 2], [3, 3]], np.int32)),
    ),
    "cast": (lambda t: ops.cast(t, popxl.float16), lambda t: t.astype(np.float16), (X,)),
    "increment": (lambda t: ops.increment_mod(t, 2, 3), lambda t: (t + 2) % 3, (I,)),
    "one hot": (
        lambda i: ops.onehot(i, popxl.constant(4), popxl.constant([0.5, 2.0]), -1),
        lambda i: np.where(i[:, None] == np.arange(4), 2.0, 0.5).astype(np.float32),
        (I,),
    ),
    "histogram": (
        lambda t: ops.histogram(t, [0.1, 1.0], True),
        lambda t: np.histogram(np.abs(t), [0, 0.1, 1, 1e9])[0].astype(np.uint32),
        (X,),
    ),
    "scatter": (
        lambda t, i: ops.scatter(t, i.reshape((1, 3)), t[1:2, 0:3], 0),
        lambda t, i: np.array([[t[1, c] if c < 3 and i[c] == r else t[r, c] for c in range(4)] for r in range(3)]),
        (X, I),
    ),
    "scatter reduce": (
        lambda t, i: ops.scatter_reduce(t, i, "sum", axis_size=4),
        lambda t, i: np.stack([t[1], t[0] * 0, t[0] + t[2], t[0] * 0]),
        (X, I),
    ),
    "scatter the largest": (
        lambda t, i: ops.scatter_reduce(t, i, "max", initial_values=t),
        lambda t, i: np.stack([np.maximum(t[0], t[1]), t[1], np.maximum(np.maximum(t[0], t[2]), t[2])]),
        (X, I),
    ),
    "dynamic slice": (
        lambda t, i: ops.dynamic_slice(t, i[0:2], [1, 0], [2, 1], True),
        lambda t, i: t[0:1, 2:4],
        (X, I),
    ),
    "dynamic update": (
        lambda t, i: ops.dynamic_update(t, i[0:1], t[1:2], [0], [1], True),
        lambda t, i: np.stack([t[0], t[1], t[1]]),
        (X, I),
    ),
    "batch norm": (
        ops.batch_norm_inference,
        lambda t, w, b, m, v: F.batch_norm(*map(torch.tensor, (t, m, v, w, b))).numpy(),
        (IMAGE, Y[0], X[0], X[1], Y[1]),
    ),
    "nearest": (
        lambda t: ops.interpolate(t, (1, 1, 2, 3)),
        lambda t: F.interpolate(torch.tensor(t), scale_factor=(2, 3)).numpy(),
        (IMAGE,),
    ),
    "regions": (
        lambda t, r, i: ops.roi_align(t, r, i, (2, 1), 0.5, 2),
        lambda t, r, i: np.stack([sample_region(t[b], r[place] / 2) for place, b in enumerate(i)]),
        (IMAGE, np.array([[0, 0, 8, 8], [2, 4, 10, 6]], np.float32), np.array([1, 0], np.int32)),
    ),
    "mask": (lambda t, m: t[m], lambda t, m: np.where(m, t, 0), (X, X > 0)),
    "diagonal": (lambda t: t[:, 0:3].diag(), lambda t: np.diag(t[:, :3]), (X,)),
    "lamb": (ops.lamb_square, lambda t: (t * t).sum(), (X,)),
    "uint32": (lambda t: t + 1, lambda t: t + np.uint32(1), (np.array([1, 2**32 - 5], np.uint32),)),
}


@pytest.mark.parametrize("name", PLAIN)
def test_results_are_numpys(name: str, evaluate: Any) -> None:
    build, reference, operands = PLAIN[name]
    (found,) = evaluate(build, *operands)
    expected = np.asarray(reference(*operands))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert found.dtype == expected.dtype


def test_gathered_rows_get_the_sum_of_their_gradients(differentiate: Any) -> None:
    _, (gradient,) = differentiate(ops.gather, X, I)
    rows = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(gradient, np.stack([rows[1], rows[1] * 0, rows[0] + rows[2]]))


LABELS = np.array([3, 1, 0], np.int32)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignored", [None, 1])
def test_the_two_ways_to_a_loss_agree_with_cross_entropy(reduction: str, ignored: int | None, evaluate: Any) -> None:
    def build(x: Any, labels: Any) -> Any:
        shares = ops.softmax(x, -1)
        plain = ops.nll_loss(shares, labels, ignored, reduction)
        return plain, *ops.nll_loss_with_softmax_grad(shares, labels, 2.0, ignored, reduction)

    plain, loss, gradient = evaluate(build, X, LABELS)
    x = torch.tensor(X, requires_grad=True)
    index = -100 if ignored is None else ignored
    expected = F.cross_entropy(x, torch.tensor(LABELS).long(), ignore_index=index, reduction=reduction)
    expected.backward(torch.full_like(expected, 2.0))
    np.testing.assert_allclose(plain, expected.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(loss, expected.detach().numpy(), rtol=1e-5)
    assert x.grad is not None
    np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_random_numbers_follow_from_the_seed(evaluate: Any) -> None:
    def build(seed: Any) -> Any:
        first, second = ops.split_random_seed(seed)
        kept = ops.dropout(popxl.constant(np.ones(20000, np.float32)), first, 0.25)
        again = ops.dropout(popxl.constant(np.ones(20000, np.float32)), first, 0.25)
        normal = ops.random_normal(second, (20000,), 1.0, 2.0)
        return kept, again, normal, ops.random_uniform(second, (20000,), -1.0, 3.0, popxl.float16)

    kept, again, normal, uniform = evaluate(build, popxl.create_seeds(7))
    np.testing.assert_array_equal(kept, again)
    assert set(np.unique(kept)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs(kept.mean() - 1) < 0.02
    assert abs(normal.mean() - 1) < 0.05
    assert abs(normal.std() - 2) < 0.05
    assert uniform.dtype == np.float16
    assert -1 <= uniform.min() < -0.99
    assert 2.99 < uniform.max() <= 3
    other, *_ = evaluate(build, popxl.create_seeds(8))
    assert (other != kept).any()


def test_dropout_of_the_backward_pass_is_that_of_forward(differentiate: Any) -> None:
    seed = popxl.create_seeds(3)
    ones = np.ones((40, 5), np.float32)
    found, (gradient,) = differentiate(lambda t, s: ops.dropout(t, s, 0.5), ones, seed)
    np.testing.assert_allclose(gradient, found * np.arange(1, 201).reshape(40, 5), rtol=1e-6)
    shared, _ = differentiate(lambda t, s: ops.shaped_dropout(t, s, (40, 1), 0.5), ones, seed)
    assert (shared == shared[:, :1]).all()
    assert len(np.unique(shared)) == 2


def test_tensors_are_printed_in_every_run(evaluate: Any, capfd: Any) -> None:
    evaluate(lambda t: ops.print_tensor(t, "weights"), np.arange(3, dtype=np.float32))
    assert capfd.readouterr().err.strip() == "weights: [0. 1. 2.]"


def test_what_cannot_be_computed_is_refused_when_it_is_built() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X)
        whole = popxl.variable(I)
        with pytest.raises(popart_exception, match="same type"):
            _ = ops.add(x, ops.cast(x, popxl.float16))
        with pytest.raises(popart_exception, match="MatMul cannot be computed"):
            ops.matmul(x, x)
        with pytest.raises(ValueError, match="at most one '-1'"):
            x.reshape((-1, -1))
        with pytest.raises(ValueError, match="does not equally divide"):
            ops.split(x, 3, 1)
        with pytest.raises(TypeError, match="must have the same type"):
            ops.concat([x, ops.cast(whole, popxl.float16)])
        with pytest.raises(TypeError, match="valid indices"):
            x["a"]
        with pytest.raises(ValueError, match="Not a valid reduction"):
            ops.nll_loss(x, whole, reduction="median")  # type: ignore[arg-type]
        with popxl.ipu(1):
            other = ops.relu(x.copy_to_ipu(1, 0))
        with pytest.raises(ValueError, match="located on different IPUs: 0 != 1"):
            ops.add(ops.relu(x), other)


def test_numbers_of_eight_bits_round_and_scale(evaluate: Any) -> None:
    values = np.array([0.3, -1.1, 240.0, 1000.0], np.float32)

    def build(t: Any) -> Any:
        narrow = ops.pow2scale_cast_to_fp8(t, popxl.constant(0), popxl.float8_143)
        wide = ops.pow2scale_cast_from_fp8(narrow, popxl.constant(1), popxl.float32)
        square = ops.matmul_pow2scaled(narrow[0:2].reshape((1, 2)), narrow[0:2].reshape((2, 1)), popxl.constant(-1))
        return wide, square

    wide, square = evaluate(build, values)
    np.testing.assert_allclose(wide[:3], [0.625, -2.25, 480.0])
    assert np.isnan(wide[3])
    np.testing.assert_allclose(square, [[(0.3125**2 + 1.125**2) / 2]], rtol=1e-3)
