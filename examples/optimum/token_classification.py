"""Find people and places: one label for each word, with DistilBERT on two IPUs.

python examples/optimum/token_classification.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from generated import PEOPLE, PLACES, make_sentences, make_tokenizer, read_arguments, train_and_evaluate
from transformers import DataCollatorForTokenClassification, DistilBertConfig, DistilBertForTokenClassification

from optimum.graphcore import IPUConfig, IPUTrainer

LABELS = ("O", "PERSON", "PLACE")


def label_word(word: str) -> int:
    return 1 if word in PEOPLE else 2 if word in PLACES else 0


def compute_metrics(found: Any) -> dict[str, float]:
    known = found.label_ids != -100
    return {"accuracy": float(np.mean((found.predictions.argmax(-1) == found.label_ids)[known]))}


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    args = read_arguments(argv, "token_classification")
    tokenizer = make_tokenizer()

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        tokens = dict(tokenizer(row["text"]))
        words = [label_word(word) for word in row["text"].split()]
        return {**tokens, "labels": [-100, *words, -100]}  # not for the tokens at both ends

    train, evaluate = ([encode(row) for row in make_sentences(count, seed)] for count, seed in ((256, 0), (50, 1)))
    config = DistilBertConfig(
        vocab_size=len(tokenizer),
        dim=32,
        n_layers=2,
        n_heads=2,
        hidden_dim=64,
        max_position_embeddings=16,
        num_labels=len(LABELS),
    )
    trainer = IPUTrainer(
        DistilBertForTokenClassification(config),
        IPUConfig(layers_per_ipu=[1, 1]),
        args,
        data_collator=DataCollatorForTokenClassification(tokenizer),  # the trainer pads to one length
        train_dataset=train,
        eval_dataset=evaluate,
        compute_metrics=compute_metrics,
    )
    return train_and_evaluate(trainer)


if __name__ == "__main__":
    main()
