"""GroupBERT's own layers: what is mixed with what, and what is not."""

from __future__ import annotations

import pytest
import torch
from matrix_encoders import make_groupbert_config, make_text
from torch import nn
from transformers import AutoConfig, AutoModelForMaskedLM, AutoModelForQuestionAnswering

from optimum.graphcore.models.groupbert import GroupBertConfig, GroupBertForMaskedLM, GroupBertModel
from optimum.graphcore.models.groupbert.layers import GroupBertConvolution, GroupBertOutput


def make_model() -> GroupBertModel:
    torch.manual_seed(0)
    return GroupBertModel(make_groupbert_config()).eval()


def test_the_grouped_product_is_a_linear_layer_in_blocks():
    torch.manual_seed(0)
    layer = GroupBertOutput(make_groupbert_config())  # 48 to 32 features in 2 groups
    blocks = torch.block_diag(*layer.grouped_matmul.weight.squeeze(-1).chunk(2))
    x, residual = torch.randn(2, 5, 48), torch.randn(2, 5, 32)
    mixed = nn.functional.linear(x, blocks, layer.grouped_matmul.bias)
    assert torch.allclose(layer(x, residual), residual + layer.dense_output_projection(mixed), atol=1e-6)


def test_a_convolution_sees_its_neighbours_and_no_further():
    torch.manual_seed(0)
    layer = GroupBertConvolution(make_groupbert_config())  # kernel of 3
    x = torch.randn(1, 9, 32)
    changed = x.clone()
    changed[:, 4] += 1
    difference = (layer(x, None) - layer(changed, None)).abs().amax(dim=(0, 2))
    assert [bool(value > 0) for value in difference] == [False] * 3 + [True] * 3 + [False] * 3


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_padding_does_not_reach_the_tokens(attention):
    model = make_model()
    model.set_attn_implementation(attention)
    inputs = make_text(2)
    tokens = 9  # of the first row; 3 more are padding
    changed = inputs["input_ids"].clone()
    changed[0, tokens:] = 17
    before, after = model(**inputs), model(**{**inputs, "input_ids": changed})
    assert torch.equal(before.last_hidden_state[0, :tokens], after.last_hidden_state[0, :tokens])
    alone = model(input_ids=inputs["input_ids"][:1, :tokens])
    assert torch.allclose(before.last_hidden_state[:1, :tokens], alone.last_hidden_state, atol=1e-5)


def test_hidden_states_and_attentions_can_be_asked_for():
    model = make_model()
    model.set_attn_implementation("eager")
    outputs = model(**make_text(2), output_hidden_states=True, output_attentions=True)
    assert [tuple(state.shape) for state in outputs.hidden_states] == [(2, 12, 32)] * 3
    assert [tuple(weights.shape) for weights in outputs.attentions] == [(2, 2, 12, 12)] * 2


def test_the_auto_classes_know_it(tmp_path):
    GroupBertForMaskedLM(make_groupbert_config()).save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    assert isinstance(config, GroupBertConfig)
    assert (config.ffn_groups, config.conv_group_size, config.conv_kernel_size) == (2, 8, 3)
    model = AutoModelForMaskedLM.from_pretrained(tmp_path)
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    assert type(AutoModelForQuestionAnswering.from_config(config)).__name__ == "GroupBertForQuestionAnswering"


def test_parameters_have_the_names_of_published_checkpoints():
    names = {name.removeprefix("encoder.layer.0.").rpartition(".")[0] for name in make_model().state_dict()}
    feed_forward = {f"{part}_{place}" for place in ("first", "second") for part in ("intermediate", "output")}
    assert {name for name in names if name.split(".")[0] in feed_forward} == {
        f"{owner}.{layer}"
        for owner in feed_forward
        for layer in (
            ("LayerNorm", "dense") if owner.startswith("inter") else ("grouped_matmul", "dense_output_projection")
        )
    }
    assert {name for name in names if name.startswith("convolution")} == {
        f"convolution.{layer}" for layer in ("prenorm", "glu", "groupconv", "conv_norm", "output_projection")
    }
    assert {"attention.LayerNorm", "attention.self.query", "attention.output.dense", "encoder.LayerNorm"} <= names


def test_it_is_no_decoder():
    with pytest.raises(ValueError, match="GroupBERT is an encoder"):
        GroupBertModel(GroupBertConfig(**{**make_groupbert_config().to_diff_dict(), "is_decoder": True}))
