"""Puts our functions into the place of native ones that are missing, and of those that look at values.

In: the name of a module of PyTorch Geometric that has just been loaded. Out: its class with a method that asks for a
native library at each call, and does without where there is none: with one installed, nothing changes. Layers that
choose shapes by the values of a tensor get a static form, for graphs that are captured for an IPU.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from typing import Any

from openipu_pyg.devices import is_on_ipu

logger = logging.getLogger("openipu.pyg")


def register(name: str) -> None:
    """Extend the module of this name."""
    _EXTENDERS[name](sys.modules[name])


def has_native_library() -> bool:
    from torch_geometric import typing

    return bool(typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE)


def _extend_sampler(module: Any) -> None:
    _replace(module.NeighborSampler, "_sample", _sample)


def _extend_clusters(module: Any) -> None:
    _replace(module.ClusterData, "_metis", _divide)


def _extend_points(module: Any) -> None:
    from openipu_pyg import points

    for name, flag in (("radius", "RADIUS"), ("radius_graph", "RADIUS"), ("knn", "KNN"), ("knn_graph", "KNN")):
        if not has_native_function(flag):
            setattr(module, name, getattr(points, name))


def _extend_aggregation(module: Any) -> None:
    """An index is looked at to see that it is sorted, which a static graph cannot: it is taken to be."""
    check = module.Aggregation.assert_sorted_index

    @functools.wraps(check)
    def check_values(self: Any, index: Any) -> None:
        if index is None or not is_on_ipu(index):
            check(self, index)

    module.Aggregation.assert_sorted_index = check_values


def _extend_linear(module: Any) -> None:
    forward = module.HeteroLinear.forward

    @functools.wraps(forward)
    def choose(self: Any, x: Any, type_vec: Any) -> Any:
        if not is_on_ipu(x):
            return forward(self, x, type_vec)
        from openipu_pyg.typed_linear import multiply_by_type

        return multiply_by_type(x, type_vec, self.weight, self.bias)

    module.HeteroLinear.forward = choose


def has_native_function(name: str) -> bool:
    from torch_geometric import typing

    return bool(getattr(typing, f"WITH_{name}", False) or getattr(typing, "WITH_TORCH_CLUSTER", False))


def _replace(owner: Any, method: str, ours: Callable[..., Any]) -> None:
    native = getattr(owner, method)

    @functools.wraps(native)
    def choose(self: Any, *args: Any, **kwargs: Any) -> Any:
        return native(self, *args, **kwargs) if has_native_library() else ours(self, *args, **kwargs)

    setattr(owner, method, choose)


def _sample(sampler: Any, seed: Any, seed_time: Any = None, **_kwargs: Any) -> Any:
    from openipu_pyg.neighbors import sample_neighbors

    return sample_neighbors(sampler, seed, seed_time)


def _divide(clusters: Any, edge_index: Any, num_nodes: int) -> Any:
    from openipu_pyg.clusters import divide_graph

    logger.warning(
        "Neither pyg-lib nor torch-sparse is installed: the graph is divided by growing parts, not by METIS. "
        "More edges lie between clusters then."
    )
    return divide_graph(edge_index, num_nodes, clusters.num_parts)


_EXTENDERS: dict[str, Callable[[Any], None]] = {
    "torch_geometric.sampler.neighbor_sampler": _extend_sampler,
    "torch_geometric.loader.cluster": _extend_clusters,
    "torch_geometric.nn.pool": _extend_points,
    "torch_geometric.nn.aggr.base": _extend_aggregation,
    "torch_geometric.nn.dense.linear": _extend_linear,
}
