"""Write down melodies: three tones, one letter each, without saying when a tone begins. Wav2Vec2 with CTC, two IPUs.

python examples/optimum/speech_recognition_ctc.py
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from generated import make_tone, read_arguments, train_and_evaluate
from speech import SIZES
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

from optimum.graphcore import IPUConfig, IPUTrainer

PITCHES = {1: 0.1, 2: 0.3, 3: 0.9}  # letter: radians a sample; letter 0 is the blank
SAMPLES_OF_A_TONE = 160


def make_melodies(count: int, seed: int = 0) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    melodies = []
    for _ in range(count):
        letters = random.choice(list(PITCHES), size=3, replace=False)  # no letter twice
        tones = [make_tone(PITCHES[int(letter)], SAMPLES_OF_A_TONE, random) for letter in letters]
        melodies.append({"input_values": np.concatenate(tones), "labels": letters})
    return melodies


def compute_metrics(found: Any) -> dict[str, float]:
    """The share of melodies without a mistake: repeated letters are one, and blanks are none."""
    guesses = [[letter for letter, _ in groupby(row) if letter] for row in found.predictions.argmax(-1)]
    right = [guess == label.tolist() for guess, label in zip(guesses, found.label_ids, strict=True)]
    return {"exact": float(np.mean(right))}


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    args = read_arguments(
        argv, "speech_recognition_ctc", num_train_epochs=14.0, learning_rate=3e-3, per_device_train_batch_size=1
    )
    config = Wav2Vec2Config(**SIZES, vocab_size=4, pad_token_id=0, ctc_loss_reduction="mean")
    trainer = IPUTrainer(
        Wav2Vec2ForCTC(config),
        # The layers that are counted are the convolutions, the position, the encoder's layers and the head.
        IPUConfig(layers_per_ipu=[3, 3]),
        args,
        train_dataset=make_melodies(192),
        eval_dataset=make_melodies(24, seed=1),
        compute_metrics=compute_metrics,
    )
    return train_and_evaluate(trainer)


if __name__ == "__main__":
    main()
