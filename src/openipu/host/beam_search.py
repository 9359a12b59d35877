"""Prefix beam search for connectionist temporal classification (CTC).

In: log-probabilities [time, batch, classes] and the number of valid time steps of each sample. Out: for each sample the
most likely label sequences with their log-probabilities and lengths. Sequences that differ only in blanks and repeats
are one, and their probabilities are added.
"""

from __future__ import annotations

import math

import torch

_Beams = dict[tuple[int, ...], tuple[float, float]]  # labels -> log-probability of ending in a blank, in a label
_NEVER = -math.inf


def search_beams(
    log_probabilities: torch.Tensor, lengths: torch.Tensor, blank: int, beam_width: int, top_paths: int
) -> list[torch.Tensor]:
    """Log-probabilities [batch, paths], lengths [batch, paths], labels [batch, paths, time] padded with blanks."""
    steps, samples, _ = log_probabilities.shape
    scores = torch.full((samples, top_paths), _NEVER, dtype=torch.float32)
    sizes = torch.zeros((samples, top_paths), dtype=torch.int32)
    labels = torch.full((samples, top_paths, steps), blank, dtype=torch.int32)
    values = log_probabilities.detach().to(torch.float64)
    for sample in range(samples):
        count = min(int(lengths[sample]), steps)
        beams = _search_sample(values[:count, sample], blank, beam_width)
        for place, (path, score) in enumerate(_rank(beams)[:top_paths]):
            scores[sample, place] = score
            sizes[sample, place] = len(path)
            labels[sample, place, : len(path)] = torch.tensor(path, dtype=torch.int32)
    return [scores.to(log_probabilities.dtype), sizes, labels]


def _search_sample(values: torch.Tensor, blank: int, beam_width: int) -> _Beams:
    beams: _Beams = {(): (0.0, _NEVER)}
    for step in values.tolist():
        # New paths with any other class rank behind `beam_width` that begin alike; one may be a repeat, hence + 1.
        # Paths that are in the beam already gain by each way to them, however unlikely their last class is now.
        likely = sorted((label for label in range(len(step)) if label != blank), key=lambda label: -step[label])
        likely = likely[: beam_width + 1]
        followers: dict[tuple[int, ...], list[int]] = {}
        for path in beams:
            if path and path[-1] not in likely:
                followers.setdefault(path[:-1], []).append(path[-1])
        extended: _Beams = {}
        for path, (in_blank, in_label) in beams.items():
            total = _add(in_blank, in_label)
            _merge(extended, path, total + step[blank], _NEVER)
            if path:
                _merge(extended, path, _NEVER, in_label + step[path[-1]])
            for label in (*likely, *followers.get(path, ())):
                repeated = bool(path) and path[-1] == label
                _merge(extended, (*path, label), _NEVER, (in_blank if repeated else total) + step[label])
        kept = _rank(extended)[:beam_width]
        beams = {path: extended[path] for path, _ in kept}
    return beams


def _merge(beams: _Beams, path: tuple[int, ...], in_blank: float, in_label: float) -> None:
    before = beams.get(path, (_NEVER, _NEVER))
    beams[path] = (_add(before[0], in_blank), _add(before[1], in_label))


def _rank(beams: _Beams) -> list[tuple[tuple[int, ...], float]]:
    scored = [(path, _add(*parts)) for path, parts in beams.items()]
    return sorted((entry for entry in scored if entry[1] > _NEVER), key=lambda entry: (-entry[1], entry[0]))


def _add(first: float, second: float) -> float:
    """The logarithm of a sum of two probabilities."""
    larger, smaller = max(first, second), min(first, second)
    return larger if smaller == _NEVER else larger + math.log1p(math.exp(smaller - larger))
