"""Automatic loss scaling: what PopART refuses about it, and which gradients are looked at.

In: session options, an optimizer, a captured model. Out: a `LossScaleControl`, or popart_exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from openipu.graph import GradientTracking, LossScaleControl, Program
from openipu.run import tracks_gradients
from popart._enumerations.sessions import GradientTensorTrackingMethod
from popart._exceptions import popart_exception
from popart._options import SessionOptions
from popart.optimizers import Optimizer

FINAL_SCALE = "finalLossScale"  # the loss scale of each update, where it is automatic
FACTOR = "lossScaleUpdateFactor"  # in saved models: what an automatic loss scale is multiplied by
COUNTER = "HistogramStatistics_counter"  # and the update of the current period that was the last one
WORDS = "[AutomaticLossScale transform]"
_TRACKING = {
    GradientTensorTrackingMethod.AllNonViewChangingGradientTensors: GradientTracking.ALL,
    GradientTensorTrackingMethod.ConvAndMatmulGradients: GradientTracking.PRODUCTS,
    GradientTensorTrackingMethod.GradientsOfUserSpecifiedTensors: GradientTracking.OUTPUTS,
}


def check_scaling(options: SessionOptions, optimizer: Optimizer | None) -> None:
    """Refuse sessions that cannot scale their loss. `optimizer`: None where nothing is trained."""
    if not options.automaticLossScalingSettings.enabled:
        return
    if optimizer is None:
        raise popart_exception(f"{WORDS} Only compatible when doing training")
    if optimizer.loss_scaling.isConst():
        raise popart_exception(f"{WORDS} The optimizer must have non-const loss scaling")
    if options.enablePipelining and not options.enableGradientAccumulation:
        raise popart_exception(
            f"{WORDS} Automatic loss scaling is not currently supported when the 'enablePipelining' SessionOption is "
            "set to 'true', but the 'enableGradientAccumulation' SessionOption is set to 'false'"
        )


def list_tracked(options: SessionOptions) -> list[str]:
    """Tensors whose gradients the user wants to be looked at."""
    settings = options.automaticLossScalingSettings
    chosen = settings.gradientTensorTrackingMethod is GradientTensorTrackingMethod.GradientsOfUserSpecifiedTensors
    return list(settings.toTrackTensors) if settings.enabled and chosen else []


def read_control(options: SessionOptions, leaves: Sequence[int]) -> LossScaleControl | None:
    """How the loss scale follows the gradients. `leaves`: outputs with gradients of chosen tensors."""
    given = options.automaticLossScalingSettings
    if not given.enabled:
        return None
    return LossScaleControl(
        bin_edge=given.binEdgeLocation,
        threshold=given.thresholdUpperCountProportion,
        update_period=given.updatePeriod,
        tracking=_TRACKING[given.gradientTensorTrackingMethod],
        outputs=tuple(leaves),
    )


def begin_state(control: LossScaleControl | None) -> dict[str, torch.Tensor]:
    """Where an automatic loss scale begins, by the names of saved models."""
    return {} if control is None else write_position(1.0, 0, control)


def write_position(factor: float, updates: int, control: LossScaleControl) -> dict[str, torch.Tensor]:
    """Where an automatic loss scale stands."""
    last = (updates - 1) % control.update_period
    return {FACTOR: torch.tensor(factor), COUNTER: torch.tensor(last, dtype=torch.int32)}


def read_position(state: Mapping[str, torch.Tensor]) -> tuple[float, int]:
    """The factor, and the updates of the current period that are done."""
    return float(state[FACTOR]), int(state[COUNTER]) + 1


def check_tracked(program: Program, control: LossScaleControl | None) -> None:
    """Refuse programs without half gradients."""
    if control is not None and not tracks_gradients(program, control):
        raise popart_exception(f"{WORDS} No tracked gradient tensors of type fp16 were found.")
