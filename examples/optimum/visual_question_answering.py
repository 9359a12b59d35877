"""Answer "where is the …" about a picture: on the left or on the right, with LXMERT on its four IPUs.

A picture is what a detector found in it: features and boxes.

    python examples/optimum/visual_question_answering.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from generated import THINGS, make_tokenizer, read_arguments, train_and_evaluate
from transformers import LxmertConfig, LxmertForQuestionAnswering

from optimum.graphcore import IPUConfig, IPUTrainer

BOXES = 2


def make_questions(count: int, tokenizer: Any, seed: int = 0) -> list[dict[str, Any]]:
    """Each box shows a thing, and its feature says which. The answer is 0 for left and 1 for right."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        things = random.permutation(len(THINGS))[:BOXES]
        features = np.eye(len(THINGS), dtype=np.float32)[things] * 3
        left = random.integers(2, size=BOXES)
        corners = np.stack([left * 0.5, np.zeros(BOXES), left * 0.5 + 0.4, np.ones(BOXES)], 1).astype(np.float32)
        asked = int(random.integers(BOXES))
        question = tokenizer(f"where is the {THINGS[things[asked]]} ?", padding="max_length", max_length=8)
        tokens = {name: np.array(question[name]) for name in ("input_ids", "attention_mask")}
        rows.append({**tokens, "visual_feats": features, "visual_pos": corners, "labels": int(left[asked])})
    return rows


def compute_metrics(found: Any) -> dict[str, float]:
    scores = found.predictions[0] if isinstance(found.predictions, tuple) else found.predictions
    return {"accuracy": float((scores.argmax(-1) == found.label_ids).mean())}


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    args = read_arguments(argv, "visual_question_answering", num_train_epochs=10.0, warmup_steps=40)
    tokenizer = make_tokenizer()
    config = LxmertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_attention_heads=2,
        intermediate_size=64,
        l_layers=1,
        r_layers=1,
        x_layers=1,
        visual_feat_dim=len(THINGS),
        num_qa_labels=2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    trainer = IPUTrainer(
        LxmertForQuestionAnswering(config),
        IPUConfig(ipus_per_replica=4),
        args,
        train_dataset=make_questions(1024, tokenizer),
        eval_dataset=make_questions(64, tokenizer, seed=1),
        compute_metrics=compute_metrics,
    )
    return train_and_evaluate(trainer)


if __name__ == "__main__":
    main()
