"""How the results of micro-batches become the results of one call.

In: the output leaves of each micro-batch as it finishes, or of several that ran as one.
Out: one tuple of leaves, each combined by its output mode: concatenated on dimension 0 in the order of the inputs
([device iteration, accumulation step, replica, sample]), the last ones, or sums. With D device iterations, G
accumulation steps, R replicas and a period of N, b micro-batches come back: D·G·R (all), D·G·R/N (every N-th device
iteration, or every N-th micro-batch for an output with a mode of its own), R (final and sum). A scalar becomes a vector
of b only where b is more than 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from openipu.errors import OptionError
from openipu.graph import GraphOutput, OutputKind, OutputMode, OutputTree, Program, RunOptions


def is_kept(mode: OutputMode, period: int, options: RunOptions, device_iteration: int, step: int) -> bool:
    """Whether a mode brings the values of this accumulation step back; its period counts device iterations."""
    match mode:
        case OutputMode.FINAL:
            return device_iteration == options.device_iterations - 1 and step == options.gradient_accumulation - 1
        case OutputMode.EVERY_N:
            return device_iteration % period == period - 1
        case OutputMode.ALL | OutputMode.SUM:
            return True


def check_choices(program: Program, options: RunOptions) -> None:
    """Refuse modes of outputs that the program does not have, and periods of which no call sees the end."""
    leaves = {entry.index for entry in program.micro.outputs_of(OutputKind.OUTPUT)}
    batches = options.device_iterations * options.gradient_accumulation
    for choice in options.output_choices:
        if choice.leaf not in leaves:
            raise OptionError(
                f"{program.name} has no output {choice.leaf} that could have a mode of its own; "
                f"it has {sorted(leaves)}."
            )
        if choice.mode is OutputMode.EVERY_N and choice.period > batches:
            raise OptionError(
                f"Output {choice.leaf} of {program.name} would come back every {choice.period} micro-batches, but a "
                f"call has {batches} for each replica: choose a period of at most {batches}."
            )


class OutputCollector:
    """Keeps what the output modes ask for, and nothing else."""

    def __init__(
        self, options: RunOptions, outputs: Sequence[GraphOutput], scalar: Sequence[bool], tree: OutputTree
    ) -> None:
        """`scalar`: which of the outputs are 0-dim in one micro-batch."""
        self._options = options
        self._tree = tree
        self._slots = [_make_slot(options, entry.index, single) for entry, single in zip(outputs, scalar, strict=True)]
        self._uniform = not options.output_choices

    def take(self, position: int, factor: int, tensors: Sequence[torch.Tensor]) -> list[bool]:
        """Take the outputs of `factor` micro-batches from this position of the call on, and keep them.
        Says for each micro-batch whether anything of it comes back."""
        stored = [False] * factor
        every: list[bool] | None = None
        for slot, tensor in zip(self._slots, tensors, strict=True):
            if slot.mode is OutputMode.ALL:
                wanted = [True] * factor
            elif every is not None and self._uniform:
                wanted = every
            else:
                wanted = every = [self._wants(slot, position + offset) for offset in range(factor)]
            slot.take(tensor, position, wanted, self._options.replicas)
            stored = [one or other for one, other in zip(stored, wanted, strict=True)]
        if not self._slots:  # nothing comes back, but the mode says what would
            slot = _make_slot(self._options, -1, False)
            return [self._wants(slot, position + offset) for offset in range(factor)]
        return stored

    def combine(self) -> tuple[Any, ...]:
        """The leaves of one call: tensors from the device, host values as they were."""
        leaves: list[Any] = [self._tree.host_leaves.get(index) for index in range(self._tree.leaves)]
        for slot in self._slots:
            leaves[slot.leaf] = slot.combine()
        return tuple(leaves)

    def _wants(self, slot: _Slot, position: int) -> bool:
        options = self._options
        batch = position // options.replicas  # of one replica
        if slot.counts_micro_batches and slot.mode is OutputMode.EVERY_N:
            return batch % slot.period == slot.period - 1
        return is_kept(slot.mode, slot.period, options, *divmod(batch, options.gradient_accumulation))


@dataclass(slots=True)
class _Slot:
    """One output: its mode, and what of it was kept."""

    leaf: int
    mode: OutputMode
    period: int
    counts_micro_batches: bool
    scalar: bool
    kept: list[torch.Tensor] = field(default_factory=list)
    together: bool = False  # what was kept lies behind one another already

    def take(self, tensor: torch.Tensor, position: int, wanted: Sequence[bool], replicas: int) -> None:
        factor = len(wanted)
        if factor == 1:
            if wanted[0]:
                self._keep(tensor, position % replicas)
        elif self.mode is OutputMode.ALL:
            self.together = True
            self.kept.append(tensor)
        else:
            for offset in range(factor):
                if wanted[offset]:
                    self._keep(_take_one(tensor, self.scalar, offset, factor), (position + offset) % replicas)

    def _keep(self, tensor: torch.Tensor, replica: int) -> None:
        if self.mode is OutputMode.SUM and len(self.kept) > replica:
            # Not in place: native code may return one tensor for two equal outputs.
            self.kept[replica] = self.kept[replica] + tensor
        else:
            self.kept.append(tensor)

    def combine(self) -> torch.Tensor:
        if self.together:
            return torch.cat(self.kept) if len(self.kept) > 1 else self.kept[0].contiguous()
        return combine_micro_batches(self.kept)


def _make_slot(options: RunOptions, leaf: int, scalar: bool) -> _Slot:
    choice = options.choice_of(leaf)
    if choice is None:
        return _Slot(leaf, options.output_mode, options.output_period, False, scalar)
    return _Slot(leaf, choice.mode, choice.period, True, scalar)


def _take_one(tensor: torch.Tensor, scalar: bool, offset: int, factor: int) -> torch.Tensor:
    """What one of several micro-batches has returned."""
    size = tensor.shape[0] // factor
    return tensor[offset] if scalar else tensor.narrow(0, offset * size, size)


def combine_micro_batches(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """One tensor from those of several micro-batches; a single one keeps its shape."""
    if len(tensors) == 1:
        return tensors[0].contiguous()
    if tensors[0].dim() == 0:
        return torch.stack(list(tensors))
    return torch.cat(list(tensors))
