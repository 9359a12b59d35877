"""Graphs as inputs and outputs of models on IPUs.

In: `Data`, `HeteroData` and batches of them. Out: their tensors, in the order of their names, and graphs like them with
other tensors. A graph keeps the number of nodes that it says it has, whatever its tensors are joined to.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData

from poptorch import ICustomArgParser, registerCustomArgParser
from poptorch_geometric._stores import iterate_stores
from poptorch_geometric.common import call_once


class PyGArgsParser(ICustomArgParser):
    """Takes graphs apart for PopTorch and builds them again. Attributes that are no tensors stay as they are."""

    def yieldTensors(self, struct: Any) -> Iterator[torch.Tensor]:
        """Every tensor of a graph. Raises ValueError for what is none."""
        for store, key in _find_tensors(struct):
            yield store[key]

    def reconstruct(self, original_structure: Any, tensor_iterator: Iterable[torch.Tensor]) -> Any:
        """A graph like the original one, with these tensors."""
        tensors = iter(tensor_iterator)
        made = copy.copy(original_structure)
        joined = False
        for store, key in list(_find_tensors(made)):
            tensor = next(tensors)
            joined |= tensor.shape != store[key].shape
            store[key] = tensor
        if joined:
            _keep_counts(made, original_structure)
        return made


def _find_tensors(graph: Any) -> Iterator[tuple[Any, str]]:
    if not isinstance(graph, Data | HeteroData):
        raise ValueError(f"Expected a graph of PyTorch Geometric (Data or HeteroData), not a {type(graph).__name__}.")
    for _, store in iterate_stores(graph):
        for key in sorted(store.keys()):
            if isinstance(store[key], torch.Tensor):
                yield store, key


def _keep_counts(made: Any, original: Any) -> None:
    """Joined tensors have the rows of several mini-batches; a graph among them has the nodes of one."""
    if isinstance(original, HeteroData):
        for kind, store in original.node_items():
            made[kind].num_nodes = store.num_nodes
    elif original.num_nodes is not None:
        made.num_nodes = original.num_nodes


def join_graphs(graphs: Sequence[Any]) -> Any:
    """Mini-batches of one size as one, along dimension 0. Raises RuntimeError where they differ."""
    parser = PyGArgsParser()
    names = [key for _, key in _find_tensors(graphs[0])]
    columns = zip(*(parser.yieldTensors(graph) for graph in graphs), strict=True)
    joined = []
    for name, column in zip(names, columns, strict=True):
        shapes = {tuple(tensor.shape) for tensor in column}
        if len(shapes) > 1:
            raise RuntimeError(
                f"{name!r} has another shape in each mini-batch, such as {sorted(shapes)[:2]}: mini-batches of one "
                "call must be alike. Use FixedSizeDataLoader, or torch_geometric.transforms.Pad."
            )
        joined.append(torch.cat(column))
    return parser.reconstruct(graphs[0], joined)


@call_once
def registerCustomArgParsers() -> None:
    """Have models take and return graphs. Batches are derived from these classes, and are found by them."""
    for kind in (Data, HeteroData):
        registerCustomArgParser(kind, PyGArgsParser())
