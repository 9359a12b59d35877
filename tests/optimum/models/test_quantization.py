"""Weights in 4 bits: exact layout, bounded error, and models that run on them."""

from __future__ import annotations

import matrix_decoders as tiny
import pytest
import torch
import transformers
from torch import nn

import poptorch
from optimum.graphcore import IPUConfig
from optimum.graphcore.custom_ops.sdk_version_hash import sdk_version_hash
from optimum.graphcore.custom_ops.utils import load_lib
from optimum.graphcore.modeling_utils import to_pipelined
from optimum.graphcore.quantization import GroupQuantLinear, group_quantize_compress, group_quantize_decompress


def make_layer(in_features: int = 64, out_features: int = 5) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(in_features, out_features)


def test_four_weights_share_a_word_in_the_order_of_the_kernel():
    words, scale, bias = group_quantize_compress(torch.arange(16.0).unsqueeze(0), group_size=16)
    # scale (15 - 0) / 15 = 1, bias 0: the numbers are 0 … 15, and word c holds c, c + 4, c + 8, c + 12
    expected = [sum((column + 4 * row) << (4 * row) for row in range(4)) for column in range(4)]
    assert [int(word) & 0xFFFF for word in words.flatten()] == expected == [0xC840, 0xD951, 0xEA62, 0xFB73]
    assert (scale.item(), bias.item()) == (1.0, 0.0)


def test_numbers_that_fit_four_bits_come_back_exactly():
    numbers = torch.randint(0, 16, (3, 64), generator=torch.Generator().manual_seed(0)).float()
    numbers[:, ::32], numbers[:, 1::32] = 0.0, 15.0  # each group of 32 has its extremes
    packed = group_quantize_compress(numbers * 0.25 - 2.0, group_size=32)
    assert [tuple(part.shape) for part in packed] == [(3, 2, 8), (3, 2, 1), (3, 2, 1)]
    assert packed[0].dtype == torch.int16
    torch.testing.assert_close(group_quantize_decompress(*packed, dtype=torch.float32), numbers * 0.25 - 2.0)


def test_the_error_is_at_most_half_a_step():
    weight = make_layer().weight.detach()
    packed, scale, bias = group_quantize_compress(weight, group_size=16)
    error = (group_quantize_decompress(packed, scale, bias, torch.float32) - weight).abs()
    # half a step of 4 bits, and what rounding the ends of the range to half moves them
    bound = (0.5 * scale + 2e-4).expand(-1, -1, 16).flatten(1)
    assert (error <= bound).all()


def test_a_group_of_equal_weights_is_kept():
    same = torch.full((2, 16), 0.5)
    assert torch.equal(group_quantize_decompress(*group_quantize_compress(same, 16), dtype=torch.float32), same)


@pytest.mark.parametrize(("shape", "group_size"), [((2, 64), 8), ((2, 40), 16), ((64,), 16)])
def test_shapes_that_do_not_fit_are_refused(shape, group_size):
    with pytest.raises(ValueError, match="cannot be compressed in groups of"):
        group_quantize_compress(torch.zeros(shape), group_size)


def test_infinite_weights_are_refused():
    with pytest.raises(ValueError, match="non-finite"):
        group_quantize_compress(torch.full((1, 16), float("inf")), 16)


def test_a_layer_decompresses_on_the_device():
    linear = make_layer()
    quantized = GroupQuantLinear.from_model(linear, num_groups=4)
    inputs = torch.randn(3, 64)
    executor = poptorch.inferenceModel(quantized.eval())
    expected = nn.functional.linear(inputs, quantized.decompress(), linear.bias)
    torch.testing.assert_close(executor(inputs), expected.detach(), rtol=1e-5, atol=1e-5)
    assert (executor(inputs) - linear(inputs)).abs().max() < 0.2
    # 64 x 5 weights of 4 bits are 160 bytes, where float32 needs 1280
    assert quantized.w_packed.numel() * quantized.w_packed.element_size() == 64 * 5 // 2


def test_groups_that_do_not_fit_a_layer_are_refused():
    with pytest.raises(ValueError, match="64 input features cannot be in 16 groups"):
        GroupQuantLinear.from_model(make_layer(), num_groups=16)


def test_a_layer_becomes_what_it_was():
    linear = make_layer()
    quantized = GroupQuantLinear.from_model(linear, num_groups=4)
    assert quantized.to_model() is linear
    loaded = GroupQuantLinear(64, 5, quantized.w_packed, quantized.w_scale, quantized.w_bias, linear.bias)
    assert torch.equal(loaded.to_model().weight, quantized.decompress())


@pytest.mark.parametrize(
    ("kind", "make_config"),
    [
        (transformers.WhisperForConditionalGeneration, tiny.make_whisper_config),
        (transformers.BartForConditionalGeneration, tiny.make_bart_config),
    ],
)
def test_a_model_generates_from_compressed_layers_and_gets_its_weights_back(kind, make_config):
    torch.manual_seed(0)
    model = kind(make_config()).eval()
    pipelined = to_pipelined(model, IPUConfig(layers_per_ipu=[-1], executable_cache_dir="disabled"))
    pipelined.parallelize(for_generation=True, use_group_quantized_linears=True)
    layers = [module for module in pipelined.modules() if isinstance(module, GroupQuantLinear)]
    # 4 attention projections and 2 of the feed-forward for 2 encoder layers, 4 more for 2 decoder layers
    assert len(layers) == 2 * 6 + 2 * 10
    if kind is transformers.WhisperForConditionalGeneration:
        inputs = {"input_features": tiny.make_speech(2)["input_features"]}
    else:
        inputs = tiny.make_text(2)
    assert pipelined.generate(**inputs, max_length=6).shape[0] == 2
    pipelined.deparallelize()
    restored = pipelined.state_dict()
    assert list(restored) == list(model.state_dict())
    assert all(torch.equal(restored[name], value) for name, value in model.state_dict().items())


def test_the_hash_of_the_stack_is_text_and_stays_the_same():
    assert isinstance(sdk_version_hash(), str)
    assert sdk_version_hash() == sdk_version_hash()


def test_ops_in_cpp_are_refused_with_a_way_out():
    with pytest.raises(NotImplementedError, match=r"my_op.cpp is C\+\+ for Poplar.*register_custom_op"):
        load_lib("my_op.cpp")
