"""Summarise two sentences in three words, with T5 on two IPUs: one for the encoder, one for the decoder.

python examples/optimum/summarization.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from generated import make_sentences, make_tokenizer, read_arguments, train_and_evaluate
from transformers import DataCollatorForSeq2Seq, T5Config, T5ForConditionalGeneration

from optimum.graphcore import IPUConfig, IPUSeq2SeqTrainer


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    args = read_arguments(
        argv,
        "summarization",
        seq2seq=True,
        predict_with_generate=True,
        generation_max_length=8,
        num_train_epochs=12.0,
        learning_rate=5e-3,
        warmup_steps=20,
    )
    tokenizer = make_tokenizer()

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        verdict = "nice" if row["good"] else "awful"
        text = f"{row['text']} . it is {verdict} because {row['person']} {row['verb']} {row['thing']}"
        summary = f"{row['person']} {row['verb']} {row['thing']}"
        labels = tokenizer(summary, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
        return {**tokenizer(text), "labels": labels}

    train, evaluate = ([encode(row) for row in make_sentences(count, seed)] for count, seed in ((512, 0), (24, 1)))
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=1,
        num_decoder_layers=1,
        num_heads=2,
        dropout_rate=0.0,
        decoder_start_token_id=tokenizer.pad_token_id,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )

    def count_right_words(found: Any) -> dict[str, float]:
        """The share of words of the summary that are there, each in its place."""
        wanted = np.where(found.label_ids == -100, tokenizer.pad_token_id, found.label_ids)[:, :3]
        return {"right_words": float((found.predictions[:, 1:4] == wanted).mean())}

    trainer = IPUSeq2SeqTrainer(
        T5ForConditionalGeneration(config),
        IPUConfig(layers_per_ipu=[1, 1]),
        args,
        data_collator=DataCollatorForSeq2Seq(tokenizer),
        train_dataset=train,
        eval_dataset=evaluate,
        tokenizer=tokenizer,
        compute_metrics=count_right_words,
    )
    return train_and_evaluate(trainer)


if __name__ == "__main__":
    main()
