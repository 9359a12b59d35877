"""Which layer goes to which IPU: wildcards, encoders and decoders, and what is wrong with a configuration."""

from __future__ import annotations

import pytest
from torch import nn

from optimum.graphcore import IPUConfig
from optimum.graphcore.ipu_configuration import IncompatibleIPUConfigError
from optimum.graphcore.modeling_utils import get_layer_ipu, split_encoder_decoder_ipu_config


@pytest.mark.parametrize(
    ("fields", "layers", "expected"),
    [
        ({}, 3, [0, 0, 0]),
        ({"layers_per_ipu": [1, 2]}, 3, [0, 1, 1]),
        ({"layers_per_ipu": [1, 2]}, None, [0, 1, 1]),
        ({"ipus_per_replica": 2}, 7, [0, 0, 0, 1, 1, 1, 1]),  # the rest goes to the last wildcard
        ({"layers_per_ipu": [-1, 2, -1, 2]}, 7, [0, 1, 1, 2, 2, 3, 3]),  # 3 left: 1 and 2
        ({"layers_per_ipu": [0, 2, -1, 0]}, 3, [1, 1, 2]),
        ({"layers_per_ipu": [2, -1]}, 2, [0, 0]),  # nothing is left for the wildcard
        ({"layers_per_ipu": [5]}, 2, [0, 0]),  # one IPU takes what there is
    ],
)
def test_layers_are_spread_as_the_configuration_says(fields, layers, expected):
    assert get_layer_ipu(IPUConfig(**fields), layers) == expected


def test_a_list_of_layers_counts_as_its_length():
    assert get_layer_ipu(IPUConfig(ipus_per_replica=2), nn.ModuleList([nn.ReLU(), nn.ReLU()])) == [0, 1]


@pytest.mark.parametrize(
    ("fields", "layers", "message"),
    [
        ({"layers_per_ipu": [1, 2]}, 4, r"correct number of layers .* 3 layers but there are 4 .* add up to 4"),
        ({"layers_per_ipu": [3, -1]}, 2, r"correct number of layers .* 3 layers but there are 2"),
        ({"layers_per_ipu": [1, -1], "ipus_per_replica": 4}, 3, "its length does not match ipus_per_replica"),
        ({"layers_per_ipu": "auto"}, 3, r"not settled yet"),
    ],
)
def test_a_configuration_that_does_not_suit_the_model_says_what_to_change(fields, layers, message):
    with pytest.raises(IncompatibleIPUConfigError, match=message):
        get_layer_ipu(IPUConfig(**fields), layers)


def test_errors_name_the_field_of_the_mode():
    config = IPUConfig(inference_layers_per_ipu=[1, 1]).eval()
    with pytest.raises(IncompatibleIPUConfigError, match=r"^inference_layers_per_ipu does not define"):
        get_layer_ipu(config, 3)


def test_an_encoder_and_a_decoder_get_their_own_shares():
    config = IPUConfig(
        layers_per_ipu=[1, 2, 3, 4],
        matmul_proportion=[0.1, 0.2, 0.3, 0.4],
        serialized_embedding_splits_per_ipu=[2, 2, 0, 0],
        serialized_projection_splits_per_ipu=[0, 0, 1, 3],
    )
    encoder, decoder = split_encoder_decoder_ipu_config(config, 3, 7)
    assert (encoder.layers_per_ipu, decoder.layers_per_ipu) == ([1, 2], [3, 4])
    assert (encoder.ipus_per_replica, decoder.ipus_per_replica) == (2, 2)
    assert (encoder.matmul_proportion, decoder.matmul_proportion) == ([0.1, 0.2], [0.3, 0.4])
    assert encoder.serialized_embedding_splits_per_ipu == [2, 2]
    assert encoder.serialized_projection_splits_per_ipu is None
    assert decoder.serialized_projection_splits_per_ipu == [1, 3]
    assert decoder.serialized_embedding_splits_per_ipu is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"layers_per_ipu": [4]}, "at least 2"),
        ({"layers_per_ipu": [3, 1]}, "Unable to find a valid split"),  # both kinds of layer on IPU 0
        ({"layers_per_ipu": [1, 1, 0, 2]}, None),
        ({"layers_per_ipu": [1, 0, 1, 2]}, "Unable to find a valid split"),  # 3 IPUs are no power of two
    ],
)
def test_an_encoder_needs_ipus_of_its_own_and_a_power_of_two_of_them(fields, message):
    if message is None:
        encoder, _ = split_encoder_decoder_ipu_config(IPUConfig(**fields), 2, 2)
        assert encoder.layers_per_ipu == [1, 1]
        return
    with pytest.raises(IncompatibleIPUConfigError, match=message):
        split_encoder_decoder_ipu_config(IPUConfig(**fields), 2, 2)


@pytest.mark.parametrize("layer", ["embedding", "projection"])
def test_pieces_of_a_layer_cannot_lie_on_both_sides(layer):
    config = IPUConfig(layers_per_ipu=[0, 2, 2, 0], **{f"serialized_{layer}_splits_per_ipu": [0, 2, 2, 0]})
    with pytest.raises(ValueError, match="must have all splits placed on the"):
        split_encoder_decoder_ipu_config(config, 2, 2)
