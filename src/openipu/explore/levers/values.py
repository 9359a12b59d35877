"""What each lever can be set to for one program.

In: a `Subject`, a kind of lever. Out: its values, the gentlest first.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from openipu.explore.auto.estimate import Scheme
from openipu.explore.auto.schemes import measure_variables
from openipu.explore.auto.types import Keep, StateHome
from openipu.explore.levers.replan import Subject
from openipu.explore.levers.types import LeverKind
from openipu.graph import InputKind, Recompute, TensorRole

_PROPORTIONS = (0.4, 0.2, 0.1, 0.05)
_PIECES = (2, 4, 8, 16)


def list_values(subject: Subject, kind: LeverKind) -> Sequence[float | int | None]:
    """Nothing where the lever is pulled already, or there is none."""
    options, plan = subject.options, subject.plan
    training = options.training
    match kind:
        case LeverKind.MEMORY_PROPORTION:
            shares = [share for _, share in options.memory_proportions]
            lowest = min([*shares, *([] if len(shares) == plan.ipus else [options.available_memory_proportion])])
            return [share for share in _PROPORTIONS if share < lowest]
        case LeverKind.HALF_PARTIALS:
            return [] if options.half_partials else [None]
        case LeverKind.HALF_PRECISION:
            return [None] if subject.recapture is not None and _has_float_weights(subject) else []
        case LeverKind.SHARED_STATE:
            shared = options.location_of(TensorRole.OPTIMIZER).replicated_sharding
            return [None] if _has_state(subject) and options.replicas > 1 and not shared else []
        case LeverKind.STATE_OFF_CHIP:
            return [None] if _has_state(subject) and _can_move(subject, TensorRole.OPTIMIZER) else []
        case LeverKind.ACTIVATIONS_OFF_CHIP:
            return [None] if training and _can_move(subject, TensorRole.ACTIVATION) else []
        case LeverKind.WEIGHTS_OFF_CHIP:
            return [None] if _can_move(subject, TensorRole.WEIGHT) else []
        case LeverKind.RECOMPUTE:
            return [None] if training and plan.pipeline is None and options.recompute is None else []
        case LeverKind.CHECKPOINTS:
            return [None] if training and options.recompute is not Recompute.ALL else []
        case LeverKind.SERIALISED_PRODUCTS:
            return _PIECES
        case LeverKind.MICRO_BATCH:
            return _list_micro_batches(subject.plan.micro_batch) if subject.recapture is not None else []
        case LeverKind.MORE_IPUS:
            return _list_ipus(subject)


def list_unreachable(subject: Subject) -> tuple[LeverKind, ...]:
    """Levers that might help, but need the model: only its program is here."""
    if subject.recapture is not None:
        return ()
    halves = [LeverKind.HALF_PRECISION] if _has_float_weights(subject) else []
    return (*halves, *([LeverKind.MICRO_BATCH] if subject.plan.micro_batch > 1 else []))


def _has_float_weights(subject: Subject) -> bool:
    weights = subject.program.micro.inputs_of(InputKind.PARAMETER)
    return any(entry.dtype == torch.float32 for entry in weights)


def _has_state(subject: Subject) -> bool:
    return subject.options.training and bool(subject.program.state_slots)


def _can_move(subject: Subject, role: TensorRole) -> bool:
    system = subject.system
    there = system.streaming_memory_bytes > 0 and system.streaming_bytes_per_second > 0
    return there and subject.options.location_of(role).on_chip


def _list_micro_batches(size: int) -> list[int]:
    found = []
    while size > 1:
        size //= 2
        found.append(size)
    return found


def _list_ipus(subject: Subject) -> list[int]:
    """Twice as many, and so on. Of those whose tiles cannot hold the variables alone, only the largest is left."""
    system, options = subject.system, subject.options
    if system.ipu_link_bytes_per_second <= 0:
        return []
    count, found = subject.plan.ipus * 2, []
    while count * options.replicas <= system.ipus:
        found.append(count)
        count *= 2
    held = measure_variables(subject.program, options, Scheme(1, options.replicas, 2, Keep.ALL, StateHome.OFF_CHIP))
    roomy = [ipus for ipus in found if held <= ipus * system.target.tiles * system.target.usable_tile_bytes]
    return roomy or found[-1:]
