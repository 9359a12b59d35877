"""Embeddings and projections in pieces: the results and gradients of the whole layer, and the way back."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import poptorch
from openipu.plan import VariableKind
from optimum.graphcore.ipu_configuration import IncompatibleIPUConfigError
from optimum.graphcore.modeling_utils import (
    OnehotGather,
    SerializedEmbedding,
    SerializedLinear,
    SharedEmbedding,
    SplitProjection,
    shift_tokens_right,
)

MODES = [poptorch.MatMulSerializationMode.OutputChannels, poptorch.MatMulSerializationMode.ReducingDim]


@pytest.mark.parametrize("rows", [12, 10])  # 4 tables of 3 rows; or of 3, 3, 3 and 1
@pytest.mark.parametrize("padding_idx", [None, 0, 7])
def test_an_embedding_in_tables_has_the_rows_and_gradients_of_the_whole(rows, padding_idx):
    torch.manual_seed(0)
    whole = nn.Embedding(rows, 5, padding_idx=padding_idx)
    tables = SerializedEmbedding.from_model(copy.deepcopy(whole), 4)
    tokens = torch.randint(0, rows, (3, 20))
    tables(tokens).square().sum().backward()
    whole(tokens).square().sum().backward()
    assert torch.equal(tables(tokens), whole(tokens))
    assert torch.allclose(torch.cat([table.weight.grad for table in tables.split_embeddings]), whole.weight.grad)
    restored = tables.to_model()
    assert torch.equal(restored.weight, whole.weight)
    assert (restored.padding_idx, restored.weight.requires_grad) == (padding_idx, True)


def test_the_table_that_holds_the_padding_token_knows_it():
    tables = SerializedEmbedding.from_model(nn.Embedding(64, 8, padding_idx=63), 4).split_embeddings
    assert [table.padding_idx for table in tables] == [None, None, None, 15]
    tables = SerializedEmbedding.from_model(nn.Embedding(64, 8, padding_idx=0), 4).split_embeddings
    assert [table.padding_idx for table in tables] == [0, None, None, None]


def test_a_frozen_embedding_stays_frozen():
    frozen = nn.Embedding.from_pretrained(torch.randn(4, 2), freeze=True)
    tables = SerializedEmbedding.from_model(frozen, 2)
    assert not any(parameter.requires_grad for parameter in tables.parameters())
    assert not tables.to_model().weight.requires_grad


def test_more_tables_than_rows_are_refused():
    with pytest.raises(IncompatibleIPUConfigError, match="3 rows cannot be split into 4 tables"):
        SerializedEmbedding.from_model(nn.Embedding(3, 2), 4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bias", [True, False])
def test_a_split_projection_equals_the_linear_layer(mode, bias):
    torch.manual_seed(0)
    linear = nn.Linear(12, 8, bias=bias)
    split = SplitProjection.from_model(copy.deepcopy(linear), 4, mode)
    x = torch.randn(2, 3, 12)
    assert torch.allclose(split(x), linear(x), atol=1e-6)
    restored = split.to_model()
    assert restored.state_dict().keys() == linear.state_dict().keys()
    assert all(torch.equal(value, linear.state_dict()[name]) for name, value in restored.state_dict().items())


def test_a_split_projection_keeps_its_number_format_and_what_was_learnt():
    split = SplitProjection.from_model(nn.Linear(4, 4), 2).half()
    with torch.no_grad():
        split.split_linear_layers[1].weight.fill_(2)
    restored = split.to_model()
    assert restored.weight.dtype == restored.bias.dtype == torch.float16
    assert bool((restored.weight[2:] == 2).all())


@pytest.mark.parametrize(("mode", "name"), list(zip(MODES, ["out_features=8", "in_features=12"], strict=True)))
def test_a_split_that_does_not_divide_the_layer_is_refused(mode, name):
    with pytest.raises(ValueError, match=f"linear.{name} must be divisible by serialization_factor=5"):
        SplitProjection.from_model(nn.Linear(12, 8), 5, mode)


def test_input_channels_cannot_be_split():
    with pytest.raises(ValueError, match="`serialization_mode` can only be"):
        SplitProjection.from_model(nn.Linear(12, 8), 2, poptorch.MatMulSerializationMode.InputChannels)


@pytest.mark.parametrize("mode", MODES)
def test_a_serialized_linear_layer_shares_the_parameters_of_the_original(mode):
    linear = nn.Linear(12, 8)
    serialized = SerializedLinear.from_model(linear, 4, mode)
    x = torch.randn(2, 12)
    assert serialized.weight is linear.weight
    assert serialized.bias is linear.bias
    assert torch.allclose(serialized(x), linear(x), atol=1e-6)
    restored = serialized.to_model()
    assert type(restored) is nn.Linear
    assert restored.weight is linear.weight


def test_a_factor_that_does_not_divide_the_vocabulary_is_refused_before_anything_is_compiled():
    with pytest.raises(IncompatibleIPUConfigError, match=r"12 to 8 features .* 3 equal parts .* divides 8"):
        SerializedLinear.from_model(nn.Linear(12, 8), 3)


class Words(nn.Module):
    """An embedding over IPUs 0 and 1, and a projection over IPUs 1 and 2."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.plain_embedding, self.plain_projection = nn.Embedding(8, 4), nn.Linear(4, 6)
        self.embedding = SerializedEmbedding.from_model(self.plain_embedding, 4).parallelize([3, 1, 0])
        self.projection = SplitProjection.from_model(self.plain_projection, 3).parallelize([0, 1, 2])

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.projection(self.embedding(tokens))


