"""Costs of what moves between chips: from IPU to IPU, from and to off-chip memory, and shares of replicas.

These steps come from the machine's links, not from the op table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from openipu.errors import PlanError
from openipu.graph import Collective
from openipu.machine import Provenance, System
from openipu.ops import cost_streaming
from openipu.ops.cost import CostStep, Family, OpCost, OpSite, Placement, StepKind
from openipu.plan.collectives import count_all_reduce_cycles, count_share_cycles, find_copy_rate

COPY = "openipu.copy_between_ipus"
GATHER = "openipu.gather_replica_shares"
COLLECTIVE, GROUP = "collective", "group"  # keywords of a site that stands for an exchange between replicas


def cost_copy(moved_bytes: int, source_ipu: int, destination_ipu: int, system: System) -> OpCost:
    """One tensor over the IPU-Links from one IPU to another."""
    _check_links(system)
    rate = find_copy_rate(source_ipu, destination_ipu, system)
    return _make_transfer(StepKind.LINK, "copy to another IPU", moved_bytes, rate, system)


def cost_gather(moved_bytes: int, replicas: int, ipus: int, system: System) -> OpCost:
    """All shares of a tensor to every replica: all but its own arrive over the links."""
    _check_links(system)
    received = moved_bytes * (replicas - 1) // replicas
    cycles = count_share_cycles(moved_bytes, replicas, ipus, system)
    return _wrap_transfer(StepKind.LINK, "gather shares", received, cycles, system)


def cost_off_chip(how: str, moved_bytes: int, system: System) -> OpCost:
    """One tensor between an IPU and the memory beside it: `LOAD` or `STORE`."""
    return cost_streaming(how, moved_bytes, find_streaming_rate(system), system.target)


def find_streaming_rate(system: System) -> float:
    """Bytes a second between an IPU and the memory beside it; a machine without any has its host's."""
    return float(system.streaming_bytes_per_second or system.host_bytes_per_second)


def cost_collective(site: OpSite, replicas: int, ipus: int, system: System) -> OpCost:
    """What a program's own exchange between replicas takes on the links. An all-to-all on a ring has each share go half
    the way round on average, so that as much passes a link as if half of all members' tensors were gathered."""
    kind, members = Collective(site.kwargs[COLLECTIVE]), site.kwargs[GROUP] or replicas
    size = sum(operand.bytes for operand in site.operands)
    if kind is Collective.INDEX or members <= 1:
        return OpCost(Family.CONSTANT, (), provenance=Provenance.DERIVED, basis="nothing crosses a link")
    others = (members - 1) / members
    match kind:
        case Collective.ALL_REDUCE:
            received, cycles = 2 * size * others, count_all_reduce_cycles(size, members, ipus, system)
        case Collective.REDUCE_SCATTER:
            received, cycles = size * others, count_share_cycles(size, members, ipus, system)
        case Collective.ALL_GATHER:
            received, cycles = (
                size * (members - 1),
                count_share_cycles(size * members, members, ipus, system),
            )
        case Collective.ALL_TO_ALL:
            received, cycles = size * others, count_share_cycles(size * members / 2, members, ipus, system)
    step = StepKind.LINK if system.ipu_link_bytes_per_second > 0 else StepKind.HOST
    return _wrap_transfer(step, str(kind).replace("_", "-"), round(received), cycles, system)


def join_costs(costs: Sequence[OpCost]) -> OpCost:
    """One transfer in several legs."""
    steps = tuple(step for cost in costs for step in cost.steps)
    return dataclasses.replace(costs[0], steps=steps)


def _check_links(system: System) -> None:
    if system.ipu_link_bytes_per_second <= 0:
        raise PlanError(
            f"{system.name} has no links between IPUs, but the program spans several. "
            "Choose a system of several IPUs, such as bow-2000."
        )


def _make_transfer(kind: StepKind, name: str, moved_bytes: int, rate: float, system: System) -> OpCost:
    return _wrap_transfer(kind, name, moved_bytes, moved_bytes / rate * system.target.clock_hz, system)


def _wrap_transfer(kind: StepKind, name: str, moved_bytes: int, cycles: float, system: System) -> OpCost:
    step = CostStep(kind, name, cycles, system.target.tiles, moved_bytes=moved_bytes)
    return OpCost(
        Family.TRANSFER, (step,), Placement.LINEAR, provenance=Provenance.DERIVED, basis="bytes over the link"
    )
