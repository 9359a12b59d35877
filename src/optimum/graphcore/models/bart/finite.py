"""BART's encoder layer in half precision, without a look at values.

In: a layer that clamps its result if anything in it is infinite. Out: the same result; the choice is made on the
device, because a static graph has no branch on values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from transformers.models.bart.modeling_bart import BartEncoderLayer


class _AllTrue:
    """What `torch.isfinite` answers while the layer runs: it asks for `all()`, and then leaves its result alone."""

    def all(self) -> bool:
        return True


class _AssumeFinite(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return _AllTrue() if func is torch.isfinite else func(*args, **(kwargs or {}))


class IPUBartEncoderLayer(BartEncoderLayer):
    """Clamps by `torch.where`."""

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        with _AssumeFinite():
            states: torch.Tensor = super().forward(*args, **kwargs)
        if states.dtype != torch.float16:
            return states
        limit = torch.finfo(states.dtype).max - 1000
        return torch.where(torch.isfinite(states).all(), states, states.clamp(-limit, limit))
