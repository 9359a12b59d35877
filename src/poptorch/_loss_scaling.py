"""`Options.Training.setAutomaticLossScaling`: a loss scale that follows the half gradients.

In: the half gradients of each call. Out: a factor on the optimizer's own loss_scaling. Every few updates it is halved
if gradients came near the end of the range of half numbers, and doubled if none did. It is judged by the last
micro-batch of a call, and it changes between calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from openipu.graph import OutputKind, OutputMode, Program, RunOptions, Tap
from poptorch.options import Options

STATE_NAME = "lossScaleUpdateFactor"  # in checkpoints
FINAL_NAME = "finalLossScale"  # a tensor for Options.anchorTensor
_TAP_PREFIX = "automatic loss scaling: "
_LARGEST_FACTOR = 2.0**15  # a larger one would push ordinary half gradients out of range
_SETTINGS = "automaticLossScalingSettings."


class LossScaler:
    """The factor of one executor. Its settings have PopART's names, in Options._Popart."""

    def __init__(self, options: Options) -> None:
        chosen = options._Popart.options
        self.enabled = bool(options.Training.auto_loss_scaling)
        self.factor = 1.0
        self._period = int(chosen.get(f"{_SETTINGS}updatePeriod", 8))
        edge = float(chosen.get(f"{_SETTINGS}binEdgeLocation", 0.125))
        self._large = edge * torch.finfo(torch.float16).max
        self._threshold = float(chosen.get(f"{_SETTINGS}thresholdUpperCountProportion", 1e-7))
        self._updates = 0
        self._counts = [0, 0]  # large, all

    def add_taps(self, program: Program, options: RunOptions) -> RunOptions:
        """Let a program hand out its half gradients."""
        if not self.enabled:
            return options
        names = [entry.name for entry in program.micro.outputs_of(OutputKind.GRADIENT) if entry.dtype is torch.float16]
        taps = tuple(Tap(_TAP_PREFIX + name, f"Gradient___{name}", OutputMode.FINAL) for name in names)
        return replace(options, taps=(*options.taps, *taps))

    def observe(self, taps: Mapping[str, torch.Tensor], updates: int) -> bool:
        """Count the gradients of one call; says whether the factor changed."""
        if not self.enabled:
            return False
        for name, gradient in taps.items():
            if name.startswith(_TAP_PREFIX):
                # A NaN is no comparison's equal: what is not small counts as large.
                self._counts[0] += gradient.numel() - int((gradient.abs() <= self._large).sum())
                self._counts[1] += gradient.numel()
        self._updates += updates
        if self._updates < self._period:
            return False
        large, total = self._counts
        wanted = self.factor * (0.5 if total and large / total > self._threshold else 2.0)
        self.factor = min(max(wanted, 1 / _LARGEST_FACTOR), _LARGEST_FACTOR)
        self._updates, self._counts = 0, [0, 0]
        return True
