"""Answer "where is anna ?" from a text: first and last token of the answer, with BERT on two IPUs.

python examples/optimum/question_answering.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from generated import make_sentences, make_tokenizer, read_arguments, train_and_evaluate
from transformers import BertConfig, BertForQuestionAnswering

from optimum.graphcore import IPUConfig, IPUTrainer

LENGTH = 16


def compute_metrics(found: Any) -> dict[str, float]:
    starts, ends = (scores.argmax(-1) for scores in found.predictions)
    exact = (starts == found.label_ids[0]) & (ends == found.label_ids[1])
    return {"exact_match": float(np.mean(exact))}


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    args = read_arguments(argv, "question_answering", num_train_epochs=20.0, learning_rate=1e-3, warmup_steps=20)
    tokenizer = make_tokenizer()

    def encode(index: int, row: dict[str, Any]) -> dict[str, Any]:
        question, answer = (
            (f"where is {row['person']} ?", row["place"]) if index % 2 else ("who is it ?", row["person"])
        )
        tokens = dict(tokenizer(question, row["text"], padding="max_length", max_length=LENGTH))
        place = tokens["input_ids"].index(tokenizer.sep_token_id) + 1 + row["text"].split().index(answer)
        return {**tokens, "start_positions": place, "end_positions": place}

    train, evaluate = (
        [encode(index, row) for index, row in enumerate(make_sentences(count, seed))]
        for count, seed in ((512, 0), (50, 1))
    )
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    trainer = IPUTrainer(
        BertForQuestionAnswering(config),
        IPUConfig(layers_per_ipu=[1, 1]),
        args,
        train_dataset=train,
        eval_dataset=evaluate,
        compute_metrics=compute_metrics,
    )
    return train_and_evaluate(trainer)


if __name__ == "__main__":
    main()
