"""The check that most ops begin with."""

from __future__ import annotations

from typing import Any

import torch

from poptorch.errors import createPoptorchError


def require_tensor(value: Any, statement: str) -> None:
    """Raise unless `value` is a tensor; `statement` says who wants one."""
    if not isinstance(value, torch.Tensor):
        raise createPoptorchError(f"{statement} {type(value)} is not supported: pass a tensor.")
