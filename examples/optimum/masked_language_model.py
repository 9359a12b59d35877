"""Train BERT to guess masked words, on two IPUs. The head sees a bounded number of tokens only.

python examples/optimum/masked_language_model.py
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from generated import make_sentences, make_tokenizer, read_arguments, train_and_evaluate
from transformers import BertConfig, BertForMaskedLM

from optimum.graphcore import IPUConfig, IPUTrainer
from optimum.graphcore.data import DataCollatorForLanguageModelingWithMaxTokensMasked

LENGTH = 24


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    # A micro-batch without any masked word would have no loss: eight texts have some.
    args = read_arguments(
        argv,
        "masked_language_model",
        per_device_train_batch_size=8,
        num_train_epochs=20.0,
    )
    tokenizer = make_tokenizer()
    collator = DataCollatorForLanguageModelingWithMaxTokensMasked(LENGTH, tokenizer, mlm_probability=0.15)
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
    train, evaluate = (
        [tokenizer(f"{row['text']} . {row['text']} .", padding="max_length", max_length=LENGTH) for row in rows]
        for rows in (make_sentences(512), make_sentences(48, seed=1))
    )
    trainer = IPUTrainer(
        BertForMaskedLM(config),
        IPUConfig(layers_per_ipu=[1, 1]),
        args,
        data_collator=collator,
        train_dataset=train,
        eval_dataset=evaluate,
    )
    metrics = train_and_evaluate(trainer)
    print(f"perplexity: {math.exp(metrics['eval_loss']):.2f}")
    return metrics


if __name__ == "__main__":
    main()
