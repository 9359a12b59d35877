"""Features of text and tables, as far as they are numbers."""

from __future__ import annotations

import itertools

import torch

from openipu.translate.rules import rule
from openipu.translate.site import Site

_ML = "ai.onnx.ml"


@rule("TfIdfVectorizer")
def count_grams(site: Site) -> torch.Tensor:
    """How often each known sequence of numbers occurs, also with numbers left out between its members."""
    if "pool_int64s" not in site.node.attributes:
        site.fail("counts words, and an IPU has numbers only")
    x, pool = site.input(0), [int(number) for number in site.get("pool_int64s")]
    starts = [int(number) for number in site.get("ngram_counts")]
    places = [int(number) for number in site.get("ngram_indexes")]
    rows = x.reshape(1, -1) if x.dim() == 1 else x
    shortest, longest = int(site.get("min_gram_length")), int(site.get("max_gram_length"))
    total = torch.zeros((rows.shape[0], max(places) + 1), dtype=torch.float32)
    known = 0  # sequences before those of this length
    for length, (begin, end) in enumerate(itertools.pairwise([*starts, len(pool)]), start=1):
        grams = torch.tensor(pool[begin:end], dtype=rows.dtype).reshape(-1, length)
        targets = torch.tensor(places[known : known + len(grams)], dtype=torch.int64)
        known += len(grams)
        if len(grams) and shortest <= length <= longest:
            found = _count(rows, grams, int(site.get("max_skip_count")) if length > 1 else 0)
            total = total.index_add(1, targets, found)
    weights = torch.tensor(site.get("weights", [1.0] * len(places)), dtype=torch.float32)
    scale = torch.ones(total.shape[1]).scatter(0, torch.tensor(places), weights)
    mode = site.get("mode")
    if mode != "TF":
        total = (total.clamp(max=1.0) if mode == "IDF" else total) * scale
    return total.reshape(-1) if x.dim() == 1 else total


def _count(rows: torch.Tensor, grams: torch.Tensor, most_skips: int) -> torch.Tensor:
    width, length = rows.shape[1], grams.shape[1]
    total = torch.zeros((rows.shape[0], grams.shape[0]), dtype=torch.float32)
    for skips in range(most_skips + 1):
        count = width - (length - 1) * (skips + 1)
        if count <= 0:
            break
        parts = [rows.narrow(1, member * (skips + 1), count) for member in range(length)]
        same = (torch.stack(parts, -1)[:, :, None, :] == grams).all(-1)
        total = total + same.to(torch.float32).sum(1)
    return total


@rule("Binarizer", domain=_ML)
def binarize(site: Site) -> torch.Tensor:
    x = site.input(0)
    return (x > site.number("threshold", 0.0)).to(x.dtype)


@rule("ArrayFeatureExtractor", domain=_ML)
def choose_features(site: Site) -> torch.Tensor:
    x, places = site.input(0), site.input(1)
    found = x.index_select(-1, places.reshape(-1).to(torch.int64))
    return found.reshape(1, -1) if x.dim() == 1 else found