def test_pieces_lie_on_the_ipus_that_were_asked_for():
    model = Words()
    tokens = torch.arange(8).view(1, 8)
    options = poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution(poptorch.AutoStage.AutoIncrement))
    options.showCompilationProgressBar(False)
    executor = poptorch.inferenceModel(model, options)
    result = executor(tokens)
    assert torch.allclose(result, model.plain_projection(model.plain_embedding(tokens)), atol=1e-6)
    places = {
        variable.name: variable.ipu
        for variable in executor._compiled.plan.variables
        if variable.kind is VariableKind.PARAMETER and "split" in variable.name
    }
    assert [places[f"embedding.split_embeddings.{piece}.weight"] for piece in range(4)] == [0, 0, 0, 1]
    assert [places[f"projection.split_linear_layers.{piece}.weight"] for piece in range(3)] == [1, 2, 2]


def test_places_must_add_up_to_the_pieces():
    with pytest.raises(IncompatibleIPUConfigError, match=r"\[1, 1\] places 2 splits, but there are 4"):
        SerializedEmbedding.from_model(nn.Embedding(8, 4), 4).parallelize([1, 1])


def test_a_shared_embedding_looks_both_sequences_up_at_once():
    shared = SharedEmbedding(nn.Embedding(9, 3))
    encoder_ids, decoder_ids = torch.randint(0, 9, (2, 5)), torch.randint(0, 9, (2, 4))
    encoder, decoder = shared(encoder_ids, decoder_ids, encoder_embed_scale=2.0)
    assert torch.equal(encoder, shared.shared(encoder_ids) * 2)
    assert torch.equal(decoder, shared.shared(decoder_ids))
    assert shared(encoder_ids, None)[1] is None
    assert torch.equal(shared(None, decoder_ids)[1], decoder)


def test_a_one_hot_gather_takes_rows_at_positions():
    sequence, positions = torch.randn(2, 5, 3), torch.tensor([[4, 0], [1, 1]])
    expected = torch.stack([sequence[0, [4, 0]], sequence[1, [1, 1]]])
    assert torch.equal(OnehotGather()(sequence, positions), expected)


def test_labels_become_decoder_inputs():
    labels = torch.tensor([[5, 6, -100], [7, -100, -100]])
    assert shift_tokens_right(labels, 1, 2).tolist() == [[2, 5, 6], [2, 7, 1]]
    with pytest.raises(ValueError, match="pad_token_id has to be defined"):
        shift_tokens_right(labels, None, 2)
