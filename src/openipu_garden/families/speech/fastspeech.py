"""FastSpeech 2: all frames of a spectrum at once, from phonemes and how long, high and loud each is."""

from __future__ import annotations

import torch
from torch import Tensor

from openipu.models.layers import Format
from openipu.models.sound.synthesis import FastSpeech, VoiceShape, align
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse

PHONEMES, LENGTH, BANDS, LONGEST, BINS = 8, 6, 12, 3, 4
FRAMES = LENGTH * LONGEST


def _begin() -> Course:
    torch.manual_seed(0)
    shape = VoiceShape(PHONEMES, BANDS, hidden=32, heads=2, layers=1, wide=64, kernel=3, bins=BINS, most=FRAMES)
    network = FastSpeech(shape, Format.FLOAT32, frames=FRAMES)
    fixed = torch.Generator().manual_seed(0)
    voices = torch.randn(PHONEMES, BANDS, generator=fixed)
    tones = torch.randn(2, BANDS, generator=fixed)  # what pitch and energy add to a spectrum
    lesson = Lesson(
        train=network,
        ask=network,
        inputs=1,
        draw=lambda generator: _draw(generator, voices, tones),
        judge=_judge,
        optimizer=torch.optim.Adam(network.parameters(), lr=3e-3),
        steps=300,
    )
    return LessonCourse(lesson)


def _draw(generator: torch.Generator, voices: Tensor, tones: Tensor) -> Batch:
    """A phoneme is held by its kind, is higher than the one before it if its number is, and louder at the start."""
    phonemes = torch.randint(PHONEMES, (32, LENGTH), generator=generator)
    durations = 1 + phonemes % LONGEST
    before = torch.nn.functional.pad(phonemes, (1, 0))[:, :-1]
    pitch = torch.where(phonemes > before, BINS - 1, 0)
    energy = torch.where(torch.arange(LENGTH) == 0, BINS - 1, 0).expand_as(phonemes)
    last = BINS - 1
    sounds = voices[phonemes] + pitch[..., None] / last * tones[0] + energy[..., None] / last * tones[1]
    spectrum = align(durations.float(), FRAMES) @ sounds
    return phonemes.int(), durations.int(), pitch.int(), energy.int().contiguous(), spectrum


def _judge(drawn: Tensor, batch: Batch) -> float:
    """R² over the frames that sound, by what the model itself thinks of durations, pitch and energy."""
    sounding = align(batch[1].float(), FRAMES).sum(-1) > 0
    found, true = drawn[sounding], batch[-1][sounding]
    return (1 - (found - true).square().mean() / true.var(unbiased=False)).item()


FAMILIES = (
    Family(
        name="fastspeech-2",
        title="FastSpeech 2",
        area=Area.SYNTHESIS,
        paper="Ren et al. 2020",
        learns="spectra of six phonemes, with durations, pitch and energy of its own prediction",
        goal=Goal("R² of spectra", bar=0.8, guess=0.0),
        begin=_begin,
        figures=("GARDEN-FASTSPEECH",),
    ),
)
