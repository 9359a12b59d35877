"""Attention of inference is one call, with the results of the one that is written out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from openipu.capture import capture_program
from openipu.graph import EngineMode, RunOptions, Tap
from openipu.run import Executable
from openipu.run.drafts.rules import apply_rules
from openipu.run.engine.micro import draft_micro
from openipu.run.rewrites.fusion.attention import RULES, attend

SAMPLES, HEADS, PLACES, WIDTH = 2, 3, 10, 8
QUERY, KEY, VALUE = torch.randn(3, SAMPLES, PLACES, HEADS * WIDTH, generator=torch.Generator().manual_seed(0))
NEGATIVE = -math.inf


class Attention(nn.Module):
    """PyTorch's own, between heads that are parted and joined as models do it."""

    def __init__(self, causal=False):
        super().__init__()
        self.causal = causal

    def forward(self, query, key, value, mask=None):
        parts = [part.view(SAMPLES, -1, HEADS, WIDTH).transpose(1, 2) for part in (query, key, value)]
        found = functional.scaled_dot_product_attention(*parts, attn_mask=mask, is_causal=self.causal)
        return found.transpose(1, 2).reshape(SAMPLES, -1, HEADS * WIDTH)


class WrittenOut(nn.Module):
    """As models write it: a product, a factor, a softmax, a product."""

    def __init__(self, masked=False, divides=False, joined=True):
        super().__init__()
        self.masked, self.divides, self.joined = masked, divides, joined

    def forward(self, query, key, value, mask=None):
        query, key, value = (part.view(SAMPLES, -1, HEADS, WIDTH).transpose(1, 2) for part in (query, key, value))
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(WIDTH) if self.divides else scores * WIDTH**-0.5
        if self.masked:
            scores = scores + mask
        found = scores.softmax(-1) @ value
        return found.permute(0, 2, 1, 3).contiguous().view(SAMPLES, -1, HEADS * WIDTH) if self.joined else found


class Shown(WrittenOut):
    """Somebody reads the weights of the attention as well."""

    def forward(self, query, key, value):
        query, key, value = (part.view(SAMPLES, -1, HEADS, WIDTH).transpose(1, 2) for part in (query, key, value))
        weights = (query @ key.transpose(-1, -2) * 0.5).softmax(-1)
        return weights @ value, weights


def capture(model, *inputs):
    return capture_program(model, inputs, {}, training=False, optimizer=None, name="net")


def count_fused(program, options=None):
    draft = draft_micro(program, options or RunOptions())
    apply_rules(draft.graph, RULES)
    draft.graph.lint()
    return len(draft.graph.find_nodes(op="call_function", target=attend))


def compare(model, *inputs):
    """With what PyTorch computes; also says how many calls attention has become."""
    program = capture(model, *inputs)
    executable = Executable(program, RunOptions(engine=EngineMode.OPERATORS))
    executable.load_weights({}, {})
    found = executable.run(list(inputs)).outputs
    expected = model(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)
    return count_fused(program)


def make_mask(*shape):
    """Places that are not looked at, but for the first of each row."""
    mask = torch.zeros(shape)
    mask[torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.4] = NEGATIVE
    mask[..., 0] = 0
    return mask


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_pytorch_is_one_call(causal):
    assert compare(Attention(causal), QUERY, KEY, VALUE) == 1


@pytest.mark.parametrize(
    "shape",
    [
        (PLACES, PLACES),
        (1, 1, 1, PLACES),
        (SAMPLES, 1, 1, PLACES),
        (SAMPLES, 1, PLACES, PLACES),
        (SAMPLES, HEADS, PLACES, PLACES),
        (1, HEADS, 1, PLACES),
    ],
    ids=str,
)
def test_masks_of_every_shape_are_added_in_the_call(shape):
    assert compare(Attention(), QUERY, KEY, VALUE, make_mask(*shape)) == 1


