"""Tell low, middle and high tones apart, with HuBERT on two IPUs.

python examples/optimum/audio_classification.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from generated import make_tone, read_arguments, train_and_evaluate
from speech import SIZES
from transformers import HubertConfig, HubertForSequenceClassification

from optimum.graphcore import IPUConfig, IPUTrainer

PITCHES = (0.1, 0.3, 0.9)  # radians a sample
SAMPLES = 320


def make_sounds(count: int, seed: int = 0) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    labels = random.integers(len(PITCHES), size=count)
    return [{"input_values": make_tone(PITCHES[label], SAMPLES, random), "labels": int(label)} for label in labels]


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    args = read_arguments(argv, "audio_classification", num_train_epochs=4.0)
    config = HubertConfig(**SIZES, num_labels=len(PITCHES))
    trainer = IPUTrainer(
        HubertForSequenceClassification(config),
        IPUConfig(layers_per_ipu=[1, 1]),
        args,
        train_dataset=make_sounds(192),
        eval_dataset=make_sounds(48, seed=1),
        compute_metrics=lambda found: {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())},
    )
    return train_and_evaluate(trainer)


if __name__ == "__main__":
    main()
