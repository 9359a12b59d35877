"""Images of three channels become normalised ones of four.

In: pixels [..., 3] of bytes, half or float. Out: (pixel x scale - offset) x factor of each channel, and a fourth
channel of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as functional

from openipu.graph.mapped import HALF, UNSIGNED_CHAR, choose_format
from poplar import Graph, Tensor, Type
from poplar._errors import poplar_error
from poplar._library import Target, call_library
from poplar._linear import mapTensorLinearly

_CHANNELS = 3


def createNormaliseImageInput(graph: Graph, element: Type, shape: Sequence[int], name: str = "", *rest: Any) -> Tensor:
    _check_channels("createNormaliseImageInput", list(shape))
    made = graph.addVariable(element, list(shape), name or "image")
    mapTensorLinearly(graph, made)
    return made


def _check_channels(function: str, shape: list[int]) -> None:
    if len(shape) < 2 or shape[-1] != _CHANNELS:
        raise poplar_error(f"{function}: the last dimension has the {_CHANNELS} channels, and the shape is {shape}.")


def normaliseImage(
    graph: Graph, prog: Target, tensor: Tensor, inScale: float, offsets: Tensor, scales: Tensor, name: str = ""
) -> Tensor:
    """Bytes become half; others keep their type."""
    _check_channels("normaliseImage", tensor.shape())
    element = HALF if tensor.elementType() == UNSIGNED_CHAR else tensor.elementType()
    for what, given in (("offsets", offsets), ("scales", scales)):
        if given.shape() != [_CHANNELS] or given.elementType() != element:
            raise poplar_error(f"normaliseImage: {what} are {_CHANNELS} numbers of type {element}, not {given!r}.")
    wanted = choose_format(element)

    def traced(pixels: torch.Tensor, shift: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return functional.pad((pixels.to(wanted) * inScale - shift) * factor, [0, 1])

    operands = [tensor, offsets, scales]
    return call_library(graph, prog, "popops::normaliseImage", traced, operands, types=[element], name=name)[0]
