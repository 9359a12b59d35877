"""A training run of a small BERT in float32: `IPUTrainer` against a plain `Trainer`, in turns, in one process.

In: the number of rounds and of steps. Out: seconds of each run without compilation, and the ratio of the medians, which
is to be 1.2 at least. Start it on a machine that does nothing else:

    python -m bench.optimum_training
    python -m bench.optimum_training --rounds 5 --steps 300
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from optimum.graphcore import IPUConfig, IPUTrainer, IPUTrainingArguments

AIM = 1.2
WORDS, LENGTH, BATCH = 2000, 64, 8


def make_model() -> BertForSequenceClassification:
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=WORDS,
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=512,
            max_position_embeddings=LENGTH,
            problem_type="single_label_classification",
        )
    )


def make_data(count: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(0)
    mask = np.ones(LENGTH, dtype=np.int64)
    return [
        {"input_ids": random.integers(WORDS, size=LENGTH), "attention_mask": mask, "labels": int(random.integers(2))}
        for _ in range(count)
    ]


def make_trainer(ipu: bool, data: list[dict[str, Any]], steps: int, directory: str) -> Any:
    settings: dict[str, Any] = {
        "output_dir": directory,
        "per_device_train_batch_size": BATCH,
        "max_steps": steps,
        "logging_steps": 50,
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    if ipu:
        return IPUTrainer(make_model(), IPUConfig(), IPUTrainingArguments(fp32=True, **settings), train_dataset=data)
    return Trainer(make_model(), TrainingArguments(use_cpu=True, **settings), train_dataset=data)


def measure(rounds: int, steps: int) -> dict[str, list[float]]:
    """Seconds of every run, by trainer. A first run of each warms up and does not count."""
    data = make_data(BATCH * 50)
    seconds: dict[str, list[float]] = {"plain": [], "ipu": []}
    with tempfile.TemporaryDirectory() as directory:
        trainers = {
            "plain": make_trainer(False, data, steps, directory),
            "ipu": make_trainer(True, data, steps, directory),
        }
        for number in range(rounds + 1):
            for name, trainer in trainers.items():
                runtime = trainer.train().metrics["train_runtime"]
                if number > 0:
                    seconds[name].append(runtime)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    chosen = parser.parse_args()
    seconds = measure(chosen.rounds, chosen.steps)
    plain, ipu = (statistics.median(seconds[name]) for name in ("plain", "ipu"))
    for name, runs in seconds.items():
        print(f"{name}: {', '.join(f'{run:.2f}' for run in runs)} s for {chosen.steps} steps")
    print(f"{plain / ipu:.2f}x plain Trainer (aim: {AIM}x)")


if __name__ == "__main__":
    main()
