"""Generated speech and interactions, in the formats that applications read. See `data.py`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

SEED = 7
MELS, LETTER_FRAMES = 80, 4


def write_speech(place: Path, *, sentences: int = 8, letters: int = 24) -> None:
    """LJSpeech as FastPitch prepares it: spectrograms, durations and pitch of each sentence, lists, statistics; and the
    same as the samples that FastPitch caches, which a NumPy of its time could write and newer ones cannot."""
    generator = torch.Generator().manual_seed(SEED)
    cache = place.parent / "cached_data"
    for folder in (place / "mels", place / "durations", place / "pitch_char", cache):
        folder.mkdir(parents=True)
    lines = []
    for number in range(sentences):
        text = torch.randint(11, 37, (letters,), generator=generator)
        durations = torch.full((letters,), LETTER_FRAMES)
        tones = torch.linspace(-1, 1, MELS)[:, None] * (text / 37).repeat_interleave(LETTER_FRAMES)
        pitch = text / 37
        for folder, tensor in (("mels", tones), ("durations", durations), ("pitch_char", pitch)):
            torch.save(tensor, place / folder / f"{number}.pt")
        lines.append(f"mels/{number}.pt|durations/{number}.pt|pitch_char/{number}.pt|{'a' * letters}")
        sample = np.empty(6, dtype=object)
        sample[:] = [text.numpy(), tones.numpy(), letters, durations.numpy(), pitch.numpy(), None]
        np.save(cache / f"{number}.npy", sample)
    (place / "list.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (place / "pitch.json").write_text(json.dumps({"mean": 0.5, "std": 0.25}), encoding="utf-8")


def write_interactions(place: Path, *, users: int = 20, items: int = 8, events: int = 400) -> None:
    """JODIE's Wikipedia edits: user, item, time, label, 172 features. A user keeps to a few items."""
    generator = np.random.default_rng(SEED)
    path = place / "wikipedia" / "raw" / "wikipedia.csv"
    path.parent.mkdir(parents=True)
    lines = ["user_id,item_id,timestamp,state_label,comma_separated_list_of_features"]
    for time in range(events):
        user = int(generator.integers(users))
        item = (user + int(generator.integers(2))) % items
        features = ",".join(f"{value:.3f}" for value in generator.normal(item / items, 0.1, 172))
        lines.append(f"{user},{item},{time}.0,0,{features}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_text(path: Path, *, letters: int = 130_000) -> None:
    """Plain text: the same few words in an order that repeats."""
    words = [f"word{number % 7} of {number % 3}" for number in range(letters // 10)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(words)[:letters], encoding="utf-8")
