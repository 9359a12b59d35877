"""Beam search by the device itself: several steps for each call of a program.

In: a step of a decoder with a cache, and what the search is told. Out: a program whose device iterations are steps.
The running beams, the finished ones and their scores are buffers; the rules are those of Transformers' beam search,
with the length of a sequence as a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from optimum.graphcore.generation.decoder_program import DecoderWrapper
from optimum.graphcore.generation.device_logits import DeviceProcessor

LOWEST = -1.0e9  # the score of a beam that is not to be chosen


@dataclass(frozen=True)
class BeamRules:
    """What a search on the device is told."""

    num_beams: int
    end_tokens: tuple[int, ...]
    padding: int
    max_length: int
    length_penalty: float
    early_stopping: bool | str

    @property
    def candidates(self) -> int:
        """Enough that `num_beams` of them go on even if the others end."""
        return max(2, 1 + len(self.end_tokens)) * self.num_beams


class OnDeviceBeamSearch(nn.Module):
    """One device iteration: the tokens of all beams in, the best continuations out."""

    sequences_name = "running"  # the buffer that a prompt is written to
    running: torch.Tensor  # (texts, beams, tokens)
    running_scores: torch.Tensor
    finished: torch.Tensor
    finished_scores: torch.Tensor
    finished_lengths: torch.Tensor
    is_finished: torch.Tensor
    may_improve: torch.Tensor  # (texts, 1)
    order: torch.Tensor  # the row that each row goes on from

    def __init__(
        self,
        step_program: DecoderWrapper,
        token_name: str,
        rows: int,
        length: int,
        rules: BeamRules,
        processors: Sequence[DeviceProcessor],
    ) -> None:
        super().__init__()
        self.step_program = step_program
        self.processors = nn.ModuleList(processors)
        self.rules = rules
        self._token_name = token_name
        batch, beams = rows // rules.num_beams, rules.num_beams
        self._batch = batch
        for name, shape, dtype in (
            ("running", (batch, beams, length), torch.int32),
            ("running_scores", (batch, beams), torch.float32),
            ("finished", (batch, beams, length), torch.int32),
            ("finished_scores", (batch, beams), torch.float32),
            ("finished_lengths", (batch, beams), torch.int32),
            ("is_finished", (batch, beams), torch.int32),
            ("may_improve", (batch, 1), torch.int32),
            ("order", (rows,), torch.int32),
        ):
            self.register_buffer(name, torch.zeros(shape, dtype=dtype), persistent=False)

    def forward(
        self, step: torch.Tensor, given: torch.Tensor, prompt: torch.Tensor, **inputs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """One step: finished sequences, their lengths, and the three conditions by which the host stops.

        `given` is 1 where the tokens at `step` come from the host: the search begins anew. `prompt` is how many do.
        """
        rules, batch = self.rules, self._batch
        self._begin(step, given[0] == 1, inputs.pop(self._token_name).int().reshape(batch, rules.num_beams, 1))
        tokens = self.running.index_select(2, step).reshape(-1, 1).long()
        logits = self.step_program(step, beam_order=self.order, **inputs, **{self._token_name: tokens})
        scores = torch.log_softmax(logits[:, -1].float(), dim=-1)
        for processor in self.processors:
            scores = processor(scores, self.running.flatten(0, 1), step + 1)
        vocabulary = scores.shape[-1]
        scores = scores.reshape(batch, rules.num_beams, vocabulary) + self.running_scores.unsqueeze(-1)
        best_scores, best = scores.flatten(1).topk(rules.candidates)
        beams = torch.div(best, vocabulary, rounding_mode="floor")
        chosen = (best % vocabulary).int()
        candidates = _gather(self.running, beams).index_copy(2, step.long() + 1, chosen.unsqueeze(-1))
        ends = torch.zeros_like(chosen, dtype=torch.bool) | (step + 2 >= rules.max_length)
        for token in rules.end_tokens:
            ends = ends | (chosen == token)
        self._finish(step, prompt, candidates, best_scores, ends)
        open_scores = best_scores + ends.float() * LOWEST
        going_on = open_scores.topk(rules.num_beams)[1]
        self.running.copy_(_gather(candidates, going_on))
        self.running_scores.copy_(_gather(open_scores, going_on))
        first_rows = torch.arange(batch, device=best.device).unsqueeze(-1) * rules.num_beams
        self.order.copy_((_gather(beams, going_on) + first_rows).flatten().int())
        self._look_ahead(step, prompt)
        return (
            self.finished.clone(),
            self.finished_lengths.clone(),
            self.may_improve.clone(),
            self.is_finished.clone(),
            ends.int(),
        )

    def _begin(self, step: torch.Tensor, anew: torch.Tensor, tokens: torch.Tensor) -> None:
        """Take tokens of the prompt; one beam of each text goes on, the others would be the same."""
        rules = self.rules
        places = torch.arange(self.running.shape[-1], device=tokens.device)
        prompt = torch.where(places == step, tokens, torch.where(places > step, rules.padding, self.running))
        self.running.copy_(torch.where(anew, prompt, self.running))
        first = torch.arange(rules.num_beams, device=tokens.device) == 0
        self.running_scores.copy_(torch.where(anew, torch.where(first, 0.0, LOWEST), self.running_scores))
        self.finished.copy_(torch.where(anew, self.running, self.finished))
        self.finished_scores.copy_(torch.where(anew, LOWEST, self.finished_scores))
        self.finished_lengths.copy_(torch.where(anew, 0, self.finished_lengths))
        self.is_finished.copy_(torch.where(anew, 0, self.is_finished))
        self.may_improve.copy_(torch.where(anew, 1, self.may_improve))
        rows = torch.arange(self.order.shape[0], device=tokens.device, dtype=torch.int32)
        self.order.copy_(torch.where(anew, rows, self.order))

    def _finish(
        self,
        step: torch.Tensor,
        prompt: torch.Tensor,
        candidates: torch.Tensor,
        scores: torch.Tensor,
        ends: torch.Tensor,
    ) -> None:
        """Keep the best of the sequences that had ended before and those that end now."""
        rules = self.rules
        among_best = torch.arange(rules.candidates, device=scores.device) < rules.num_beams
        ended = ends & among_best & (step + 2 <= rules.max_length)
        scores = scores / (step + 2 - prompt).float() ** rules.length_penalty
        if rules.early_stopping is True:
            scores = scores + self.is_finished.amin(dim=-1, keepdim=True).float() * LOWEST
        scores = scores + (self.may_improve == 0).float() * LOWEST + (~ended).float() * LOWEST
        merged = torch.cat([self.finished_scores, scores], dim=1)
        kept = merged.topk(rules.num_beams)[1]
        lengths = torch.zeros_like(ends, dtype=torch.int32) + (step + 2 - prompt).int()
        for buffer, new in (
            (self.finished, candidates),
            (self.finished_lengths, lengths),
            (self.is_finished, ended.int()),
        ):
            buffer.copy_(_gather(torch.cat([buffer, new], dim=1), kept))
        self.finished_scores.copy_(_gather(merged, kept))

    def _look_ahead(self, step: torch.Tensor, prompt: torch.Tensor) -> None:
        """Whether a running beam could still become better than the worst finished one."""
        rules = self.rules
        length = step + 2 - prompt
        if rules.early_stopping == "never" and rules.length_penalty > 0.0:
            length = rules.max_length - prompt
        best_possible = self.running_scores[:, :1] / length.float() ** rules.length_penalty
        worst = torch.where(self.is_finished.bool(), self.finished_scores.amin(dim=1, keepdim=True), LOWEST)
        possible = (best_possible > worst).any(dim=-1, keepdim=True)
        self.may_improve.copy_(self.may_improve * possible.int())


def _gather(tensor: torch.Tensor, beams: torch.Tensor) -> torch.Tensor:
    """Beams of each text, by their numbers."""
    index = beams.long()
    while index.dim() < tensor.dim():
        index = index.unsqueeze(-1)
    return torch.take_along_dim(tensor, index, dim=1)
