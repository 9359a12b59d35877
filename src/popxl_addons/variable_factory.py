"""Factories of variables: what a graph takes as an input, and how its value is made."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

import popxl
from popxl import ReplicaGrouping, dtypes, ops
from popxl.tensor import HostTensor, host_tensor_types
from popxl.utils import to_numpy
from popxl_addons.dot_tree import DotTree
from popxl_addons.memory_maps import map_variable
from popxl_addons.named_replica_grouping import NamedReplicaGrouping
from popxl_addons.named_tensors import NamedTensors

if TYPE_CHECKING:
    from popxl_addons.remote import NamedRemoteBuffers

__all__ = ["NamedVariableFactories", "VariableFactory", "add_replica_sharded_variable_input", "add_variable_input"]

DataSource: TypeAlias = Callable[[], HostTensor] | Iterable[HostTensor]

host_scalar_tensor_types = (float, int, bool, np.number, np.bool_, *host_tensor_types)


class _Values:
    """An iterator whose next value can be looked at."""

    def __init__(self, source: Iterable[Any]) -> None:
        self._source = iter(source)
        self._waiting: list[Any] = []

    def peek(self) -> Any:
        if not self._waiting:
            self._waiting.append(next(self._source))
        return self._waiting[0]

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._waiting.pop() if self._waiting else next(self._source)


def _as_iterable(source: DataSource) -> Iterable[Any]:
    if not callable(source):
        if not isinstance(source, Iterable):
            raise ValueError(
                "`data_iter` must be a function or an iterable. For the same data in all instances: `lambda: data`"
            )
        return source
    try:
        source()
    except Exception as error:
        raise ValueError("the function given as `data_iter` fails") from error
    return (source() for _ in itertools.count())


class VariableFactory:
    """Makes inputs for a graph, and variables for these inputs.

    ``data_iter`` is a function or an iterable of arrays of one shape, one for each variable that is made. Variables
    have one value for each group of ``replica_grouping``; with ``shard_over`` above 1 the graph's input is the shard
    that one of so many replicas holds.
    """

    def __init__(
        self,
        data_iter: DataSource,
        dtype: dtypes.dtype | None = None,
        name: str | None = None,
        by_ref: bool = False,
        replica_grouping: ReplicaGrouping | None = None,
        shard_over: int = 1,
    ) -> None:
        self.data_iter = _Values(_as_iterable(data_iter))
        first = self.data_iter.peek()
        if not isinstance(first, host_scalar_tensor_types):
            raise ValueError(f"`data_iter` must give arrays or numbers, not {first!r}")
        self.name = name
        self.by_ref = by_ref
        self.dtype = dtype or dtypes.dtype.as_dtype(first)
        self.replica_grouping: ReplicaGrouping = _choose_grouping(replica_grouping)
        self.replica_sharded = shard_over > 1
        self.shape: tuple[int, ...] = tuple(np.shape(first))  # type: ignore[arg-type]
        self.meta_shape: tuple[int, ...] = ()
        if self.replica_sharded:
            if shard_over > self.replica_grouping.group_size:
                raise ValueError(f"{shard_over} shards, but groups of {self.replica_grouping.group_size} replicas")
            self.meta_shape = self.shape
            self.shape = (math.prod(self.meta_shape) // shard_over,)

    def create_input(self, prefix: str | None = None) -> popxl.Tensor:
        """An input of the current graph."""
        called = self.name if prefix is None else _join(prefix, str(self.name))
        return popxl.graph_input(self.shape, self.dtype, called, self.by_ref, self.meta_shape)

    def create_tensor(
        self,
        name: str | None = None,
        empty: bool = False,
        memmap_dir: str | None = None,
        read_only_if_exists: bool = False,
    ) -> popxl.Tensor:
        """A variable on chip. ``empty`` leaves its value undefined; with ``memmap_dir`` it lives in a file there."""
        made: popxl.Tensor = self._initialise(popxl.variable, name, empty, memmap_dir, read_only_if_exists)
        return made

    def create_remote_tensor(
        self,
        buffer: popxl.RemoteBuffer,
        entry: int,
        name: str | None = None,
        empty: bool = False,
        memmap_dir: str | None = None,
        read_only_if_exists: bool = False,
    ) -> popxl.Tensor:
        """A variable in a remote buffer, sharded if the buffer is."""
        kind = popxl.remote_replica_sharded_variable if buffer.meta_shape else popxl.remote_variable
        put = partial(kind, remote_buffer=buffer, offset=entry)
        made: popxl.Tensor = self._initialise(put, name, empty, memmap_dir, read_only_if_exists)
        return made

    def next_data(self, empty: bool = False) -> HostTensor:
        """The value of the next variable, with one entry for each group if there are several."""
        groups = self.replica_grouping.num_groups
        if empty:
            return np.empty(self._shape_on_host(), self.dtype.as_numpy())
        if groups == 1:
            value: HostTensor = next(self.data_iter)
            return value
        return np.stack([to_numpy(next(self.data_iter), copy=False) for _ in range(groups)])

    def next_memmap(
        self, memmap_dir: str, name: str, empty: bool = False, read_only_if_exists: bool = False
    ) -> np.ndarray[Any, Any]:
        """The value of the next variable in a file; a file that is there is used as it is."""
        shape, dtype = self._shape_on_host(), np.dtype(self.dtype.as_numpy())
        fill = None if empty else lambda: to_numpy(self.next_data())
        return map_variable(memmap_dir, name, shape, dtype, fill, read_only_if_exists)

    def _initialise(
        self, make: Callable[..., Any], name: str | None, empty: bool, memmap_dir: str | None, read_only: bool
    ) -> Any:
        """A variable that ``make`` makes of the next value, under this name or the factory's own."""
        called = name or self.name
        if memmap_dir:
            value: Any = self.next_memmap(memmap_dir, called or "t", empty, read_only)
        else:
            value = self.next_data(empty)
        return make(value, dtype=self.dtype, name=called, replica_grouping=self.replica_grouping)

    def _shape_on_host(self) -> tuple[int, ...]:
        groups = self.replica_grouping.num_groups
        shape = self.meta_shape or self.shape
        return shape if groups == 1 else (groups, *shape)


