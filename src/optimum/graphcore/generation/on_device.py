"""Greedy search by the device itself: several tokens for each call of a program.

In: a step of a decoder with a cache, and what the search is told (end tokens, padding, logits processors). Out: a
program whose device iterations are steps; each writes the token it chose to a buffer, where the next one reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from optimum.graphcore.generation.decoder_program import DecoderWrapper
from optimum.graphcore.generation.device_logits import DeviceProcessor


class OnDeviceGreedySearch(nn.Module):
    """One device iteration: a token in, the next one out."""

    sequences_name = "sequences"  # the buffer that a prompt is written to
    sequences: torch.Tensor  # (rows, tokens)
    finished: torch.Tensor  # (rows, 1)

    def __init__(
        self,
        step_program: DecoderWrapper,
        token_name: str,
        rows: int,
        length: int,
        end_tokens: Sequence[int],
        padding: int,
        processors: Sequence[DeviceProcessor],
    ) -> None:
        super().__init__()
        self.step_program = step_program
        self.processors = nn.ModuleList(processors)
        self._token_name = token_name
        self._padding = padding
        self._end_tokens = tuple(end_tokens)
        self.register_buffer("sequences", torch.zeros(rows, length, dtype=torch.int32), persistent=False)
        self.register_buffer("finished", torch.zeros(rows, 1, dtype=torch.int32), persistent=False)

    def forward(self, step: torch.Tensor, given: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        """The token (rows, 1) that follows position `step`.

        `given` is 1 where the token at `step` comes from the host: in the prompt. Elsewhere it is the one that the
        iteration before this one chose.
        """
        from_host = given.reshape(-1, 1) == 1
        token = torch.where(from_host, inputs.pop(self._token_name).int(), self._read(step))
        self._write(step, token)
        finished = torch.where(from_host, 0, self.finished)
        scores = self.step_program(step, **inputs, **{self._token_name: token.long()})[:, -1].float()
        for processor in self.processors:
            scores = processor(scores, self.sequences, step + 1)
        chosen = scores.argmax(dim=-1, keepdim=True).int()
        chosen = torch.where(finished == 1, self._padding, chosen)
        for end in self._end_tokens:
            finished = torch.where(chosen == end, 1, finished)
        self.finished.copy_(finished)
        self._write(step + 1, chosen)
        return chosen

    def _read(self, step: torch.Tensor) -> torch.Tensor:
        return self.sequences.index_select(1, step)

    def _write(self, step: torch.Tensor, tokens: torch.Tensor) -> None:
        self.sequences.index_copy_(1, step.long(), tokens)
