"""Translate into a language that says everything backwards, with BART on two IPUs and a search over two beams.

python examples/optimum/translation.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from generated import make_sentences, make_tokenizer, read_arguments, train_and_evaluate
from transformers import BartConfig, BartForConditionalGeneration, DataCollatorForSeq2Seq

from optimum.graphcore import IPUConfig, IPUSeq2SeqTrainer

WORDS = 5


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    args = read_arguments(
        argv,
        "translation",
        seq2seq=True,
        predict_with_generate=True,
        generation_max_length=8,
        generation_num_beams=2,
        num_train_epochs=20.0,
        warmup_steps=20,
    )
    tokenizer = make_tokenizer()

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        backwards = " ".join(reversed(row["text"].split()))
        labels = tokenizer(backwards, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
        return {**tokenizer(row["text"]), "labels": labels}

    train, evaluate = ([encode(row) for row in make_sentences(count, seed)] for count, seed in ((512, 0), (24, 1)))
    config = BartConfig(
        vocab_size=len(tokenizer),
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=32,
        dropout=0.0,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.eos_token_id,
        forced_eos_token_id=tokenizer.eos_token_id,
    )
    trainer = IPUSeq2SeqTrainer(
        BartForConditionalGeneration(config),
        IPUConfig(layers_per_ipu=[1, 1]),
        args,
        data_collator=DataCollatorForSeq2Seq(tokenizer),
        train_dataset=train,
        eval_dataset=evaluate,
        tokenizer=tokenizer,
        compute_metrics=lambda found: {
            "right_words": float((found.predictions[:, 1 : WORDS + 1] == found.label_ids[:, :WORDS]).mean())
        },
    )
    return train_and_evaluate(trainer)


if __name__ == "__main__":
    main()
