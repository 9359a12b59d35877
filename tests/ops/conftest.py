"""Machines, sites and a recorder of real ATen calls for the tests of the op table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from openipu.machine import list_targets
from openipu.ops import CostContext, Operand, OpSite


class SiteRecorder(TorchDispatchMode):
    """Notes every ATen call on meta tensors, below autograd, as an `OpSite`."""

    def __init__(self) -> None:
        super().__init__()
        self.sites: list[OpSite] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = function(*args, **(kwargs or {}))
        described_args, described_kwargs = pytree.tree_map_only(torch.Tensor, describe, (args, kwargs or {}))
        outputs = [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs or {})) if isinstance(leaf, torch.Tensor)]
        if not any(tensor.is_meta for tensor in (*tensors, *outputs)):
            return results  # the host's own arithmetic, such as an optimizer's step count
        self.sites.append(
            OpSite(str(function), tuple(described_args), described_kwargs, tuple(describe(leaf) for leaf in outputs))
        )
        return results


def describe(tensor: torch.Tensor) -> Operand:
    return Operand(tuple(tensor.shape), tensor.dtype)


@pytest.fixture
def bow() -> CostContext:
    target = list_targets()["bow"]
    return CostContext(target, target.tiles)


@pytest.fixture
def one_tile() -> CostContext:
    """A single tile: what one vertex costs, without exchange."""
    return CostContext(list_targets()["bow"], tiles=1)


@pytest.fixture(scope="session")
def record() -> Callable[[Callable[[], Any]], list[OpSite]]:
    """Runs a function on meta tensors and lists the ATen calls that it makes, backward included."""

    def run(function: Callable[[], Any]) -> list[OpSite]:
        recorder = SiteRecorder()
        with recorder, torch.device("meta"):
            result = function()
            leaves = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
            losses = [leaf.float().sum() for leaf in leaves if leaf.requires_grad]
            if losses:
                torch.stack(losses).sum().backward()
        return recorder.sites

    return run
