"""U-Net for medicine, in Keras: which pixels of a picture are a cell."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from openipu_garden.data import draw_blobs
from openipu_garden.family import Area, Course, Family, FrontEnd, Goal
from openipu_garden.keras_lesson import Arrays, KerasCourse

PIXELS, KEPT = 68, 28  # of a side, before and after: convolutions without padding lose the edge
WIDTH, LEVELS = 8, 3
EDGE = (PIXELS - KEPT) // 2


def _make_model() -> Any:
    """Levels down and up again; what was seen on the way down is cut to size and shown on the way up."""
    from keras import Input, Model, layers

    def pair(hidden: Any, channels: int) -> Any:
        for _ in range(2):
            hidden = layers.Conv2D(channels, 3, activation="relu")(hidden)
        return hidden

    pictures = Input((PIXELS, PIXELS, 1))
    hidden, kept = pictures, []
    for level in range(LEVELS):
        hidden = pair(hidden if level == 0 else layers.MaxPooling2D()(hidden), WIDTH * 2**level)
        kept.append(hidden)
    for level in reversed(range(LEVELS - 1)):
        hidden = layers.Conv2DTranspose(WIDTH * 2**level, 2, strides=2)(hidden)
        edge = (kept[level].shape[1] - hidden.shape[1]) // 2
        hidden = pair(layers.Concatenate()([hidden, layers.Cropping2D(edge)(kept[level])]), WIDTH * 2**level)
    return Model(pictures, layers.Conv2D(2, 1)(hidden))


def _draw(generator: torch.Generator, count: int) -> Arrays:
    pictures, spots = draw_blobs(generator, count, PIXELS)
    inside = spots[:, EDGE : EDGE + KEPT, EDGE : EDGE + KEPT]
    return pictures.permute(0, 2, 3, 1).contiguous().numpy(), inside.int().contiguous().numpy()


def _judge(logits: numpy.ndarray[Any, Any], spots: numpy.ndarray[Any, Any]) -> float:
    """Pixels that both call a cell, over those that either does."""
    found, true = logits.argmax(-1) == 1, spots == 1
    return float((found & true).sum() / max(1, (found | true).sum()))


def _begin() -> Course:
    return KerasCourse(_make_model, _draw, _judge, learning_rate=3e-3, batch=8, steps=200)


FAMILIES = (
    Family(
        name="unet-medical",
        title="U-Net, medical",
        area=Area.SEGMENTATION,
        paper="Ronneberger et al. 2015",
        learns="which pixels of a noisy, shaded picture belong to a round cell, with three levels",
        goal=Goal("intersection over union", bar=0.8, guess=0.193),
        begin=_begin,
        front_end=FrontEnd.KERAS,
        figures=("GARDEN-UNET-MEDICAL",),
    ),
)