def test_one_number_for_all_scores_is_no_mask():
    program = capture(Attention(), QUERY, KEY, VALUE, torch.tensor(0.5))  # eager PyTorch has no kernel for it
    assert count_fused(program) == 0
    executable = Executable(program, RunOptions(engine=EngineMode.OPERATORS))
    executable.load_weights({}, {})
    found = executable.run([QUERY, KEY, VALUE, torch.tensor(0.5)]).outputs[0]
    torch.testing.assert_close(found, Attention()(QUERY, KEY, VALUE), rtol=1e-5, atol=1e-6)


def test_a_place_that_may_look_at_nothing_gets_zeros():
    mask = torch.zeros(PLACES, PLACES)
    mask[3] = NEGATIVE
    assert compare(Attention(), QUERY, KEY, VALUE, mask) == 1


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("place", ["query", "key"])
def test_where_no_score_is_a_number_nothing_is(number, place):
    values = {"query": QUERY.clone(), "key": KEY.clone()}
    values[place][1, 4] = number
    assert compare(WrittenOut(), values["query"], values["key"], VALUE) == 1


def test_behind_a_mask_what_is_not_a_number_stays_apart_from_what_may_look_at_nothing():
    query, key, value = (
        part.view(SAMPLES, PLACES, HEADS, WIDTH).transpose(1, 2).clone() for part in (QUERY, KEY, VALUE)
    )
    mask = torch.zeros(PLACES, PLACES)
    mask[3], query[0, 1, 4] = NEGATIVE, math.nan
    found = attend(query, key, value, mask, 0.5, False, False, True)
    expected = torch.ops.aten._safe_softmax(query @ key.transpose(2, 3) * 0.5 + mask, -1) @ value
    assert expected.isnan().sum() == WIDTH
    assert (found[:, :, 3] == 0).all()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


def test_fewer_places_may_look_at_more():
    assert compare(Attention(), QUERY[:, :1], KEY, VALUE) == 1


@pytest.mark.parametrize("divides", [False, True])
@pytest.mark.parametrize("joined", [False, True])
def test_attention_that_is_written_out_is_one_call(divides, joined):
    assert compare(WrittenOut(divides=divides, joined=joined), QUERY, KEY, VALUE) == 1


def test_a_mask_in_front_of_a_plain_softmax_stays_where_rows_without_places_are_not_numbers():
    mask = torch.zeros(PLACES, PLACES)
    mask[3] = NEGATIVE
    model, inputs = WrittenOut(masked=True), (QUERY, KEY, VALUE, mask)
    program = capture(model, *inputs)
    assert count_fused(program) == 0
    executable = Executable(program, RunOptions(engine=EngineMode.OPERATORS))
    executable.load_weights({}, {})
    torch.testing.assert_close(executable.run(list(inputs)).outputs[0], model(*inputs), equal_nan=True)


def test_weights_that_somebody_reads_are_computed():
    assert compare(Shown(), QUERY, KEY, VALUE) == 0


def test_a_tap_on_the_weights_keeps_them():
    program = capture(Attention(), QUERY, KEY, VALUE)
    assert count_fused(program, RunOptions(taps=(Tap("weights", "_safe_softmax:0"),))) == 0


def test_half_that_is_rounded_between_its_operators_stays_written_out():
    assert count_fused(capture(WrittenOut(), QUERY.half(), KEY.half(), VALUE.half())) == 0


def test_attention_of_half_is_computed_in_float32_and_rounded_once():
    model, inputs = Attention(), (QUERY.half(), KEY.half(), VALUE.half())
    executable = Executable(capture(model, *inputs), RunOptions(engine=EngineMode.OPERATORS))
    executable.load_weights({}, {})
    found = executable.run(list(inputs)).outputs[0]
    expected = model(*(value.float() for value in inputs))
    assert found.dtype is torch.float16
    assert ((found.float() - expected).abs() <= 2.0**-11 * expected.abs() + 1e-7).all(), "half a last place at most"


def test_heads_whose_features_do_not_lie_together_are_copied_first():
    query, key, value = (torch.randn(SAMPLES, HEADS, WIDTH, PLACES).transpose(2, 3) for _ in range(3))
    found = attend(query, key.transpose(2, 3), value, None, 0.5, True, False, False)
    expected = functional.scaled_dot_product_attention(query, key, value, scale=0.5)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
