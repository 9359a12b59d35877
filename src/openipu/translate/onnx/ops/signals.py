"""Windows, Fourier transforms, mel scales.

A transform is a product with a matrix of constants: that is what an IPU has.
"""

from __future__ import annotations

import math

import torch

from openipu.capture import lift, on_host
from openipu.translate.onnx.formats import find_dtype
from openipu.translate.rules import rule
from openipu.translate.site import Site

_COSINES = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@rule("HannWindow", "HammingWindow", "BlackmanWindow", static=(0,))
def window(site: Site) -> torch.Tensor:
    size = site.numbers(0, "size")[0]
    dtype = find_dtype(site.get("output_datatype", 1), f"the result of {site.node.title}")
    length = size if site.get("periodic", 1) else size - 1
    angle = 2 * math.pi * torch.arange(size, dtype=torch.float64) / max(length, 1)
    constant, first, second = _COSINES[site.node.op]
    return (constant - first * torch.cos(angle) + second * torch.cos(2 * angle)).to(dtype)


@rule("DFT", until=19, static=(1,))
def transform(site: Site) -> torch.Tensor:
    return _transform(site, site.get("axis", 1))


@rule("DFT", since=20, static=(1, 2))
def transform_along(site: Site) -> torch.Tensor:
    return _transform(site, site.numbers(2, "axis")[0] if site.has(2) else -2)


def _transform(site: Site, axis: int) -> torch.Tensor:
    x = site.input(0)
    axis = axis % x.dim()
    length = site.numbers(1, "length")[0] if site.has(1) else x.shape[axis]
    inverse, half = bool(site.get("inverse", 0)), bool(site.get("onesided", 0))
    if inverse and half:
        return _invert_half(site, x, axis, length)
    results = length // 2 + 1 if half else length
    return _apply_fourier(x, axis, length, results, inverse)


def _invert_half(site: Site, x: torch.Tensor, axis: int, length: int) -> torch.Tensor:
    """From the half of a spectrum that a real signal has back to the signal."""
    if not site.has(1):
        length = 2 * (x.shape[axis] - 1)
    mirrored = length - x.shape[axis]
    rest = torch.flip(x.narrow(axis, 1, mirrored), (axis,)) * torch.tensor([1.0, -1.0], dtype=x.dtype)
    return _apply_fourier(torch.cat((x, rest), axis), axis, length, length, True)[..., :1]


def _apply_fourier(x: torch.Tensor, axis: int, length: int, results: int, inverse: bool) -> torch.Tensor:
    taken = min(length, x.shape[axis])
    x = x.narrow(axis, 0, taken)
    dtype = x.dtype
    with on_host():
        angle = torch.outer(torch.arange(results), torch.arange(taken)).remainder(length).to(torch.float64)
        angle = angle * (2 * math.pi / length) * (1 if inverse else -1)
        scale = 1 / length if inverse else 1.0
        cosine, sine = ((part * scale).to(dtype).t().contiguous() for part in (torch.cos(angle), torch.sin(angle)))
    cosine, sine = lift(cosine), lift(sine)
    moved = x.movedim(axis, -2)
    real = moved[..., 0]
    first, second = torch.matmul(real, cosine), torch.matmul(real, sine)
    if x.shape[-1] == 2:
        imaginary = moved[..., 1]
        first, second = (
            first - torch.matmul(imaginary, sine),
            second + torch.matmul(imaginary, cosine),
        )
    return torch.stack((first, second), -1).movedim(-2, axis)


@rule("STFT", static=(1, 3))
def transform_pieces(site: Site) -> torch.Tensor:
    x, step = site.input(0), site.numbers(1, "frame step")[0]
    shape = site.optional(2)
    length = site.numbers(3, "frame length")[0] if site.has(3) else (x.shape[1] if shape is None else shape.shape[0])
    pieces = x.unfold(1, length, step).movedim(-1, 2)  # [batch, frames, length, 1 or 2]
    if shape is not None:
        pieces = pieces * shape.reshape(-1, 1)
    results = length // 2 + 1 if site.get("onesided", 1) else length
    return _apply_fourier(pieces, 2, length, results, False)


@rule("MelWeightMatrix", static=(0, 1, 2, 3, 4))
def mel_matrix(site: Site) -> torch.Tensor:
    bins, length, rate = (site.numbers(place, "sizes")[0] for place in range(3))
    low, high = (float(site.value(place, "edges")) for place in (3, 4))
    dtype = find_dtype(site.get("output_datatype", 1), f"the result of {site.node.title}")
    spectrum = length // 2 + 1
    edges = [2595 * math.log10(1 + edge / 700) for edge in (low, high)]
    mels = edges[0] + torch.arange(bins + 2, dtype=torch.float64) * (edges[1] - edges[0]) / (bins + 2)
    places = torch.floor((length + 1) * (700 * (torch.pow(10.0, mels / 2595) - 1)) / rate).to(torch.int64)
    matrix = torch.zeros((spectrum, bins), dtype=torch.float64)
    for number in range(bins):
        first, middle, last = (int(place) for place in places[number : number + 3])
        if middle == first:
            matrix[middle, number] = 1
        else:
            rows = torch.arange(first, middle + 1)
            matrix[rows, number] = (rows - first).double() / (middle - first)
        if last > middle:
            rows = torch.arange(middle, last)
            matrix[rows, number] = (last - rows).double() / (last - middle)
    return matrix.to(dtype)