class NamedVariableFactories(DotTree[VariableFactory]):
    """Factories by name; variables are made in the order of names, so that random values can be repeated."""

    def init(
        self,
        prefix: str | None = None,
        empty: bool = False,
        memmap_dir: str | None = None,
        read_only_if_exists: bool = False,
    ) -> NamedTensors:
        """A variable on chip for each factory; ``prefix`` goes before their names."""
        return NamedTensors.from_dict(
            {
                name: factory.create_tensor(_join(prefix, name), empty, memmap_dir, read_only_if_exists)
                for name, factory in sorted(self.to_dict().items())
            }
        )

    def init_remote(
        self,
        buffers: NamedRemoteBuffers,
        entry: int = 0,
        prefix: str | None = None,
        empty: bool = False,
        memmap_dir: str | None = None,
        read_only_if_exists: bool = False,
    ) -> NamedTensors:
        """A variable for each factory in an entry of the buffer of the same name."""
        by_name = buffers.to_dict()
        return NamedTensors.from_dict(
            {
                name: factory.create_remote_tensor(
                    by_name[name], entry, _join(prefix, name), empty, memmap_dir, read_only_if_exists
                )
                for name, factory in sorted(self.to_dict().items())
            }
        )

    def init_zero(self) -> NamedTensors:
        """Zeros for each factory, in the current graph."""
        return self._initialise("zero")

    def init_undef(self) -> NamedTensors:
        """Undefined values for each factory, in the current graph."""
        return self._initialise("undef")

    def _initialise(self, kind: Literal["zero", "undef"]) -> NamedTensors:
        return NamedTensors.from_dict(
            {name: ops.init(factory.shape, factory.dtype, name, kind) for name, factory in self.to_dict().items()}
        )

    @property
    def replica_groupings(self) -> NamedReplicaGrouping:
        """The groupings of the variables."""
        return NamedReplicaGrouping.from_dict({name: f.replica_grouping for name, f in self.to_dict().items()})


def _choose_grouping(given: ReplicaGrouping | None) -> ReplicaGrouping:
    """All replicas have one value, unless told otherwise."""
    return given if given is not None else popxl.gir().replica_grouping()


def _join(prefix: str | None, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def add_variable_input(
    name: str,
    data_iter: DataSource,
    dtype: dtypes.dtype | None = None,
    by_ref: bool = False,
    replica_grouping: ReplicaGrouping | None = None,
) -> tuple[popxl.Tensor, VariableFactory]:
    """An input of the current graph, and the factory of its variables."""
    factory = VariableFactory(data_iter, dtype, name, by_ref, replica_grouping)
    return factory.create_input(), factory


def add_replica_sharded_variable_input(
    name: str,
    data_iter: DataSource,
    dtype: dtypes.dtype | None = None,
    by_ref: bool = False,
    replica_grouping: ReplicaGrouping | None = None,
    shard_over: int | None = None,
) -> tuple[popxl.Tensor, VariableFactory]:
    """As :func:`add_variable_input`, where the input is a shard: of all replicas of a group unless told otherwise."""
    grouping = _choose_grouping(replica_grouping)
    factory = VariableFactory(data_iter, dtype, name, by_ref, grouping, shard_over or grouping.group_size)
    return factory.create_input(), factory
