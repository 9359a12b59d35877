"""Generated data with something to learn in them.

In: a generator of random numbers and sizes. Out: a batch. Nothing is read and nothing is downloaded.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

NOISE = 0.3  # standard deviation of what is added to images, whose stripes go from -1 to 1


def draw_gratings(generator: torch.Generator, count: int, pixels: int, classes: int = 10) -> tuple[Tensor, Tensor]:
    """Striped images under noise, and the class of each: its direction. Phase, width and colour say nothing."""
    labels = torch.randint(classes, (count,), generator=generator)
    angle = labels * (math.pi / classes)
    width = 4.0 + 2.0 * torch.rand(count, generator=generator)  # pixels of a stripe and its gap
    phase = 2 * math.pi * torch.rand(count, generator=generator)
    place = torch.arange(pixels, dtype=torch.float32)
    down, right = torch.meshgrid(place, place, indexing="ij")
    way = angle.cos()[:, None, None] * right + angle.sin()[:, None, None] * down
    stripes = (2 * math.pi / width[:, None, None] * way + phase[:, None, None]).sin()
    colour = 0.5 + torch.rand(count, 3, 1, 1, generator=generator)
    images = colour * stripes[:, None]
    return images + NOISE * torch.randn(images.shape, generator=generator), labels


def draw_repeats(generator: torch.Generator, count: int, length: int, period: int, words: int) -> Tensor:
    """Sequences that repeat a random pattern: [count, length] of whole numbers below `words`."""
    pattern = torch.randint(words, (count, period), generator=generator)
    return pattern.repeat(1, -(-length // period))[:, :length]


def draw_blobs(generator: torch.Generator, count: int, pixels: int) -> tuple[Tensor, Tensor]:
    """Shaded, noisy surfaces with one bright round spot each, and for every pixel whether it belongs to the spot."""
    centre = pixels * (0.2 + 0.6 * torch.rand(count, 2, 1, 1, generator=generator))
    radius = pixels * (0.1 + 0.1 * torch.rand(count, 1, 1, generator=generator))
    place = torch.arange(pixels, dtype=torch.float32)
    down, right = torch.meshgrid(place, place, indexing="ij")
    inside = ((down - centre[:, 0]).square() + (right - centre[:, 1]).square()) < radius.square()
    slope = torch.randn(count, 2, 1, 1, generator=generator) / pixels
    shade = slope[:, 0] * down + slope[:, 1] * right
    noise = NOISE * torch.randn(count, pixels, pixels, generator=generator)
    return (inside.float() + shade + noise)[:, None], inside.long()


def score_explained(answers: Tensor, wanted: Tensor) -> float:
    """R²: the share of the variance that answers explain; 0 for the mean of all."""
    left = (answers.flatten() - wanted).square().mean()
    return (1 - left / wanted.var(unbiased=False)).item()


def score_ranking(scores: Tensor, clicked: Tensor) -> float:
    """Area under the curve: how often what was clicked stands above what was not."""
    chosen, others = scores[clicked > 0.5], scores[clicked <= 0.5]
    above = (chosen[:, None] > others[None]).float() + 0.5 * (chosen[:, None] == others[None]).float()
    return above.mean().item()


def draw_sounds(generator: torch.Generator, labels: Tensor, voices: Tensor, held: int) -> Tensor:
    """Noisy spectra of sounds that are held for some frames each: [utterances, frames, features]."""
    frames = voices[labels].repeat_interleave(held, 1)
    return frames + NOISE * torch.randn(frames.shape, generator=generator)
