"""Every example runs as its own command would, and learns what it is there to learn."""

from __future__ import annotations

import difflib
import importlib
import math
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "optimum"
HELPERS = ("generated", "speech")
PAIR = ("before_transformers", "after_ipu")
BARS = {  # a metric, and what it reaches: at least, or for a loss at most
    "audio_classification": ("eval_accuracy", 0.9),
    "causal_language_model": ("eval_loss", 2.3),  # of ln 43 = 3.8 for a guess among all words
    "image_classification": ("eval_accuracy", 0.9),
    "masked_language_model": ("eval_loss", 1.8),  # that a person is meant leaves six names: ln 6 = 1.8
    "multiple_choice": ("eval_accuracy", 0.9),
    "pretraining": ("eval_loss", 3.3),  # as before, plus ln 2 for the pair of sentences, plus some
    "question_answering": ("eval_exact_match", 0.9),
    "speech_recognition_ctc": ("eval_exact", 0.8),
    "summarization": ("eval_right_words", 0.9),
    "text_classification": ("eval_accuracy", 0.9),
    "token_classification": ("eval_accuracy", 0.9),
    "translation": ("eval_right_words", 0.9),
    "visual_question_answering": ("eval_accuracy", 0.9),
}


def load_example(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for module in (*HELPERS, name):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return importlib.import_module(name)


@pytest.mark.parametrize("name", BARS)
def test_the_example_learns_its_task(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = load_example(name, monkeypatch)
    metrics = example.main(["--output_dir", str(tmp_path), "--disable_tqdm", "True", "--report_to", "none"])
    metric, bar = BARS[name]
    assert metrics[metric] <= bar if metric == "eval_loss" else metrics[metric] >= bar, metrics
    guesses = [value for name, value in metrics.items() if "_without_" in name]  # with a part of the inputs hidden
    assert all(metrics[metric] > guess + 0.3 for guess in guesses)
    assert math.isfinite(metrics["train_loss"])
    assert math.isfinite(metrics["eval_loss"])
    assert metrics["train_ipu_samples_per_second_modelled"] > 0
    assert {"config.json", "model.safetensors", "ipu_config.json"} <= {path.name for path in tmp_path.iterdir()}


def test_neither_the_question_nor_the_picture_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    example = load_example("visual_question_answering", monkeypatch)
    tokenizer = example.make_tokenizer()
    known, rows = example.make_questions(1024, tokenizer), example.make_questions(1024, tokenizer, seed=1)
    # three things in four corners: all in one 1/16, two of them 9/16, none 6/16; the most crowded one is named
    expected = (1 / 16) * 1 + (9 / 16) * 2 / 3 + (6 / 16) * 1 / 3
    assert example.guess_without_question(rows) == pytest.approx(expected, abs=0.03)
    assert example.guess_without_picture(known, rows) == pytest.approx(1 / 4, abs=0.05)


def test_every_example_has_a_bar() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*BARS, *HELPERS, *PAIR}


def test_a_script_for_ipus_differs_by_its_classes_alone() -> None:
    before, after = ((EXAMPLES / f"{name}.py").read_text(encoding="utf-8") for name in PAIR)
    lines = [text.split('"""', 2)[2].splitlines() for text in (before, after)]  # without what a file says of itself
    changes = [line for line in difflib.ndiff(*lines) if line[0] in "+-" and line[2:].strip()]
    assert changes == [
        "- from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed",
        "+ from transformers import BertConfig, BertForSequenceClassification, set_seed",
        "+ from optimum.graphcore import IPUConfig, IPUTrainer, IPUTrainingArguments",
        "-     training_args = TrainingArguments(",
        "+     training_args = IPUTrainingArguments(",
        "-     trainer = Trainer(",
        "+     trainer = IPUTrainer(",
        "+         ipu_config=IPUConfig(),",
    ]


def test_both_scripts_have_the_same_learning_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, ours = (load_example(name, monkeypatch).main() for name in PAIR)
    assert len(plain) == len(ours) == 4 * 256 // 16
    assert plain[0] > 0.6
    assert plain[-1] < 0.1
    assert ours == pytest.approx(plain, abs=0.05)  # the IPU's numbers are half, rounded at random
