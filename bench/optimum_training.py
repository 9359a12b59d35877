"""A training run of the small BERT in float32: `IPUTrainer` against a plain `Trainer`, in turns.

In: the number of rounds and of steps. Out: seconds of each run without compilation, and the ratio of the medians, which
is to be 1.2 at least. Each run has a process of its own, because openipu tunes the allocator of its process. The model
is the small BERT of the other benchmarks. Start it on a machine that does nothing else:

    python -m bench.optimum_training
    python -m bench.optimum_training --rounds 5 --steps 300
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from optimum.graphcore import IPUConfig, IPUTrainer, IPUTrainingArguments

AIM = 1.2
WORDS, LENGTH, BATCH = 30000, 128, 4


def make_model() -> BertForSequenceClassification:
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            hidden_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=1024,
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


def train(way: str, steps: int) -> float:
    """Seconds of one run in this process, after a short one that does not count."""
    data = make_data(BATCH * 50)
    with tempfile.TemporaryDirectory() as directory:
        make_trainer(way == "ipu", data, 10, directory).train()
        seconds: float = make_trainer(way == "ipu", data, steps, directory).train().metrics["train_runtime"]
    return seconds


def measure(rounds: int, steps: int) -> dict[str, list[float]]:
    """Seconds of every run, by trainer."""
    seconds: dict[str, list[float]] = {"plain": [], "ipu": []}
    for _ in range(rounds):
        for way, runs in seconds.items():
            command = [sys.executable, "-m", "bench.optimum_training", "--way", way, "--steps", str(steps)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            runs.append(float(done.stdout.split()[-1]))
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--way", choices=("plain", "ipu"), help="one run in this process: prints its seconds")
    chosen = parser.parse_args()
    if chosen.way:
        print(train(chosen.way, chosen.steps))
        return
    seconds = measure(chosen.rounds, chosen.steps)
    plain, ipu = (statistics.median(seconds[name]) for name in ("plain", "ipu"))
    for name, runs in seconds.items():
        print(f"{name}: {', '.join(f'{run:.2f}' for run in runs)} s for {chosen.steps} steps")
    print(f"{plain / ipu:.2f}x plain Trainer (aim: {AIM}x)")


if __name__ == "__main__":
    main()
