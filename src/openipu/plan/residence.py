"""Where a variable is kept when it is not in use: on its IPU, in one share per replica, or off chip."""

from __future__ import annotations

from dataclasses import dataclass

from openipu.graph import RunOptions, TensorRole
from openipu.ops.cost import Operand
from openipu.plan.types import VariableKind

_ROLES = {
    VariableKind.PARAMETER: TensorRole.WEIGHT,
    VariableKind.STATE: TensorRole.OPTIMIZER,
    VariableKind.ACCUMULATOR: TensorRole.ACCUMULATOR,
    VariableKind.ACTIVATION: TensorRole.ACTIVATION,
}


@dataclass(frozen=True, slots=True)
class Residence:
    """`shards` > 1: a replica keeps that share of the bytes. `entries`: the program itself loads and stores parts."""

    off_chip: bool = False
    shards: int = 1
    entries: bool = False


ON_CHIP = Residence()
REMOTE = Residence(off_chip=True, entries=True)


def find_residence(kind: VariableKind, operand: Operand, options: RunOptions) -> Residence:
    """What the user's tensor locations say of one tensor."""
    role = _ROLES.get(kind)
    if role is None:
        return ON_CHIP
    location = options.location_of(role)
    sharded = location.replicated_sharding and operand.elements >= location.minimum_sharded_elements
    off_chip = not location.on_chip and operand.elements >= location.minimum_off_chip_elements
    return Residence(off_chip, options.replicas if sharded else 1)


def shard_operand(operand: Operand, shards: int) -> Operand:
    """The share of one replica, flattened."""
    return Operand((-(-operand.elements // shards),), operand.dtype) if shards > 1 else operand
