"""What an encoder reads, in one length.

In: the encoder's inputs of one call of `generate`, and the length that `parallelize` fixed. Out: the same inputs,
filled up to that length and masked beyond their own, so that texts of any length run by one program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from optimum.graphcore.generation.decoder_call import Tensors
from optimum.graphcore.generation.decoder_program import ENCODER_MASK


def select(inputs: Mapping[str, Any], name: str) -> Tensors:
    """One of the inputs, or none if it is not there."""
    value = inputs.get(name)
    return {} if value is None else {name: value}


def fill_encoder_inputs(inputs: Tensors, main_input: str, length: int | None) -> Tensors:
    """Tokens (rows, tokens), or their embeddings, and a mask, each of `length` tokens."""
    if length is None:
        return inputs
    tokens = inputs[main_input]
    check_encoder_length(tokens.shape[1], length)
    mask = inputs.get(ENCODER_MASK, tokens.new_ones(tokens.shape[:2], dtype=torch.long))
    missing = length - tokens.shape[1]
    sides = (0, missing) if tokens.dim() == 2 else (0, 0, 0, missing)
    return {main_input: nn.functional.pad(tokens, sides), ENCODER_MASK: nn.functional.pad(mask, (0, missing))}


def check_encoder_length(given: int, fixed: int | None) -> None:
    """Refuse inputs that are longer than `parallelize` was told."""
    if fixed is not None and given > fixed:
        raise ValueError(
            f"The decoder was made for encoder_max_length={fixed}, but `model.generate()` is being called with inputs "
            f"of length {given}. Pass encoder_max_length={given} to `parallelize`, or leave it out there: the inputs "
            "then decide."
        )
