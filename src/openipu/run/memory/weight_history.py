"""Weights as they were some updates ago, for pipelines that update after each micro-batch.

In: the weights after each update of a call. Out: a weight as it was a number of updates before, but not before the call
began: a pipeline runs empty between calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import torch

from openipu.graph import GraphInput, InputKind


class WeightHistory:
    """Copies of those weights of one memory that stages read late."""

    def __init__(self, parameters: Mapping[str, torch.Tensor], arguments: Iterable[GraphInput]) -> None:
        self._parameters = parameters
        delays: dict[str, int] = {}
        for entry in arguments:
            if entry.kind is InputKind.DELAYED:
                delays[entry.name] = max(delays.get(entry.name, 0), entry.index)
        self._kept = {name: deque[torch.Tensor](maxlen=delay + 1) for name, delay in delays.items()}

    def begin(self) -> None:
        """Before the first micro-batch of a call."""
        for versions in self._kept.values():
            versions.clear()
        self.keep()

    def keep(self) -> None:
        """After each update."""
        for name, versions in self._kept.items():
            versions.append(self._parameters[name].clone())

    def read(self, name: str, delay: int) -> torch.Tensor:
        """A weight so many updates ago, or as the call began."""
        versions = self._kept[name]
        return versions[max(0, len(versions) - 1 - delay)]
