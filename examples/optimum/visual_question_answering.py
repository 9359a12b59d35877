"""Answer "where is the …" about a picture, with LXMERT on its four IPUs.

A picture is what a detector found in it: features and boxes. There are three things in four corners, so that neither
the question nor the picture tells the answer on its own. How often one of them lets guess it is printed as well.

    python examples/optimum/visual_question_answering.py
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from generated import THINGS, make_tokenizer, read_arguments, train_and_evaluate
from transformers import LxmertConfig, LxmertForQuestionAnswering

from optimum.graphcore import IPUConfig, IPUTrainer

BOXES = 3
CORNERS = 4  # the answers: top left, top right, bottom left, bottom right


def make_questions(count: int, tokenizer: Any, seed: int = 0) -> list[dict[str, Any]]:
    """Each box shows another thing, which its feature tells, in one of the corners. One of them is asked for."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        things = random.permutation(len(THINGS))[:BOXES]
        features = np.eye(len(THINGS), dtype=np.float32)[things] * 3
        corners = random.integers(CORNERS, size=BOXES)
        left, top = corners % 2 * 0.5, corners // 2 * 0.5
        boxes = np.stack([left, top, left + 0.4, top + 0.4], 1).astype(np.float32)
        asked = int(random.integers(BOXES))
        question = tokenizer(f"where is the {THINGS[things[asked]]} ?", padding="max_length", max_length=8)
        tokens = {name: np.array(question[name]) for name in ("input_ids", "attention_mask")}
        rows.append({**tokens, "visual_feats": features, "visual_pos": boxes, "labels": int(corners[asked])})
    return rows


def guess_without_question(rows: Sequence[dict[str, Any]]) -> float:
    """The accuracy of naming the corner where most of the things are: no more can be had from the picture."""
    most = [Counter(map(tuple, row["visual_pos"].tolist())).most_common(1)[0][1] for row in rows]
    return sum(most) / (BOXES * len(rows))


def guess_without_picture(known: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> float:
    """The accuracy of the answer that each question has most often among the known ones."""
    answers: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for row in known:
        answers[tuple(row["input_ids"])][row["labels"]] += 1
    right = [answers[tuple(row["input_ids"])].most_common(1)[0][0] == row["labels"] for row in rows]
    return sum(right) / len(rows)


def compute_metrics(found: Any) -> dict[str, float]:
    scores = found.predictions[0] if isinstance(found.predictions, tuple) else found.predictions
    return {"accuracy": float((scores.argmax(-1) == found.label_ids).mean())}


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    args = read_arguments(argv, "visual_question_answering", num_train_epochs=5.0, learning_rate=1e-3, warmup_steps=40)
    tokenizer = make_tokenizer()
    train, test = make_questions(1024, tokenizer), make_questions(128, tokenizer, seed=1)
    config = LxmertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_attention_heads=2,
        intermediate_size=128,
        l_layers=1,
        r_layers=1,
        x_layers=1,
        visual_feat_dim=len(THINGS),
        num_qa_labels=CORNERS,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.1,  # near 1 / sqrt(64). The usual 0.02 is for wide models: words find no box for long
    )
    trainer = IPUTrainer(
        LxmertForQuestionAnswering(config),
        IPUConfig(ipus_per_replica=4),
        args,
        train_dataset=train,
        eval_dataset=test,
        compute_metrics=compute_metrics,
    )
    metrics = train_and_evaluate(trainer)
    guesses = {
        "eval_accuracy_without_question": guess_without_question(test),
        "eval_accuracy_without_picture": guess_without_picture(train, test),
    }
    trainer.log_metrics("guess", guesses)
    return {**metrics, **guesses}


if __name__ == "__main__":
    main()
