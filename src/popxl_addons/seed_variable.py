"""A random seed that lives with the program."""

from __future__ import annotations

import popxl
from popxl import ReplicaGrouping
from popxl.tensor import Tensor, Variable

__all__ = ["seed_variable"]


def seed_variable(seed: int, replica_grouping: ReplicaGrouping | None = None) -> tuple[Variable, Tensor]:
    """A seed for each group of replicas (each replica, unless said).

    Out: the variable, by which a session reads and writes it, and the tensor for the ops of the main graph. Here they
    are the same; the original keeps the variable in remote memory.
    """
    groups = replica_grouping or popxl.gcg().ir.replica_grouping(group_size=1)
    values = popxl.create_seeds(seed, replicas=groups.num_groups)
    variable = popxl.variable(values, popxl.uint32, "random_seed", replica_grouping=groups)
    return variable, variable
