"""What pipelined classes return: a loss alone, a tuple, logits of masked tokens; and how they start and train."""

from __future__ import annotations

import pytest
import torch
from matrix import collect_rows
from matrix_encoders import make_bert_config, make_deberta_config, make_masked_language, make_questions, make_text
from transformers import (
    BertForMaskedLM,
    BertForPreTraining,
    BertForQuestionAnswering,
    DebertaForSequenceClassification,
)

import poptorch
from optimum.graphcore import IPUConfig
from optimum.graphcore.modeling_utils import (
    to_pipelined,
)
from optimum.graphcore.models.bert import PipelinedBertForMaskedLM, PipelinedBertForPreTraining

FOUR = {"layers_per_ipu": [0, 1, 1, 0], "gradient_accumulation_steps": 8}


def make_masked_model(**fields) -> PipelinedBertForMaskedLM:
    torch.manual_seed(0)
    return to_pipelined(BertForMaskedLM(make_bert_config()), IPUConfig(**{**FOUR, **fields}))


def test_it_trains_in_half_precision():
    model = make_masked_model(embedding_serialization_factor=2, output_mode="all").parallelize().half().train()
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    executor = poptorch.trainingModel(model, model.ipu_config.to_options())
    batch = make_masked_language(8)
    losses = executor(**batch)["loss"]
    plain = make_masked_model().train()
    expected = [plain(**{name: value[row : row + 1] for name, value in batch.items()}).loss for row in range(8)]
    assert losses.dtype == torch.float32
    assert torch.allclose(losses, torch.stack(expected), atol=1e-2)
    assert model.deparallelize().dtype == torch.float16


def test_masked_tokens_alone_reach_the_head():
    batch = make_masked_language(2)
    model = make_masked_model().train()
    expected = BertForMaskedLM.forward(model, **batch).loss
    model.config.max_num_masked_tokens = 5  # a row has 3
    seen = []
    handle = model.cls.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape))
    assert torch.allclose(model(**batch).loss, expected, atol=1e-6)
    assert torch.allclose(model(**batch, return_dict=False)[0], expected, atol=1e-6)
    handle.remove()
    assert [tuple(shape) for shape in seen] == [(2, 5, 32)] * 2
    assert model.eval()(**batch).logits.shape == (2, 12, 64)
    assert not model.cls._forward_pre_hooks


def test_masked_tokens_alone_train_as_all_of_them_do():
    batch = make_masked_language(8)
    model = make_masked_model(output_mode="all")
    expected = [
        BertForMaskedLM.forward(model, **{name: value[row : row + 1] for name, value in batch.items()}).loss
        for row in range(8)
    ]
    model.config.max_num_masked_tokens = 4
    executor = poptorch.trainingModel(model.parallelize().train(), model.ipu_config.to_options())
    assert torch.allclose(executor(**batch)["loss"], torch.stack(expected), atol=1e-5)
    rows = {variable.shape[0] for variable in executor._compiled.plan.variables if variable.shape[1:] == (64,)}
    assert 4 in rows  # logits of the masked tokens; of all of them there would be 12
    assert 12 not in rows


def test_pretraining_returns_the_loss_only_if_both_labels_are_there():
    model = PipelinedBertForPreTraining(make_bert_config()).eval()
    batch = make_masked_language(2)
    assert model(**batch).prediction_logits.shape == (2, 12, 64)
    outputs = model(**batch, next_sentence_label=torch.tensor([0, 1]))
    assert list(outputs) == ["loss"]
    assert isinstance(to_pipelined(BertForPreTraining(make_bert_config()), IPUConfig()), PipelinedBertForPreTraining)


def test_pretraining_starts_without_outliers():
    torch.manual_seed(0)
    model = PipelinedBertForPreTraining(make_bert_config())
    table = model.bert.embeddings.word_embeddings.weight
    assert table.abs().max() <= 2 * model.config.initializer_range
    assert not table[model.config.pad_token_id].any()


def test_question_answering_returns_a_tuple_with_its_loss():
    config = make_bert_config()
    config.num_labels = 2
    plain = BertForQuestionAnswering(config)
    model = to_pipelined(plain, IPUConfig())
    loss, start, end = model(**make_questions(2))
    expected = plain(**make_questions(2))
    assert torch.allclose(loss, expected.loss)
    assert torch.allclose(start, expected.start_logits)
    assert torch.allclose(end, expected.end_logits)
    assert model(**make_text(2)).start_logits.shape == (2, 12)


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(torch.tensor([0, -1, 2, -1]), id="some rows without a label"),
        pytest.param(torch.tensor([[0.2, 0.8, 0.0]] * 4), id="a share for each class"),
    ],
)
def test_deberta_classifies_with_static_shapes(labels):
    torch.manual_seed(0)
    plain = DebertaForSequenceClassification(make_deberta_config()).train()
    inputs = make_text(4)
    expected = plain(**inputs, labels=labels).loss
    model = to_pipelined(plain, IPUConfig()).parallelize()
    executor = poptorch.trainingModel(model, model.ipu_config.to_options())
    assert torch.allclose(executor(**inputs, labels=labels)["loss"], expected, atol=1e-6)
    assert model.config.problem_type is None


@pytest.mark.parametrize("name", ["BertModel", "MPNetModel", "T5EncoderModel"])
def test_a_copy_of_a_base_model_records_its_hidden_states(name):
    row = next(row for row in collect_rows() if row.name == name)
    plain = row.make_original().eval()

    class Fresh(row.find_pipelined()):  # what other tests made of the class itself is unknown to this one
        pass

    model = Fresh.from_transformers(plain, IPUConfig()).parallelize()
    batch = row.make_batch(1)
    expected = plain(**batch, output_hidden_states=True).hidden_states
    assert len(expected) == 3  # the embeddings and two layers
    torch.testing.assert_close(model(**batch, output_hidden_states=True).hidden_states, expected)
