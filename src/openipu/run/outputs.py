"""How the results of micro-batches become the results of one call.

In: the output leaves of each micro-batch as it finishes.
Out: one tuple of leaves, combined by the output mode: concatenated on dimension 0 in the order of the inputs
([device iteration, accumulation step, replica, sample]), the last ones, or sums. With D device iterations, G
accumulation steps, R replicas and a period of N, b micro-batches come back: D·G·R (all), D·G·R/N (every N-th device
iteration), R (final and sum). A scalar becomes a vector of b only where b is more than 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from openipu.graph import GraphOutput, OutputMode, OutputTree, RunOptions


def is_kept(mode: OutputMode, period: int, options: RunOptions, device_iteration: int, step: int) -> bool:
    """Whether a mode brings the values of this accumulation step back to the host."""
    match mode:
        case OutputMode.FINAL:
            return device_iteration == options.device_iterations - 1 and step == options.gradient_accumulation - 1
        case OutputMode.EVERY_N:
            return device_iteration % period == period - 1
        case OutputMode.ALL | OutputMode.SUM:
            return True


class OutputCollector:
    """Keeps what the output mode asks for, and nothing else."""

    def __init__(self, options: RunOptions, outputs: Sequence[GraphOutput], tree: OutputTree) -> None:
        self._options = options
        self._outputs = outputs
        self._tree = tree
        self._kept: list[list[torch.Tensor]] = [[] for _ in outputs]
        self._together = False

    def wants(self, device_iteration: int, step: int) -> bool:
        """Whether results of this accumulation step come back to the host."""
        options = self._options
        return is_kept(options.output_mode, options.output_period, options, device_iteration, step)

    def add(self, replica: int, tensors: Sequence[torch.Tensor]) -> None:
        """Take the outputs of one micro-batch. The tensors belong to the collector from here on."""
        summing = self._options.output_mode is OutputMode.SUM
        for kept, tensor in zip(self._kept, tensors, strict=True):
            if summing and len(kept) > replica:
                kept[replica] += tensor
            else:
                kept.append(tensor)

    def add_together(self, tensors: Sequence[torch.Tensor]) -> None:
        """Take the outputs of several micro-batches that lie behind one another: for the mode that keeps all."""
        self._together = True
        for kept, tensor in zip(self._kept, tensors, strict=True):
            kept.append(tensor)

    def combine(self) -> tuple[Any, ...]:
        """The leaves of one call: tensors from the device, host values as they were."""
        leaves: list[Any] = [self._tree.host_leaves.get(index) for index in range(self._tree.leaves)]
        for entry, kept in zip(self._outputs, self._kept, strict=True):
            if self._together:
                leaves[entry.index] = torch.cat(kept) if len(kept) > 1 else kept[0].contiguous()
            else:
                leaves[entry.index] = combine_micro_batches(kept)
        return tuple(leaves)


def combine_micro_batches(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """One tensor from those of several micro-batches; a single one keeps its shape."""
    if len(tensors) == 1:
        return tensors[0].contiguous()
    if tensors[0].dim() == 0:
        return torch.stack(list(tensors))
    return torch.cat(list(tensors))
