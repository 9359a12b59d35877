"""Fine-tune a small BERT on a modelled IPU: `before_transformers.py` with other classes.

python examples/optimum/after_ipu.py
"""

from __future__ import annotations

import tempfile

from generated import make_sentences, make_tokenizer
from transformers import BertConfig, BertForSequenceClassification, set_seed

from optimum.graphcore import IPUConfig, IPUTrainer, IPUTrainingArguments


def main() -> list[float]:
    set_seed(0)
    tokenizer = make_tokenizer()
    train, test = (
        [
            {**tokenizer(row["text"], padding="max_length", max_length=8), "labels": int(row["good"])}
            for row in make_sentences(count, seed)
        ]
        for count, seed in ((256, 0), (64, 1))
    )
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=16,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    training_args = IPUTrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=16,
        learning_rate=3e-3,
        num_train_epochs=4,
        logging_steps=1,
        save_strategy="no",
    )
    trainer = IPUTrainer(
        model=model,
        ipu_config=IPUConfig(),
        args=training_args,
        train_dataset=train,
        eval_dataset=test,
        compute_metrics=lambda found: {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())},
    )
    trainer.train()
    print(trainer.evaluate())
    return [float(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]


if __name__ == "__main__":
    main()
