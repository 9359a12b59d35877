"""Logits processors that run on the device, where the length of a sequence is a tensor.

In: processors of Transformers. Out: modules that do the same to scores (rows, vocabulary), given the sequences so far
(rows, largest length) and how many of their tokens count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from transformers import LogitsProcessorList
from transformers.generation import logits_process as host


class DeviceProcessor(nn.Module):
    """A processor; `length` is a tensor of one whole number."""

    def forward(self, scores: torch.Tensor, sequences: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class _Forbid(DeviceProcessor):
    """Some tokens are never chosen while `applies` holds; with `invert`, all others."""

    def __init__(self, tokens: Sequence[int], applies: Callable[[torch.Tensor], Any], invert: bool = False) -> None:
        super().__init__()
        self.tokens, self.applies, self.invert = list(tokens), applies, invert

    def forward(self, scores: torch.Tensor, sequences: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        vocabulary = torch.arange(scores.shape[-1], device=scores.device)
        listed = torch.zeros_like(vocabulary, dtype=torch.bool)
        for token in self.tokens:
            listed = listed | (vocabulary == token)
        forbidden = (~listed if self.invert else listed) & self.applies(length)
        if self.invert:  # a forced token has the score 0, as on the host
            scores = torch.where(listed & self.applies(length), 0.0, scores)
        return scores.masked_fill(forbidden, -torch.inf)


class _Penalize(DeviceProcessor):
    """Tokens that are there already get a lower score."""

    def __init__(self, penalty: float, first: int) -> None:
        super().__init__()
        self.penalty, self.first = penalty, first

    def forward(self, scores: torch.Tensor, sequences: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        places = torch.arange(sequences.shape[1], device=scores.device)
        counts = (places >= self.first) & (places < length)
        seen = torch.zeros_like(scores).scatter_add(
            1, sequences.long(), counts.to(scores.dtype).expand(sequences.shape[0], -1)
        )
        lowered = torch.where(scores < 0, scores * self.penalty, scores / self.penalty)
        return torch.where(seen > 0, lowered, scores)


class _ForbidRepetition(DeviceProcessor):
    """No sequence of `size` tokens appears twice."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, scores: torch.Tensor, sequences: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        rows, longest = sequences.shape
        places = torch.arange(longest, device=scores.device)
        matches = (places >= self.size - 1) & (places < length)
        matches = matches.expand(rows, -1)
        for back in range(1, self.size):  # the last tokens, against those before each place
            recent = sequences.index_select(1, (length - back).clamp(min=0).long())
            before = sequences.roll(back, 1)
            matches = matches & (before == recent)
        matches = matches & (length + 1 >= self.size)
        found = torch.zeros_like(scores).scatter_add(1, sequences.long(), matches.to(scores.dtype))
        return scores.masked_fill(found > 0, -torch.inf)


def _list_tokens(tokens: Any) -> list[int]:
    return [int(token) for token in torch.as_tensor(tokens).reshape(-1)]


_BUILDERS: dict[type, Callable[[Any], DeviceProcessor]] = {
    host.SuppressTokensLogitsProcessor: lambda given: _Forbid(
        _list_tokens(given.suppress_tokens), lambda length: length >= 0
    ),
    host.SuppressTokensAtBeginLogitsProcessor: lambda given: _Forbid(
        _list_tokens(given.begin_suppress_tokens), lambda length: length == given.begin_index
    ),
    host.MinLengthLogitsProcessor: lambda given: _Forbid(
        _list_tokens(given.eos_token_id), lambda length: length < given.min_length
    ),
    host.MinNewTokensLengthLogitsProcessor: lambda given: _Forbid(
        _list_tokens(given.eos_token_id),
        lambda length: length - given.prompt_length_to_skip < given.min_new_tokens,
    ),
    host.ForcedBOSTokenLogitsProcessor: lambda given: _Forbid(
        [given.bos_token_id], lambda length: length == 1, invert=True
    ),
    host.ForcedEOSTokenLogitsProcessor: lambda given: _Forbid(
        _list_tokens(given.eos_token_id), lambda length: length == given.max_length - 1, invert=True
    ),
    host.NoRepeatNGramLogitsProcessor: lambda given: _ForbidRepetition(given.ngram_size),
    host.RepetitionPenaltyLogitsProcessor: lambda given: _Penalize(given.penalty, given.prompt_ignore_length or 0),
}


def build_device_processors(processors: LogitsProcessorList) -> list[DeviceProcessor]:
    """The same processors for the device, or an error that names the one that it does not have."""
    made = []
    for processor in processors:
        build = _BUILDERS.get(type(processor))
        if build is None:
            raise NotImplementedError(
                f"{type(processor).__name__} is not supported yet to run on IPU. Leave it out, or let the host choose "
                "the tokens: on_device_generation_steps=0."
            )
        made.append(build(processor))
    return made
