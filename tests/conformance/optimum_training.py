"""The original's trainers on our PopTorch: run by run_optimum.py, in the wheel's own environment.

In: small generated tasks and tiny models. Out: a classifier that learns as it does with the Trainer of Transformers,
and a sequence model that is trained, generates, and is trained on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matrix import collect_rows
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
    set_seed,
)

from optimum.graphcore import (
    IPUConfig,
    IPUSeq2SeqTrainer,
    IPUSeq2SeqTrainingArguments,
    IPUTrainer,
    IPUTrainingArguments,
)

ROWS = {row.name: row for row in collect_rows()}
LABELS = 3
TOKENS = 12
WORDS = 8


class Sentences(torch.utils.data.Dataset):
    """The class of a sentence is the word that it has most of."""

    def __init__(self, size: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, LABELS, (size,), generator=generator)
        noise = torch.randint(LABELS + 1, 32, (size, TOKENS), generator=generator)
        chosen = torch.rand(size, TOKENS, generator=generator) < 0.4
        self.words = torch.where(chosen, 1 + self.labels[:, None], noise)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        mask = torch.ones(TOKENS, dtype=torch.long)
        return {"input_ids": self.words[index], "attention_mask": mask, "labels": self.labels[index]}


def measure_accuracy(prediction: Any) -> dict[str, float]:
    return {"accuracy": float((np.argmax(prediction.predictions, -1) == prediction.label_ids).mean())}


def make_classifier() -> BertForSequenceClassification:
    set_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(vocab_size=32, max_position_embeddings=16, num_labels=LABELS, **sizes)
    config.problem_type = "single_label_classification"
    return BertForSequenceClassification(config)


@pytest.mark.parametrize("fp32", [True, False], ids=["float32", "half"])
def test_a_classifier_learns_as_with_the_plain_trainer(fp32: bool, tmp_path: Path):
    train, evaluation = Sentences(512, 1), Sentences(128, 2)
    shared = {"learning_rate": 5e-3, "num_train_epochs": 3, "report_to": "none", "save_strategy": "no"}
    shared.update(logging_steps=4, disable_tqdm=True, seed=0)
    plain = Trainer(
        make_classifier(),
        TrainingArguments(str(tmp_path / "plain"), per_device_train_batch_size=32, no_cuda=True, **shared),
        train_dataset=train,
        eval_dataset=evaluation,
        compute_metrics=measure_accuracy,
    )
    plain.train()
    config = IPUConfig(layers_per_ipu=[1, 1], gradient_accumulation_steps=8, executable_cache_dir="disabled")
    ours = IPUTrainer(
        make_classifier(),
        config,
        IPUTrainingArguments(
            str(tmp_path / "ipu"), per_device_train_batch_size=4, fp32=fp32, dataloader_drop_last=True, **shared
        ),
        train_dataset=train,
        eval_dataset=evaluation,
        compute_metrics=measure_accuracy,
    )
    ours.train()
    losses = [entry["loss"] for entry in ours.state.log_history if "loss" in entry]
    assert losses[-1] < 0.5 * losses[0]
    assert ours.state.global_step == plain.state.global_step == 48  # 3 epochs of 512 / 32
    reached, wanted = (trainer.evaluate()["eval_accuracy"] for trainer in (ours, plain))
    assert wanted > 0.9
    assert reached > wanted - 0.05


class Copies(torch.utils.data.Dataset):
    """The answer to a sentence is the sentence."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        words = 2 + (torch.arange(WORDS) * (index + 1)) % 30
        return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": words}


def test_a_sequence_trainer_generates_between_trainings(tmp_path: Path):
    model = ROWS["T5ForConditionalGeneration"].make_original()
    arguments = IPUSeq2SeqTrainingArguments(
        str(tmp_path),
        per_device_train_batch_size=1,
        per_device_eval_batch_size=2,
        learning_rate=1e-2,
        max_steps=4,
        predict_with_generate=True,
        generation_max_length=WORDS,
        generation_num_beams=1,
        evaluation_strategy="steps",
        eval_steps=2,
        save_strategy="no",
        fp32=True,
        report_to="none",
        disable_tqdm=True,
        logging_steps=1,
    )
    config = IPUConfig(
        layers_per_ipu=[2, 2],
        gradient_accumulation_steps=8,
        inference_parallelize_kwargs={
            "max_length": WORDS,
            "batch_size": 2,
            "use_cache": True,
            "encoder_max_length": WORDS,
        },
        executable_cache_dir="disabled",
    )
    answers: list[torch.Tensor] = []

    def keep_answers(prediction: Any) -> dict[str, float]:
        answers.append(torch.as_tensor(prediction.predictions))
        return {}

    sentences = Copies()
    trainer = IPUSeq2SeqTrainer(
        model, config, arguments, train_dataset=sentences, eval_dataset=sentences, compute_metrics=keep_answers
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 4
    assert losses[-1] < losses[0]
    assert len(answers) == 2  # after two steps and after four
    trainer.save_model(str(tmp_path / "saved"))
    plain = T5ForConditionalGeneration.from_pretrained(tmp_path / "saved").eval()
    words = torch.stack([sentences[index]["input_ids"] for index in range(len(sentences))])
    expected = plain.generate(words, max_length=WORDS)
    torch.testing.assert_close(answers[-1][:, : expected.shape[1]].to(expected), expected)
