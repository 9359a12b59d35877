"""Train GPT-2 to go on with a text, on two IPUs, and let it write.

python examples/optimum/causal_language_model.py
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from generated import make_sentences, make_tokenizer, read_arguments, train_and_evaluate
from transformers import DataCollatorForLanguageModeling, GPT2Config, GPT2LMHeadModel

from optimum.graphcore import IPUConfig, IPUTrainer

LENGTH = 24


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    args = read_arguments(argv, "causal_language_model")
    tokenizer = make_tokenizer()
    blocks = []
    for rows in (make_sentences(1024), make_sentences(192, seed=1)):
        words = " . ".join(row["text"] for row in rows)
        tokens = tokenizer(words, add_special_tokens=False)["input_ids"]
        blocks.append([{"input_ids": tokens[at : at + LENGTH]} for at in range(0, len(tokens) - LENGTH + 1, LENGTH)])
    train, evaluate = blocks
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=LENGTH,
            n_embd=32,
            n_layer=2,
            n_head=2,
            bos_token_id=tokenizer.cls_token_id,
            eos_token_id=tokenizer.sep_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    trainer = IPUTrainer(
        model,
        IPUConfig(layers_per_ipu=[1, 1]),
        args,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
        train_dataset=train,
        eval_dataset=evaluate,
    )
    metrics = train_and_evaluate(trainer)
    print(f"perplexity: {math.exp(metrics['eval_loss']):.2f}")
    start = tokenizer("anna in", add_special_tokens=False, return_tensors="pt")
    # The model that was passed to the trainer is trained now, and is one of plain Transformers.
    written = model.eval().generate(start["input_ids"], attention_mask=start["attention_mask"], max_new_tokens=10)
    print(tokenizer.decode(written[0]))
    return metrics


if __name__ == "__main__":
    main()
