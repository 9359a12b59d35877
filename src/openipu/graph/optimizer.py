"""What the captured update needs to know of an optimizer: its structure, never its changing values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import torch


class OptimizerKind(StrEnum):
    """Optimizers with an update rule in `capture`."""

    SGD = "sgd"
    ADAM = "adam"
    ADAMW = "adamw"
    RMSPROP = "rmsprop"
    LAMB = "lamb"
    ADAMAX = "adamax"
    ADAGRAD = "adagrad"
    ADADELTA = "adadelta"


@dataclass(frozen=True, slots=True)
class OptimizerGroup:
    """One parameter group. `flags` decide the graph's shape: "momentum", "nesterov", "centered", "weight_decay" …"""

    parameters: tuple[str, ...]
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ClipGroup:
    """Parameters whose gradients have a common norm of at most this."""

    max_norm: float
    parameters: tuple[str, ...] | None = None  # None: all that have gradients


@dataclass(frozen=True, slots=True)
class OptimizerSpec:
    """Structure of an optimizer. Two optimizers with equal specs can share one executable."""

    kind: OptimizerKind
    groups: tuple[OptimizerGroup, ...]
    state_dtypes: Mapping[str, torch.dtype] = field(default_factory=dict)  # state name -> dtype, where not float32
    max_grad_norm: float | None = None  # of all gradients together, as `torch.nn.utils.clip_grad_norm_` limits it
    clip_groups: tuple[ClipGroup, ...] = ()
    max_grad_value: float | None = None  # each element of a gradient is limited to this size
    loss_scaling: bool = False  # the loss is multiplied by a hyper-parameter, and gradients are divided by it
    accumulator_dtype: torch.dtype | None = None  # of gradients that are added up over micro-batches; None: as computed
