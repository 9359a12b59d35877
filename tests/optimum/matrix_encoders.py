"""Rows of the matrix: text encoders."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from matrix import Row

from optimum.graphcore.models import groupbert

VOCABULARY = 64
LENGTH = 12
CHOICES = 3
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "num_labels": 3,
}
ON_FOUR = {
    "layers_per_ipu": [0, 1, 1, 0],
    "embedding_serialization_factor": 2,
    "recompute_checkpoint_every_layer": True,
}


def make_text(batch_size: int) -> dict[str, torch.Tensor]:
    """Tokens with padding at the end of every second row."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.ones(batch_size, LENGTH, dtype=torch.long)
    mask[::2, LENGTH - 3 :] = 0
    tokens = torch.randint(4, VOCABULARY, (batch_size, LENGTH), generator=generator)
    return {"input_ids": torch.where(mask.bool(), tokens, 1), "attention_mask": mask}


def make_masked_language(batch_size: int) -> dict[str, torch.Tensor]:
    inputs = make_text(batch_size)
    labels = torch.full_like(inputs["input_ids"], -100)
    labels[:, 2:7:2] = inputs["input_ids"][:, 2:7:2]
    return {**inputs, "labels": labels}


def make_pretraining(batch_size: int) -> dict[str, torch.Tensor]:
    sentences = torch.arange(batch_size) % 2
    types = torch.zeros(batch_size, LENGTH, dtype=torch.long)
    types[:, LENGTH // 2 :] = 1
    return {**make_masked_language(batch_size), "token_type_ids": types, "next_sentence_label": sentences}


def make_classification(batch_size: int) -> dict[str, torch.Tensor]:
    return {**make_text(batch_size), "labels": torch.arange(batch_size) % 3}


def make_token_classification(batch_size: int) -> dict[str, torch.Tensor]:
    inputs = make_text(batch_size)
    return {**inputs, "labels": torch.where(inputs["attention_mask"].bool(), inputs["input_ids"] % 3, -100)}


def make_choices(batch_size: int) -> dict[str, torch.Tensor]:
    inputs = make_text(batch_size * CHOICES)
    shaped = {name: value.view(batch_size, CHOICES, LENGTH) for name, value in inputs.items()}
    return {**shaped, "labels": torch.arange(batch_size) % CHOICES}


def make_questions(batch_size: int) -> dict[str, torch.Tensor]:
    start = torch.arange(batch_size) % 5
    return {**make_text(batch_size), "start_positions": start, "end_positions": start + 2}


BATCHES = {
    "Model": (make_text, ()),
    "ForPreTraining": (make_pretraining, ("labels", "next_sentence_label")),
    "ForMaskedLM": (make_masked_language, ("labels",)),
    "ForSequenceClassification": (make_classification, ("labels",)),
    "ForTokenClassification": (make_token_classification, ("labels",)),
    "ForMultipleChoice": (make_choices, ("labels",)),
    "ForQuestionAnswering": (make_questions, ("start_positions", "end_positions")),
}
SINGLE_TEXT = ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")


def make_rows(
    family: str, prefix: str, tasks: tuple[str, ...], make_config: Any, originals: Any = transformers
) -> list[Row]:
    """One row for each task of a family; question answering has a start and an end, and so two labels."""

    def configure(task: str) -> Any:
        def make() -> Any:
            config = make_config()
            config.num_labels = 2 if task == "ForQuestionAnswering" else 3
            return config

        return make

    return [
        Row(
            f"{family}.Pipelined{prefix}{task}",
            getattr(originals, f"{prefix}{task}"),
            configure(task),
            *BATCHES[task],
            on_four=ON_FOUR,
        )
        for task in tasks
    ]


def make_bert_config() -> Any:
    return transformers.BertConfig(**SIZES)


def make_roberta_config() -> Any:
    return transformers.RobertaConfig(**SIZES, type_vocab_size=1, pad_token_id=1)


def make_distilbert_config() -> Any:
    return transformers.DistilBertConfig(
        vocab_size=VOCABULARY,
        dim=32,
        n_layers=2,
        n_heads=2,
        hidden_dim=48,
        max_position_embeddings=24,
        dropout=0.0,
        attention_dropout=0.0,
        qa_dropout=0.0,
        seq_classif_dropout=0.0,
    )


def make_deberta_config() -> Any:
    return transformers.DebertaConfig(
        **SIZES, relative_attention=True, pos_att_type=["c2p", "p2c"], position_biased_input=False, type_vocab_size=0
    )


def make_mpnet_config() -> Any:
    return transformers.MPNetConfig(**SIZES)


def make_groupbert_config() -> Any:
    return groupbert.GroupBertConfig(**SIZES, ffn_groups=2, conv_group_size=8, conv_kernel_size=3)


ROWS = [
    *make_rows("bert", "Bert", tuple(BATCHES), make_bert_config),
    *make_rows("roberta", "Roberta", (*SINGLE_TEXT, "ForMultipleChoice"), make_roberta_config),
    *make_rows("distilbert", "DistilBert", (*SINGLE_TEXT, "ForMultipleChoice"), make_distilbert_config),
    *make_rows("deberta", "Deberta", SINGLE_TEXT, make_deberta_config),
    *make_rows("groupbert", "GroupBert", tuple(BATCHES)[1:], make_groupbert_config, groupbert),
    *make_rows("mpnet", "MPNet", ("Model", "ForMaskedLM"), make_mpnet_config),
]
