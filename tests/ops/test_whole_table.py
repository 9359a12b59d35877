"""Every row of the table, driven by real ATen calls at two sizes: finite, never negative, never cheaper when larger."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from openipu.machine import list_targets
from openipu.ops import CostContext, Family, Operand, OpSite, cost_op, find_rule, list_ops
from openipu.ops.phases import total_cycles
from openipu.ops.rules.views import cost_marker, cost_view

aten = torch.ops.aten
Call = Callable[[int], Any]


def t(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(*shape, device="meta", dtype=dtype).requires_grad_(dtype.is_floating_point)


def i(*shape: int) -> torch.Tensor:
    return t(*shape, dtype=torch.int64)


def square(n: int) -> torch.Tensor:
    return t(64 * n, 64 * n)


def image(n: int) -> torch.Tensor:
    return t(2 * n, 16, 16 * n, 16 * n)


def volume(n: int) -> torch.Tensor:
    return t(2 * n, 4, 8 * n, 8, 8)


def apply(names: str, make: Callable[[int], tuple[Any, ...]]) -> Iterable[Call]:
    """One call for each name, of `aten` with the arguments that `make` gives."""
    for name in names.split():
        yield lambda n, name=name: getattr(aten, name)(*make(n))


def apply_function(names: str, make: Callable[[int], tuple[Any, ...]]) -> Iterable[Call]:
    for name in names.split():
        yield lambda n, name=name: getattr(functional, name)(*make(n))


CALLS: list[Call] = [
    *apply(
        """abs neg sign sgn square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p logit sin cos tan asin acos
        atan sinh cosh asinh acosh atanh erf erfc lgamma floor ceil round trunc frac isnan isinf logical_not nan_to_num
        tril triu relu celu log_sigmoid_forward softplus mish elu leaky_relu hardtanh hardsigmoid hardswish hardshrink
        softshrink silu tanh sigmoid gelu sum mean nansum count_nonzero prod amax amin aminmax all any max min argmax
        argmin std var std_mean var_mean sort median clone alias detach zeros_like ones_like empty_like rand_like
        randn_like bernoulli""",
        lambda n: (square(n),),
    ),
    *apply(
        """add sub rsub mul div remainder fmod pow maximum minimum fmax fmin hypot atan2 logaddexp xlogy eq ne lt le gt
        ge logical_and logical_or logical_xor mse_loss smooth_l1_loss huber_loss
        binary_cross_entropy_with_logits expand_as view_as""",
        lambda n: (square(n), square(n)),
    ),
    *apply("copy floor_divide", lambda n: (square(n).detach(), square(n).detach())),
    *apply("soft_margin_loss", lambda n: (square(n), square(n).detach())),
    *apply("split unsafe_split", lambda n: (square(n), 32 * n)),
    lambda n: torch.div(square(n), square(n), rounding_mode="floor"),
    *apply("lerp addcmul addcdiv", lambda n: (square(n), square(n), square(n))),
    *apply("clamp", lambda n: (square(n), 0.0, 1.0)),
    *apply(
        "clamp_min clamp_max cumsum cumprod cummax cummin logsumexp",
        lambda n: (square(n), 1),
    ),
    *apply(
        "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift", lambda n: (i(64 * n), i(64 * n))
    ),
    *apply("bitwise_not", lambda n: (i(64 * n),)),
    *apply("bucketize", lambda n: (t(64 * n).detach(), t(8 * n).detach())),
    *apply("searchsorted", lambda n: (t(8 * n).detach(), t(64 * n).detach())),
    *apply("threshold", lambda n: (square(n), 0.1, 0.0)),
    *apply("glu", lambda n: (square(n), 1)),
    *apply("topk kthvalue", lambda n: (square(n), 4)),
    *apply("norm linalg_vector_norm", lambda n: (square(n), 2)),
    *apply("linalg_cross", lambda n: (t(64 * n, 3), t(64 * n, 3))),
    *apply("_softmax _log_softmax", lambda n: (square(n), 1, False)),
    *apply("_safe_softmax", lambda n: (square(n), 1)),
    *apply("view reshape expand", lambda n: (square(n), [64 * n, 64 * n])),
    lambda n: aten.permute(square(n), [1, 0]),
    lambda n: aten.repeat(square(n), [1, 2]),
    lambda n: aten.roll(square(n), [1], [0]),
    lambda n: square(n).where(square(n) > 0, 0.0).masked_fill(square(n) > 0, 1.0).half(),
    lambda n: functional.prelu(square(n), t(64 * n)),
    lambda n: functional.rrelu(square(n), training=True),
    lambda n: (square(n) @ square(n)).sum(0),
    lambda n: t(4, 32 * n, 32) @ t(4, 32, 32 * n),
    lambda n: aten.mv(square(n), t(64 * n)) + aten.dot(t(64 * n), t(64 * n)),
    lambda n: torch.addmm(t(64 * n), square(n), square(n)),
    lambda n: torch.addmv(t(64 * n), square(n), t(64 * n)),
    lambda n: torch.addbmm(t(8, 8), t(4 * n, 8, 8), t(4 * n, 8, 8)),
    lambda n: torch.baddbmm(t(4, 8, 8), t(4, 8, 8 * n), t(4, 8 * n, 8)),
    lambda n: functional.bilinear(t(8 * n, 8), t(8 * n, 8), t(4, 8, 8)),
    lambda n: functional.conv2d(image(n), t(8, 16, 3, 3), t(8), stride=2),
    lambda n: functional.conv_transpose2d(image(n), t(16, 8, 3, 3), t(8), stride=2),
    lambda n: functional.conv1d(t(2, 8, 64 * n), t(8, 4, 3), groups=2),
    lambda n: functional.conv3d(volume(n), t(8, 4, 3, 3, 3)),
    lambda n: functional.layer_norm(square(n), (64 * n,), t(64 * n), t(64 * n)),
    lambda n: functional.group_norm(image(n), 4, t(16), t(16)),
    lambda n: functional.batch_norm(image(n), t(16).detach(), t(16).detach(), t(16), t(16), training=True),
    lambda n: (
        functional.cross_entropy(square(n), i(64 * n)) + functional.cross_entropy(image(n), i(2 * n, 16 * n, 16 * n))
    ),
    lambda n: functional.binary_cross_entropy(square(n), square(n).detach()),
    lambda n: functional.embedding(i(64 * n), square(n)),
    lambda n: functional.embedding_bag(i(16 * n, 4), square(n)),
    lambda n: aten.index_select(square(n), 0, i(32 * n)) + square(n)[i(32 * n)],
    lambda n: aten.gather(square(n), 1, i(64 * n, 8)) + torch.take(square(n), i(64 * n, 8)),
    lambda n: square(n).scatter(1, i(64 * n, 8), 1.0).scatter_add(1, i(64 * n, 8), t(64 * n, 8)),
    lambda n: square(n).scatter_reduce(1, i(64 * n, 8), t(64 * n, 8), "sum"),
    lambda n: square(n).index_add(0, i(32 * n), t(32 * n, 64 * n)).index_copy(0, i(32 * n), t(32 * n, 64 * n)),
    lambda n: square(n).index_put((i(32 * n),), t(32 * n, 64 * n)).index_fill(0, i(32 * n), 0.0),
    lambda n: functional.grid_sample(image(n), t(2 * n, 8, 8, 2), align_corners=False),
    *apply_function("max_pool2d avg_pool2d", lambda n: (image(n), 2)),
    *apply_function("max_pool3d avg_pool3d", lambda n: (volume(n), 2)),
    *apply_function("adaptive_avg_pool2d adaptive_max_pool2d", lambda n: (image(n), 4)),
    *apply_function("adaptive_avg_pool3d adaptive_max_pool3d", lambda n: (volume(n), 4)),
    *(
        lambda n, mode=mode: functional.interpolate(image(n), scale_factor=2, mode=mode)
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")
    ),
    *(
        lambda n, mode=mode: functional.interpolate(t(2, 8, 16 * n), scale_factor=2, mode=mode)
        for mode in ("nearest", "linear")
    ),
    *(
        lambda n, mode=mode: functional.interpolate(volume(n), scale_factor=2, mode=mode)
        for mode in ("nearest", "trilinear")
    ),
    *(
        lambda n, mode=mode, make=make: functional.pad(make(n), (1, 1) * (make(n).dim() - 2), mode=mode)
        for mode in ("reflect", "replicate")
        for make in (lambda n: t(2, 8, 16 * n), image, volume)
    ),
    lambda n: functional.pad(square(n), (1, 1)),
    lambda n: torch.cat([square(n), torch.stack([t(64 * n)]).flip(1)]),
    lambda n: functional.pixel_unshuffle(functional.channel_shuffle(functional.pixel_shuffle(image(n), 2), 2), 2),
    lambda n: functional.fold(functional.unfold(image(n), 3), (16 * n, 16 * n), 3),
    lambda n: torch.diag_embed(square(n).diagonal()) + square(n)[0].unsqueeze(0).squeeze(0),
    lambda n: t(256 * n).unfold(0, 2, 2),
    lambda n: square(n)[:, 1:3],
    lambda n: torch.slice_scatter(square(n), t(64 * n, 2), 1, 0, 2).select_scatter(t(64 * n), 0, 0),
    lambda n: torch.diagonal_scatter(square(n), t(64 * n)).as_strided_scatter(t(2, 2), (2, 2), (1, 1)),
    lambda n: square(n).as_strided((2, 2), (1, 1)) + torch.split(square(n), [2, 64 * n - 2], 1)[0][:2],
    lambda n: torch.rand(64, 64 * n) + torch.randn(64, 64 * n) + torch.normal(square(n).detach(), 1.0)[0, 0],
    lambda n: torch.randint(0, 9, (64 * n,)) + torch.randint_like(i(64 * n), 9) + torch.randperm(64 * n),
    lambda n: torch.empty(64, 64 * n).uniform_() + torch.empty(64, 64 * n).exponential_(),
    lambda n: aten.native_dropout(square(n), 0.1, True)[0],
    lambda n: aten.native_dropout_backward(square(n).detach(), square(n).detach() > 0, 1.1),
    lambda n: torch.multinomial(square(n).detach(), 1),
    lambda n: torch.zeros(64, 64 * n) + torch.ones(64, 64 * n) + torch.full((64, 64 * n), 2.0),
    lambda n: torch.full_like(square(n), 1.0) + square(n).detach().fill_(1.0) + square(n).detach().zero_(),
    lambda n: square(n).new_zeros(64 * n) + square(n).new_ones(64 * n) + square(n).new_full((64 * n,), 1.0),
    lambda n: torch.scalar_tensor(1.0) + torch.eye(64 * n) + torch.linspace(0, 1, 64 * n) + torch.arange(64 * n),
    lambda n: (square(n).new_empty(4), square(n).new_empty_strided((4,), (1,)), torch.empty_strided((4,), (1,))),
    lambda n: functional.scaled_dot_product_attention(t(2, 2, 16 * n, 8), t(2, 2, 16 * n, 8), t(2, 2, 16 * n, 8)),
    lambda n: nn.LSTM(8 * n, 16 * n, device="meta")(t(4, 2, 8 * n))[0],
]
LIST_CALLS: list[Call] = [
    *apply("_foreach_add _foreach_sub _foreach_mul _foreach_div _foreach_maximum", lambda n: (parts(n), parts(n))),
    *apply("_foreach_sqrt _foreach_reciprocal _foreach_neg _foreach_abs _foreach_sign", lambda n: (parts(n),)),
    *apply("_foreach_addcmul _foreach_addcdiv", lambda n: (parts(n), parts(n), parts(n))),
    *apply("_foreach_copy_", lambda n: (parts(n), parts(n))),
    *apply("_foreach_zero_", lambda n: (parts(n),)),
    *apply("_foreach_lerp", lambda n: (parts(n), parts(n), 0.5)),
]


def parts(n: int) -> list[torch.Tensor]:
    return [square(n).detach(), t(64 * n).detach()]


def hand_made_sites(n: int) -> list[OpSite]:
    """Ops that meta tensors or this build of PyTorch do not reach."""
    heads, rows, scalar = Operand((2, 4, 16 * n, 8), torch.float16), Operand((64, 64 * n), torch.float32), 0.5
    sums = Operand((2, 4, 16 * n), torch.float32)
    tensors = [rows, rows]
    batch = Operand((4 * n, 8, 16, 16), torch.float32)
    channel = Operand((8,), torch.float32)
    weight, rstd = Operand((64 * n,), torch.float32), Operand((64, 1), torch.float32)
    return [
        OpSite(
            "aten.matmul.default", (rows, Operand((64 * n, 8), torch.float32)), {}, (Operand((64, 8), torch.float32),)
        ),
        OpSite(
            "aten.linear.default", (rows, Operand((8, 64 * n), torch.float32)), {}, (Operand((64, 8), torch.float32),)
        ),
        *(
            OpSite(f"aten.{name}.default", (heads, heads, heads), {"is_causal": True}, (heads, sums))
            for name in (
                "scaled_dot_product_attention",
                "_scaled_dot_product_flash_attention",
                "_scaled_dot_product_flash_attention_for_cpu",
            )
        ),
        OpSite(
            "aten._scaled_dot_product_efficient_attention.default",
            (heads, heads, heads, None, True, 0.1, False),
            {},
            (heads, sums),
        ),
        OpSite(
            "aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
            (heads, heads, heads, heads, heads, sums, 0.0, False),
            {},
            (heads, heads, heads),
        ),
        *make_recurrent_sites(n),
        *make_float8_sites(n),
        *make_converted_sites(n),
        *(
            OpSite(f"aten._fused_{name}_.default", (tensors, tensors, tensors), {"lr": scalar}, ())
            for name in ("sgd", "adam", "adamw")
        ),
        OpSite("aten.normal_functional.default", (rows, 0.0, 1.0), {}, (rows,)),
        OpSite(
            "aten._native_batch_norm_legit.no_stats",
            (batch, channel, channel, True, 0.1, 1e-5),
            {},
            (batch, channel, channel),
        ),
        OpSite(
            "aten._native_batch_norm_legit_functional.default",
            (batch, channel, channel, channel, channel, True, 0.1, 1e-5),
            {},
            (batch, channel, channel),
        ),
        OpSite(
            "aten._native_batch_norm_legit_no_training.default",
            (batch, channel, channel, channel, channel, 0.1, 1e-5),
            {},
            (batch, channel, channel),
        ),
        OpSite("aten._fused_rms_norm.default", (rows, [64 * n], weight, 1e-6), {}, (rows, rstd)),
        OpSite(
            "aten._fused_rms_norm_backward.default", (rows, rows, [64 * n], rstd, weight, [True, True]), {}, (rows,)
        ),
        OpSite("aten.square.default", (rows,), {}, (rows,)),
        OpSite("aten.mish_backward.default", (rows, rows), {}, (rows,)),
    ]


def make_recurrent_sites(n: int) -> list[OpSite]:
    """Layers of 16 units over 4 n steps of 8 features."""
    source, output, saved = (Operand((4 * n, 2, width), torch.float32) for width in (8, 16, 64))
    state, bias = Operand((2, 16), torch.float32), Operand((64,), torch.float32)
    weights = (Operand((64, 8), torch.float32), Operand((64, 16), torch.float32))
    gradients = (source, state, *weights, bias)
    sites = []
    for name, states, kept, flags in (("lstm", 2, 2, ()), ("gru", 1, 1, ()), ("rnn", 1, 0, (True,))):
        operands = (source, *[state] * states, *weights)
        biases = (bias, None) if name == "gru" else (bias,)
        last = (*flags, False) if name == "rnn" else (False, True)
        results = (output, *[state] * states, *[saved] * kept)
        sites.append(OpSite(f"openipu.{name}_layer.default", (*operands, *biases, *last), {}, results))
        backward = (output, *[None] * states, *operands, output, *[saved] * kept, *flags, False, True)
        sites.append(OpSite(f"openipu.{name}_layer_backward.default", backward, {}, gradients))
    return sites


def make_float8_sites(n: int) -> list[OpSite]:
    """Products of float8 operands give half; no ATen op has these types."""
    rows, weights = Operand((16 * n, 64 * n), torch.float8_e4m3fn), Operand((32, 64 * n), torch.float8_e4m3fn)
    images, taps = Operand((4 * n, 32, 8, 8), torch.float8_e4m3fn), Operand((32, 32, 3, 3), torch.float8_e4m3fn)
    bias, two = Operand((32,), torch.float16), [1, 1]
    geometry = (two, two, two, False, [0, 0], 1)
    return [
        OpSite("openipu.float8_linear.default", (rows, weights, bias), {}, (Operand((16 * n, 32), torch.float16),)),
        OpSite(
            "openipu.float8_convolution.default",
            (images, taps, bias, *geometry),
            {},
            (Operand((4 * n, 32, 8, 8), torch.float16),),
        ),
    ]


def make_converted_sites(n: int) -> list[OpSite]:
    """What converters of models put in place of several ops."""
    scores = Operand((4 * n, 16, 16), torch.float16)
    return [OpSite(f"openipu.{name}.default", (scores,), {}, (scores,)) for name in ("fused_softmax", "exact_gelu")]


def find_row(op: str) -> str:
    """The row that serves an op."""
    namespace, packet, *_ = op.split(".")
    forms = (op, f"{namespace}.{packet}", f"{namespace}.{packet.removesuffix('_')}")
    return next(row for row in forms if row in list_ops())


@pytest.fixture(scope="module")
def sites(record: Callable[[Callable[[], Any]], list[OpSite]]) -> tuple[list[OpSite], list[OpSite]]:
    """The same calls, small and five times as long in each growing dimension."""
    both = []
    for size in (1, 5):
        found = [site for call in (*CALLS, *LIST_CALLS) for site in record(partial(call, size))]
        both.append([site for site in found if site.outputs or site.operands] + hand_made_sites(size))
    return both[0], both[1]


def test_every_row_gives_sane_costs_that_never_fall_with_size(
    bow: CostContext, sites: tuple[list[OpSite], list[OpSite]]
) -> None:
    small_sites, large_sites = sites
    assert [site.op for site in small_sites] == [site.op for site in large_sites]
    for small_site, large_site in zip(small_sites, large_sites, strict=True):
        if find_rule(small_site.op) is None:
            continue
        small, large = cost_op(small_site, bow), cost_op(large_site, bow)
        for step in (*small.steps, *large.steps):
            assert math.isfinite(step.cycles), small_site
            assert step.cycles >= 0, small_site
            assert 1 <= step.tiles <= bow.tiles, small_site
            assert step.repeats >= 1, small_site
        assert total_cycles(large, bow.target) >= total_cycles(small, bow.target) * 0.99, (small_site, large_site)
        assert small.basis, small_site
        if not small.steps:
            free = (Family.VIEW, Family.MARKER, Family.CONSTANT)
            assert small.family in free, small_site


def test_every_row_is_exercised_here(sites: tuple[list[OpSite], list[OpSite]]) -> None:
    seen = {find_row(site.op) for site in sites[0] if find_rule(site.op) is not None}
    free = {row for row, rule in list_ops().items() if rule in (cost_view, cost_marker)}
    assert set(list_ops()) - free - seen == set()


@pytest.mark.parametrize(("chip", "tiles"), [("gc2", 1216), ("c600", 1440), ("bow", 3)])
def test_every_row_works_on_other_machines(sites: tuple[list[OpSite], list[OpSite]], chip: str, tiles: int) -> None:
    context = CostContext(list_targets()[chip], tiles)
    for site in sites[0]:
        steps = cost_op(site, context).steps
        assert all(math.isfinite(step.cycles) and 1 <= step.tiles <= tiles for step in steps), site
