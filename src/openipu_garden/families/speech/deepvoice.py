"""DeepVoice 3, in PopART: spectra from text, frame by frame, by convolutions that look where they are in the text."""

from __future__ import annotations

import torch
from torch import Tensor

from openipu.models.layers import Format
from openipu.models.sound.synthesis import DeepVoice
from openipu_garden.data import draw_sounds, score_explained
from openipu_garden.family import Area, Course, Family, FrontEnd, Goal
from openipu_garden.lesson import Batch
from openipu_garden.popart_lesson import PopartCourse

PHONEMES, LENGTH, BANDS, HELD = 8, 8, 12, 2


def _begin() -> Course:
    torch.manual_seed(0)
    network = DeepVoice(
        Format.FLOAT32, phonemes=PHONEMES, bands=BANDS, hidden=64, kernel=3, reading=1, speaking=2, most=LENGTH * HELD
    )
    voices = torch.randn(PHONEMES, BANDS, generator=torch.Generator().manual_seed(0))
    return PopartCourse(
        network,
        lambda generator: _draw(generator, voices),
        lambda drawn, batch: score_explained(drawn, batch[-1].flatten()),
        inputs=("text", "spoken"),
        learning_rate=2e-3,
        steps=300,
    )


def _draw(generator: torch.Generator, voices: Tensor) -> Batch:
    """Text, the spectrum up to the frame before, and the spectrum; of half of all frames nothing before tells."""
    text = torch.randint(PHONEMES, (32, LENGTH), generator=generator)
    spectrum = draw_sounds(generator, text, voices, HELD)
    spoken = torch.nn.functional.pad(spectrum, (0, 0, 1, 0))[:, :-1]
    return text.int(), spoken.contiguous(), spectrum


FAMILIES = (
    Family(
        name="deepvoice-3",
        title="DeepVoice 3",
        area=Area.SYNTHESIS,
        paper="Ping et al. 2017",
        learns="the next frame of the spectrum of eight phonemes that are held for two frames each",
        goal=Goal("R² of the next frame", bar=0.8, guess=0.0),
        begin=_begin,
        front_end=FrontEnd.POPART,
        figures=("GARDEN-DEEPVOICE",),
    ),
)
