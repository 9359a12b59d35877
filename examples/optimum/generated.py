"""What the examples share: a small language, its tokenizer, pictures, sounds, and how arguments are read.

Nothing is downloaded. Replace `make_…` by a dataset and a tokenizer of your own, and the scripts stay as they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import HfArgumentParser, PreTrainedTokenizerFast, set_seed

from optimum.graphcore import IPUSeq2SeqTrainingArguments, IPUTrainingArguments

PEOPLE = ("anna", "ben", "clara", "david", "emma", "felix")
PLACES = ("paris", "rome", "oslo", "lima", "cairo", "delhi")
GOOD = ("loves", "enjoys", "praises")
BAD = ("hates", "avoids", "dislikes")
THINGS = ("music", "rain", "coffee", "trains", "books", "snow")
OTHER = ("in", "the", "and", "who", "where", "what", "is", "does", ".", "?", "because", "it", "nice", "awful")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (*SPECIAL, *PEOPLE, *PLACES, *GOOD, *BAD, *THINGS, *OTHER)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token for each word of the language."""
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        eos_token="[SEP]",
    )


def make_sentences(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Sentences such as "anna in rome loves coffee", and what is in them."""
    random = np.random.default_rng(seed)
    sentences = []
    for _ in range(count):
        good = bool(random.integers(2))
        person, place, thing = (str(random.choice(words)) for words in (PEOPLE, PLACES, THINGS))
        verb = str(random.choice(GOOD if good else BAD))
        text = f"{person} in {place} {verb} {thing}"
        sentences.append({"text": text, "person": person, "place": place, "verb": verb, "thing": thing, "good": good})
    return sentences


def make_pictures(count: int, size: int = 16, seed: int = 0) -> list[dict[str, Any]]:
    """Noise with a bright bar: upright (0), lying (1), or none (2)."""
    random = np.random.default_rng(seed)
    pictures = []
    for _ in range(count):
        label = int(random.integers(3))
        pixels = random.normal(0, 0.5, (3, size, size)).astype(np.float32)
        place = int(random.integers(2, size - 2))
        if label == 0:
            pixels[:, :, place : place + 2] += 3
        elif label == 1:
            pixels[:, place : place + 2, :] += 3
        pictures.append({"pixel_values": pixels, "labels": label})
    return pictures


def make_tone(pitch: float, samples: int, random: np.random.Generator) -> Any:
    """A sine wave that begins anywhere, with noise."""
    phase = random.uniform(0, 2 * np.pi)
    wave = np.sin(pitch * np.arange(samples) + phase) + random.normal(0, 0.1, samples)
    return wave.astype(np.float32)


def read_arguments(
    argv: Sequence[str] | None, name: str, seq2seq: bool = False, **defaults: Any
) -> IPUTrainingArguments:
    """Training arguments: all of the command line, with defaults that end within seconds."""
    parser = HfArgumentParser(IPUSeq2SeqTrainingArguments if seq2seq else IPUTrainingArguments)
    usual = {
        "output_dir": str(Path(tempfile.gettempdir(), "openipu-examples", name)),
        "per_device_train_batch_size": 2,
        "per_device_eval_batch_size": 8,
        "gradient_accumulation_steps": 8,  # at least the stages of a pipeline
        "learning_rate": 3e-3,
        "num_train_epochs": 3.0,
        "logging_steps": 10,
        "save_strategy": "no",
        "fp32": True,  # half is what the trainer does by itself, and takes a host longer
    }
    parser.set_defaults(**{**usual, **defaults})
    (args,) = parser.parse_args_into_dataclasses(list(argv) if argv is not None else None)
    set_seed(args.seed)  # the model is made before its trainer, which would do it too
    return args


def train_and_evaluate(trainer: Any) -> dict[str, float]:
    """What most of the scripts do, with the metrics printed and written beside the model."""
    trained = trainer.train()
    trainer.save_model()
    trainer.log_metrics("train", trained.metrics)
    metrics = trainer.evaluate()
    trainer.log_metrics("eval", metrics)
    trainer.save_metrics("eval", metrics)
    return {**trained.metrics, **metrics}
