"""Ops between replicas, under the names that the original gives them. They are no ops of TensorFlow: the front end
makes them, with what they need as attributes."""

from __future__ import annotations

import torch

from openipu.graph import Collective
from openipu.translate.collectives import exchange, gather, number, reduce_all, reduce_to_shares, trade
from openipu.translate.rules import rule
from openipu.translate.site import Site

Tensor = torch.Tensor
MEETING = (  # all of them: who has one in a graph runs its replicas in step
    *("IpuCrossReplicaSum", "IpuCrossReplicaMean", "IpuAllGather", "IpuAllToAll", "IpuReduceScatter"),
    *("IpuReplicationIndex", "IpuReplicationNormalise"),
)


@rule("IpuCrossReplicaSum", folds=False)
def sum_over_replicas(site: Site) -> Tensor:
    return _reduce(site, "ADD")


@rule("IpuCrossReplicaMean", folds=False)
def mean_over_replicas(site: Site) -> Tensor:
    return _reduce(site, "MEAN")


def _reduce(site: Site, op: str) -> Tensor:
    x = site.input(0)
    return exchange(Collective.ALL_REDUCE, x, x.shape, reduce_all(op), site.node.name, site.get("group", 0))


@rule("IpuAllGather", folds=False)
def gather_from_replicas(site: Site) -> Tensor:
    x, factor = site.input(0), int(site.get("replication_factor"))
    return exchange(Collective.ALL_GATHER, x, (factor, *x.shape), gather, site.node.name, factor)


@rule("IpuReduceScatter", folds=False)
def reduce_to_replicas(site: Site) -> Tensor:
    x, factor, op = site.input(0), int(site.get("replication_factor")), site.get("op")
    share = -(-x.numel() // factor)
    combine = reduce_to_shares(op, share)
    return exchange(Collective.REDUCE_SCATTER, x, (share,), combine, site.node.name, factor)


@rule("IpuAllToAll", folds=False)
def trade_with_replicas(site: Site) -> Tensor:
    x, factor = site.input(0), int(site.get("replication_factor"))
    split, joined = int(site.get("split_dimension")), int(site.get("concat_dimension"))
    shape = list(x.shape)
    shape[split] //= factor
    shape[joined] *= factor
    return exchange(Collective.ALL_TO_ALL, x, shape, trade(split, joined), site.node.name, factor)


@rule("IpuReplicationIndex", folds=False)
def find_replica(site: Site) -> Tensor:
    zero = torch.zeros((), dtype=torch.int32)
    return exchange(Collective.INDEX, zero, (), number, site.node.name)


@rule("IpuReplicationNormalise", folds=False)
def divide_by_replicas(site: Site) -> Tensor:
    """The tensor divided by how many replicas there are."""
    x = site.input(0)
    return exchange(Collective.INDEX, x, x.shape, lambda given: [value / len(given) for value in given], site.node.name)
