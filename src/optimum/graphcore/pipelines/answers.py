"""Where in a text the answer to a question is.

In: for each token how likely an answer starts and ends there. Out: the best spans of tokens, with their probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Flags = NDArray[np.bool_]

_NEVER = -1e4  # a logit that leaves no probability


@dataclass(frozen=True)
class Span:
    """The first and the last token of an answer."""

    first: int
    last: int
    score: float


def find_spans(
    start_logits: Floats, end_logits: Floats, is_allowed: Flags, is_null: Flags, count: int, max_length: int
) -> tuple[list[Span], float]:
    """The `count` likeliest spans of allowed tokens, no longer than `max_length`, and how likely there is no answer.

    The probability of a span is that of its start times that of its end. The token `is_null` stands for no answer: it
    takes part in the probabilities and is in no span.
    """
    start, end = (_normalise(logits, is_allowed | is_null) for logits in (start_logits, end_logits))
    no_answer = float((start[is_null] * end[is_null]).max(initial=0.0))
    start, end = np.where(is_allowed, start, 0.0), np.where(is_allowed, end, 0.0)
    scores = np.triu(np.outer(start, end))
    scores = np.tril(scores, max_length - 1)
    order = np.argsort(-scores, axis=None, kind="stable")[:count]
    pairs = zip(*np.unravel_index(order, scores.shape), strict=True)
    spans = [Span(int(first), int(last), float(scores[first, last])) for first, last in pairs]
    return [span for span in spans if span.score > 0], no_answer


def _normalise(logits: Floats, is_allowed: Flags) -> Floats:
    masked = np.where(is_allowed, logits, _NEVER)
    exponentials = np.exp(masked - masked.max())
    normalised: Floats = exponentials / exponentials.sum()
    return normalised
