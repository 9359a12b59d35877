"""Choose the sentence that goes on: which of two endings fits, with RoBERTa on two IPUs.

python examples/optimum/multiple_choice.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from generated import make_sentences, make_tokenizer, read_arguments, train_and_evaluate
from transformers import RobertaConfig, RobertaForMultipleChoice

from optimum.graphcore import IPUConfig, IPUTrainer

LENGTH = 16


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    args = read_arguments(argv, "multiple_choice", num_train_epochs=6.0)
    tokenizer = make_tokenizer()

    def encode(index: int, row: dict[str, Any]) -> dict[str, Any]:
        right, wrong = ("nice", "awful") if row["good"] else ("awful", "nice")
        label = index % 2
        endings = [f"because it is {word}" for word in ((right, wrong) if label == 0 else (wrong, right))]
        tokens = tokenizer([row["text"]] * 2, endings, padding="max_length", max_length=LENGTH)
        return {name: np.array(tokens[name]) for name in ("input_ids", "attention_mask")} | {"labels": label}

    train, evaluate = (
        [encode(index, row) for index, row in enumerate(make_sentences(count, seed))]
        for count, seed in ((256, 0), (50, 1))
    )
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH + 2,
        type_vocab_size=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=tokenizer.pad_token_id,
    )
    trainer = IPUTrainer(
        RobertaForMultipleChoice(config),
        IPUConfig(layers_per_ipu=[1, 1]),
        args,
        train_dataset=train,
        eval_dataset=evaluate,
        compute_metrics=lambda found: {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())},
    )
    return train_and_evaluate(trainer)


if __name__ == "__main__":
    main()
