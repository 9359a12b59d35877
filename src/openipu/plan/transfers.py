"""Costs of what moves between chips: from IPU to IPU, from and to off-chip memory, and shares of replicas.

These steps come from the machine's links, not from the op table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from openipu.errors import PlanError
from openipu.machine import Provenance, System
from openipu.ops.cost import CostStep, Family, OpCost, Placement, StepKind

COPY = "openipu.copy_between_ipus"
LOAD = "openipu.load_from_streaming_memory"
STORE = "openipu.store_to_streaming_memory"
GATHER = "openipu.gather_replica_shares"


def cost_copy(moved_bytes: int, system: System) -> OpCost:
    """One tensor over an IPU-Link."""
    return _make_transfer(StepKind.LINK, "copy to another IPU", moved_bytes, _link_rate(system), system)


def cost_gather(moved_bytes: int, replicas: int, system: System) -> OpCost:
    """All shares of a tensor to every replica: all but its own arrive over the link."""
    received = moved_bytes * (replicas - 1) // replicas
    return _make_transfer(StepKind.LINK, "gather shares", received, _link_rate(system), system)


def cost_off_chip(name: str, moved_bytes: int, system: System) -> OpCost:
    """One tensor between an IPU and the memory beside it."""
    return _make_transfer(StepKind.HOST, name, moved_bytes, system.streaming_bytes_per_second, system)


def join_costs(costs: Sequence[OpCost]) -> OpCost:
    """One transfer in several legs."""
    steps = tuple(step for cost in costs for step in cost.steps)
    return dataclasses.replace(costs[0], steps=steps)


def _link_rate(system: System) -> float:
    if system.ipu_link_bytes_per_second <= 0:
        raise PlanError(
            f"{system.name} has no links between IPUs, but the program spans several. "
            "Choose a system of several IPUs, such as bow-2000."
        )
    return system.ipu_link_bytes_per_second


def _make_transfer(kind: StepKind, name: str, moved_bytes: int, rate: float, system: System) -> OpCost:
    cycles = moved_bytes / rate * system.target.clock_hz
    step = CostStep(kind, name, cycles, system.target.tiles, moved_bytes=moved_bytes)
    return OpCost(
        Family.TRANSFER, (step,), Placement.LINEAR, provenance=Provenance.DERIVED, basis="bytes over the link"
    )
