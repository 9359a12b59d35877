"""Replica groupings by name, and parts of a grouping that stay on one instance or one link domain."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Self

import popxl
from popxl import ReplicaGrouping
from popxl_addons.dot_tree import DotTree

__all__ = [
    "NamedReplicaGrouping",
    "fill_none_group",
    "get_ild_replica_grouping",
    "get_ild_size_from_popdist",
    "get_instance_replica_grouping",
    "is_cross_ild",
    "is_cross_instance",
]

LARGEST_LINK_DOMAIN = 64  # IPUs that share IPU-Links in a pod, unless POPLAR_TARGET_OPTIONS says otherwise


class NamedReplicaGrouping(DotTree[ReplicaGrouping]):
    """Replica groupings by name."""

    @classmethod
    def build_groups(cls, names: Iterable[str], value: ReplicaGrouping) -> Self:
        """The same grouping under each name."""
        return cls.from_dict(dict.fromkeys(names, value))


def fill_none_group(rg: ReplicaGrouping | None, none_value: ReplicaGrouping) -> ReplicaGrouping:
    """The grouping, or the one that stands for none."""
    return none_value if rg is None else rg


def is_cross_instance(replica_grouping: ReplicaGrouping) -> bool:
    """Whether a group has replicas of several instances."""
    return _spans(replica_grouping) > popxl.gcg().ir.instance_replication_factor


def get_instance_replica_grouping(replica_grouping: ReplicaGrouping | None = None) -> ReplicaGrouping:
    """The part of a grouping that stays within an instance: the same stride, no more members than an instance has."""
    ir = popxl.gcg().ir
    group = replica_grouping or ir.replica_grouping()
    local = ir.instance_replication_factor
    if group.is_const:
        assignment = list(group.assignment)
        if assignment[:local] * (ir.replication_factor // local) != assignment:
            raise ValueError(
                "the groups of one instance are not those of the next, so none of them is the part of an instance"
            )
        return group.const_rg
    if group.stride > local:
        raise ValueError(f"a stride of {group.stride} leaves the instance, which has {local} replicas")
    return (
        ir.replica_grouping(stride=group.stride, group_size=local // group.stride) if _spans(group) > local else group
    )


def get_ild_size_from_popdist() -> int:
    """How many replicas share a domain of IPU-Links."""
    size = json.loads(os.environ.get("POPLAR_TARGET_OPTIONS", "{}")).get("ipuLinkDomainSize")
    return int(size) if size is not None else min(popxl.gcg().ir.replication_factor, LARGEST_LINK_DOMAIN)


def is_cross_ild(replica_grouping: ReplicaGrouping) -> bool:
    """Whether a group has replicas of several link domains."""
    return _spans(replica_grouping) > get_ild_size_from_popdist()


def get_ild_replica_grouping(replica_grouping: ReplicaGrouping | None = None) -> ReplicaGrouping:
    """The part of a grouping that stays within a link domain."""
    ir = popxl.gcg().ir
    group = replica_grouping or ir.replica_grouping()
    size = get_ild_size_from_popdist()
    if group.stride > size:
        raise ValueError(f"a stride of {group.stride} leaves the link domain, which has {size} replicas")
    return ir.replica_grouping(stride=group.stride, group_size=size // group.stride) if _spans(group) > size else group


def _spans(group: ReplicaGrouping) -> int:
    """How many replicas lie between the first of a group and the first behind it."""
    return int(group.group_size * group.stride)
