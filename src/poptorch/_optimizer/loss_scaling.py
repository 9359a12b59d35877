"""`Options.Training.setAutomaticLossScaling`: a loss scale that follows the half gradients.

In: options, whose settings have PopART's names. Out: the `LossScaleControl` of a program, and what its executable did:
the factor for checkpoints, and the scales of a call for `Options.anchorTensor`.
"""

from __future__ import annotations

import torch

from openipu.graph import GradientTracking, LossScaleControl
from openipu.run import Executable
from poptorch.enums import OutputMode
from poptorch.errors import translate_errors
from poptorch.options import Options

STATE_NAME = "lossScaleUpdateFactor"  # in checkpoints
FINAL_NAME = "finalLossScale"  # a tensor for Options.anchorTensor
_SETTINGS = "automaticLossScalingSettings."
_TRACKING = (GradientTracking.ALL, GradientTracking.PRODUCTS)  # PopART's numbers


def is_automatic(options: Options) -> bool:
    """Whether the loss scale follows the gradients."""
    return bool(options.Training.auto_loss_scaling or options._Popart.options.get(f"{_SETTINGS}enabled", False))


def read_control(options: Options) -> LossScaleControl | None:
    """The settings for a program that trains."""
    if not is_automatic(options):
        return None
    chosen = options._Popart.options
    method = int(chosen.get(f"{_SETTINGS}gradientTensorTrackingMethod", 0))
    if method not in range(len(_TRACKING)):
        raise ValueError(
            f"{_SETTINGS}gradientTensorTrackingMethod is 0 for all half gradients or 1 for those of matrix products "
            f"and convolutions, not {method}"
        )
    with translate_errors():
        return LossScaleControl(
            bin_edge=float(chosen.get(f"{_SETTINGS}binEdgeLocation", 0.125)),
            threshold=float(chosen.get(f"{_SETTINGS}thresholdUpperCountProportion", 1e-7)),
            update_period=int(chosen.get(f"{_SETTINGS}updatePeriod", 1)),
            tracking=_TRACKING[method],
        )


def read_factor(executable: Executable) -> float | None:
    """The factor on the optimizer's own loss scale; None where it is not automatic."""
    return None if executable.loss_scale is None else executable.loss_scale.factor


def collect_scales(executable: Executable, mode: OutputMode | None) -> torch.Tensor:
    """The loss scale of the last call as an anchored tensor: of each micro-batch with `OutputMode.All`, or the last."""
    assert executable.loss_scale is not None
    used = torch.tensor(executable.loss_scale.used)
    if mode != OutputMode.All:
        return used[-1]
    options = executable.options
    return used.repeat_interleave(options.gradient_accumulation * options.replicas)
