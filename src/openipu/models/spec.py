"""Which model a row means, as data, and the inputs that builders share.

In: what `recognise` found. Out: a hashable `ModelSpec`, so that rows with equal specs share one captured program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from openipu.models.layers import Format
from openipu.models.text.encoders import Gelu

Inputs = tuple[Tensor, ...]
Built = tuple[nn.Module, Inputs]

BASE: dict[str, Any] = {"layers": 12, "hidden": 768, "heads": 12, "feed_forward": 3072}
LARGE: dict[str, Any] = {"layers": 24, "hidden": 1024, "heads": 16, "feed_forward": 4096}
SMALL: dict[str, Any] = {"layers": 12, "hidden": 384, "heads": 6, "feed_forward": 1536}


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Which model. Two rows with equal specs share one captured program."""

    kind: str
    form: Format
    training: bool
    size: str = ""  # "base", "large", "tiny", …
    length: int = 0  # tokens or frames of a sample
    pixels: int = 224
    edge_form: Format | None = None  # of the first and the last layer, where it differs
    gelu: Gelu = Gelu.FUSED
    written_out: bool = False  # an exported graph that nobody fused
    details: tuple[tuple[str, int | str], ...] = ()

    @property
    def ties_ends(self) -> bool:
        """Whether the last layer shares weights with the first, so that both belong on one IPU."""
        return dict(self.details).get("head") == "masked tokens"

    def detail(self, name: str, default: int) -> int:
        """A number that the row's parameters state."""
        return int(dict(self.details).get(name, default))


def count_inputs(batch: int, *shape: int) -> Tensor:
    """Whole numbers: tokens, labels, indices."""
    return torch.empty(batch, *shape, dtype=torch.int32)


def count_labels(*shape: int) -> Tensor:
    """Labels of a loss, which PyTorch wants as 64 bits."""
    return torch.empty(*shape, dtype=torch.long)
