"""Transformer models from meta weights: captured without memory, equal to eager when run with real weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from openipu.capture import mark_loss
from openipu.errors import LossError
from openipu.graph import InputKind, OutputKind

transformers = pytest.importorskip("transformers")


def make_bert_config(layers: int = 2) -> object:
    return transformers.BertConfig(
        vocab_size=60,
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=32,
    )


class PretrainingStep(nn.Module):
    """Two losses inside the model, added by it; marked as one for training."""

    def __init__(self, marked: bool = True) -> None:
        super().__init__()
        self.bert = transformers.BertForPreTraining(make_bert_config())
        self.marked = marked

    def forward(self, input_ids, attention_mask, labels, next_sentence_label):
        output = self.bert(
            input_ids=input_ids,
            attention_mask=attention_mask,
            labels=labels,
            next_sentence_label=next_sentence_label,
            return_dict=True,
        )
        loss = mark_loss(output.loss, "none") if self.marked else output.loss
        return output.prediction_logits, loss


def make_bert_batch() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, 8:] = 0
    return {
        "input_ids": torch.randint(0, 60, (2, 12)),
        "attention_mask": mask,
        "labels": torch.randint(0, 60, (2, 12)),
        "next_sentence_label": torch.tensor([0, 1]),
    }


def test_bert_pretraining_with_dropout_equals_eager(compare_with_eager):
    torch.manual_seed(0)
    program = compare_with_eager(PretrainingStep().train(), (), make_bert_batch(), tolerance=1e-6)
    names = [entry.name for entry in program.micro.inputs_of(InputKind.INPUT)]
    assert names == ["input_ids", "attention_mask", "labels", "next_sentence_label"]


def test_two_losses_of_a_library_model_must_be_joined(capture_training):
    with pytest.raises(LossError, match="Multiple independent losses"):
        capture_training(PretrainingStep(marked=False), **make_bert_batch())


def make_gpt2() -> nn.Module:
    config = transformers.GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=4, use_cache=False)
    return transformers.GPT2LMHeadModel(config)


def test_gpt2_with_a_tied_embedding_is_captured_on_meta_and_equals_eager(capture_training, run_micro):
    with torch.device("meta"):
        on_meta = make_gpt2().train()
    tokens = torch.randint(0, 50, (2, 10))
    program = capture_training(on_meta, input_ids=tokens.to("meta"), labels=tokens.to("meta"))
    assert all(parameter.is_meta for parameter in on_meta.parameters())
    torch.manual_seed(0)
    real = make_gpt2().train()
    torch.manual_seed(1)
    results = run_micro(program, real, input_ids=tokens, labels=tokens)
    torch.manual_seed(1)
    output = real(input_ids=tokens, labels=tokens)
    output.loss.backward()
    torch.testing.assert_close(results.of(OutputKind.LOSS)["loss"], output.loss.detach(), rtol=0, atol=1e-6)
    gradients = results.of(OutputKind.GRADIENT)
    assert "transformer.wte.weight" in gradients
    assert "lm_head.weight" not in gradients
    for name, parameter in real.named_parameters():
        torch.testing.assert_close(
            gradients[name], parameter.grad, rtol=0, atol=1e-6, msg=lambda text, n=name: n + text
        )
