"""How large a mini-batch of graphs is after padding.

In: numbers of nodes, edges and graphs, given, or found in a dataset or in what a loader yields. Out:
`FixedSizeOptions`, which the collater and the loaders go by. In heterogeneous graphs each type has its own numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader
from torch_geometric.data import Batch, Dataset, HeteroData
from torch_geometric.data.data import BaseData
from torch_geometric.typing import EdgeType, NodeType
from tqdm import tqdm

LONG_DATASET = 10_000  # samples from which on looking at all of them gets a progress bar
LEAST_GRAPHS = 2  # a real one, and one that takes the padding


class FixedSizeOptions:
    """Nodes, edges and graphs of a padded mini-batch, and the values that padding is filled with.

    num_nodes, num_edges: for all types together where the graph is homogeneous; a dictionary by type, or one number for
    each type, where it is heterogeneous. Without `num_edges`, every node may be connected to every other.
    num_graphs: with those that take the padding, so at least 2.
    pad_graph_defaults: values of attributes that are no tensors, in graphs that are padding; others are repeated.
    """

    def __init__(
        self,
        num_nodes: int | dict[NodeType, int],
        num_edges: int | dict[EdgeType, int] | None = None,
        num_graphs: int = LEAST_GRAPHS,
        node_pad_value: float | None = None,
        edge_pad_value: float | None = None,
        graph_pad_value: float | None = None,
        pad_graph_defaults: dict[str, Any] | None = None,
    ) -> None:
        _check_numbers("num_nodes", num_nodes)
        if num_edges is not None:
            _check_numbers("num_edges", num_edges)
        self.num_nodes = num_nodes
        self.num_edges = num_edges
        if num_edges is None and not isinstance(num_nodes, dict):
            self.num_edges = num_nodes * (num_nodes - 1)
        self.num_graphs = num_graphs
        self.node_pad_value = 0.0 if node_pad_value is None else node_pad_value
        self.edge_pad_value = 0.0 if edge_pad_value is None else edge_pad_value
        self.graph_pad_value = 0.0 if graph_pad_value is None else graph_pad_value
        self.pad_graph_defaults = {} if pad_graph_defaults is None else pad_graph_defaults

    @property
    def num_graphs(self) -> int:
        """Graphs in a mini-batch, those that are padding included."""
        return self._num_graphs

    @num_graphs.setter
    def num_graphs(self, number: int) -> None:
        if number < LEAST_GRAPHS:
            raise ValueError(
                f"num_graphs is {number}: it must be at least {LEAST_GRAPHS}, a real graph and one that takes the "
                "padding."
            )
        self._num_graphs = number

    def is_hetero(self) -> bool:
        """Are there numbers for each node type and for each edge type?"""
        return isinstance(self.num_nodes, dict) and isinstance(self.num_edges, dict)

    def to_hetero(self, node_types: Sequence[NodeType], edge_types: Sequence[EdgeType]) -> None:
        """From now on, one number for each of these types: the one that was given for all."""
        if not isinstance(self.num_nodes, dict):
            self.num_nodes = dict.fromkeys(node_types, self.num_nodes)
        if self.num_edges is None:
            self.num_edges = {kind: _count_possible_edges(kind, self.num_nodes) for kind in edge_types}
        elif not isinstance(self.num_edges, dict):
            self.num_edges = dict.fromkeys(edge_types, self.num_edges)

    @property
    def total_num_nodes(self) -> int:
        """Nodes of all types together."""
        return sum(self.num_nodes.values()) if isinstance(self.num_nodes, dict) else self.num_nodes

    @property
    def total_num_edges(self) -> int:
        """Edges of all types together."""
        if self.num_edges is None:
            raise ValueError("num_edges is not known before to_hetero has said which types of edges there are.")
        return sum(self.num_edges.values()) if isinstance(self.num_edges, dict) else self.num_edges

    @classmethod
    def from_dataset(
        cls,
        dataset: Dataset | Sequence[BaseData],
        batch_size: int,
        sample_limit: int | None = None,
        progress_bar: bool | None = None,
    ) -> FixedSizeOptions:
        """Room for any `batch_size - 1` graphs of this dataset, and one node and one edge of padding.

        With `sample_limit`, only that many graphs from the beginning are looked at, and larger ones may follow.
        """
        samples: Iterable[BaseData] = islice(dataset, sample_limit)
        if progress_bar or (progress_bar is None and len(dataset) >= LONG_DATASET):
            samples = tqdm(samples, total=min(len(dataset), sample_limit or len(dataset)))
        largest = _find_largest(samples)
        real = batch_size - 1
        return cls(
            num_nodes=_grow(largest.num_nodes, real), num_edges=_grow(largest.num_edges, real), num_graphs=batch_size
        )

    @classmethod
    def from_loader(cls, loader: DataLoader[Any], sample_limit: int = 1000) -> FixedSizeOptions:
        """Room for the largest of the first `sample_limit` mini-batches of this loader, and padding.

        Other mini-batches may be larger: give the loader that pads a strategy for those.
        """
        largest = _find_largest(islice(loader, sample_limit))
        return cls(
            num_nodes=_grow(largest.num_nodes, 1),
            num_edges=_grow(largest.num_edges, 1),
            num_graphs=largest.num_graphs + 1,
        )

    def __repr__(self) -> str:
        shown = ("num_nodes", "num_edges", "num_graphs", "node_pad_value", "edge_pad_value", "graph_pad_value")
        parts = [f"{name}={getattr(self, name)}" for name in (*shown, "pad_graph_defaults")]
        return f"{type(self).__name__}({', '.join(parts)})"


class _Largest:
    """The most nodes, edges and graphs of any sample."""

    def __init__(self, hetero: bool) -> None:
        self.num_nodes: Any = {} if hetero else 0
        self.num_edges: Any = {} if hetero else 0
        self.num_graphs = 1


def _find_largest(samples: Iterable[BaseData]) -> _Largest:
    largest: _Largest | None = None
    for sample in samples:
        if isinstance(sample, HeteroData):
            largest = largest or _Largest(hetero=True)
            for found, stores in ((largest.num_nodes, sample.node_items()), (largest.num_edges, sample.edge_items())):
                for kind, store in stores:
                    number = store.num_nodes if found is largest.num_nodes else store.num_edges
                    found[kind] = max(found.get(kind, 0), int(number))
        else:
            largest = largest or _Largest(hetero=False)
            largest.num_nodes = max(largest.num_nodes, int(sample.num_nodes))
            largest.num_edges = max(largest.num_edges, int(sample.num_edges))
        largest.num_graphs = max(largest.num_graphs, sample.num_graphs if isinstance(sample, Batch) else 1)
    if largest is None:
        raise ValueError("There is not one sample to find the sizes in.")
    return largest


def _grow(number: Any, times: int) -> Any:
    """So many times as much, and one for padding."""
    return {kind: times * each + 1 for kind, each in number.items()} if isinstance(number, dict) else times * number + 1


def _count_possible_edges(kind: EdgeType, num_nodes: dict[NodeType, int]) -> int:
    source, target = num_nodes[kind[0]], num_nodes[kind[-1]]
    return source * (target - 1) if kind[0] == kind[-1] else source * target


def _check_numbers(name: str, number: int | dict[Any, int]) -> None:
    for each in number.values() if isinstance(number, dict) else (number,):
        if isinstance(each, bool) or not isinstance(each, int) or each < 0:
            raise ValueError(f"{name} is {number!r}: it must be a number, or one for each type.")
