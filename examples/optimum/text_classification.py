"""Fine-tune BERT to tell good from bad sentences, on two IPUs.

python examples/optimum/text_classification.py
python examples/optimum/text_classification.py --fp32 --num_train_epochs 5
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datasets import Dataset
from generated import make_sentences, make_tokenizer, read_arguments, train_and_evaluate
from transformers import BertConfig, BertForSequenceClassification

from optimum.graphcore import IPUConfig, IPUTrainer


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    args = read_arguments(argv, "text_classification", fp32=False)
    tokenizer = make_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        problem_type="single_label_classification",
    )

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        return {**tokenizer(row["text"], padding="max_length", max_length=8), "labels": int(row["good"])}

    train, evaluate = (
        Dataset.from_list(make_sentences(count, seed)).map(encode) for count, seed in ((256, 0), (50, 1))
    )
    trainer = IPUTrainer(
        BertForSequenceClassification(config),
        IPUConfig(layers_per_ipu=[1, 1]),
        args,
        train_dataset=train,
        eval_dataset=evaluate,
        tokenizer=tokenizer,
        compute_metrics=lambda found: {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())},
    )
    return train_and_evaluate(trainer)


if __name__ == "__main__":
    main()
