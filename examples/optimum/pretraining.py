"""Pre-train BERT from nothing: masked words, and whether a second sentence is the same again. LAMB, two IPUs.

python examples/optimum/pretraining.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from generated import make_sentences, make_tokenizer, read_arguments, train_and_evaluate
from transformers import BertConfig, BertForPreTraining

from optimum.graphcore import IPUConfig, IPUTrainer
from optimum.graphcore.data import DataCollatorForLanguageModelingWithMaxTokensMasked

LENGTH = 24


class Collator(DataCollatorForLanguageModelingWithMaxTokensMasked):
    """Masks words, and leaves the label of the sentence pair as it is."""

    def torch_call(self, examples: list[Any]) -> dict[str, Any]:
        pairs = torch.tensor([example["next_sentence_label"] for example in examples])
        tokens = [{name: value for name, value in row.items() if name != "next_sentence_label"} for row in examples]
        return {**super().torch_call(tokens), "next_sentence_label": pairs}


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    # A micro-batch without any masked word would have no loss: eight texts have some.
    args = read_arguments(
        argv,
        "pretraining",
        lamb=True,
        learning_rate=1e-2,
        loss_scaling=64.0,
        per_device_train_batch_size=8,
        num_train_epochs=20.0,
    )
    tokenizer = make_tokenizer()
    collator = Collator(LENGTH, tokenizer, mlm_probability=0.15)

    def encode(index: int, row: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        second = row if index % 2 == 0 else other
        tokens = tokenizer(row["text"], second["text"], padding="max_length", max_length=LENGTH)
        return {**tokens, "next_sentence_label": index % 2}

    train, evaluate = (
        [encode(index, row, rows[index - 1]) for index, row in enumerate(rows)]
        for rows in (make_sentences(512), make_sentences(48, seed=1))
    )
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
    )
    config.max_num_masked_tokens = collator.max_num_masked_tokens
    trainer = IPUTrainer(
        BertForPreTraining(config),
        IPUConfig(layers_per_ipu=[1, 1]),
        args,
        data_collator=collator,
        train_dataset=train,
        eval_dataset=evaluate,
    )
    return train_and_evaluate(trainer)


if __name__ == "__main__":
    main()
