"""Cross entropy of classes that the IPUs of one replica have parts of."""

from __future__ import annotations

from collections.abc import Iterable

from popxl import Tensor, ops

__all__ = ["cross_entropy_sharded_wr_loss"]


def cross_entropy_sharded_wr_loss(
    logits: list[Tensor], indices: list[Tensor], ipus: Iterable[int] | None = None
) -> Tensor:
    """The loss of each sample, on the first IPU. ``logits``: classes by IPU; ``indices``: the labels on each."""
    if len(logits) != len(indices):
        raise ValueError(f"{len(logits)} parts of the scores, but {len(indices)} of the labels")
    places = [t.ipu for t in logits] if ipus is None else list(ipus)
    if len(places) != len(logits):
        raise ValueError(f"{len(logits)} parts, but {len(places)} IPUs")
    first = places[0]
    together = [t if place == first else ops.ipu_copy(t, first, place) for t, place in zip(logits, places, strict=True)]
    scores = ops.concat(together, axis=-1)
    return ops.nll_loss(ops.softmax(scores, axis=-1), indices[0], reduction="none")
