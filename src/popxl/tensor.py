"""Tensors of a program: what ops read and make.

In: nothing; ops, `variable`, `constant` and `graph_input` make tensors. Out: handles with a shape and a format, which
have operators and no values: those are in a session.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from popxl import dtypes
from popxl._ir.operators import Operators
from popxl.context import gcg
from popxl.errors import UndefinedValue
from popxl.replica_grouping import ReplicaGrouping
from popxl.typing_ import NewAliasAnnotation
from popxl.utils import to_numpy

if TYPE_CHECKING:
    from popxl._ir.operation import Op
    from popxl.graph import Graph
    from popxl.ir import Ir
    from popxl.remote_buffer import RemoteBuffer

ScalarType = int | float | bool
HostTensor = np.ndarray[Any, Any] | Iterable[Any] | torch.Tensor
HostScalarTensor = ScalarType | HostTensor
TensorLike = Any  # a tensor, or what becomes one
host_tensor_types = (np.ndarray, Iterable, torch.Tensor)
_FACTORIES = (
    "variable",
    "remote_variable",
    "remote_replica_sharded_variable",
    "replica_sharded_variable",
    "replica_sharded_buffer",
)


_SPEC_FIELDS = ("shape", "dtype", "meta_shape")


class TensorSpec(Mapping[str, Any]):
    """A shape and a format: what a graph's input will be."""

    def __init__(self, shape: tuple[int, ...], dtype: dtypes.dtype, meta_shape: tuple[int, ...] = ()) -> None:
        self.shape, self.dtype, self.meta_shape = shape, dtype, meta_shape

    def __getitem__(self, key: str) -> Any:
        if key not in _SPEC_FIELDS:
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(_SPEC_FIELDS)

    def __len__(self) -> int:
        return len(_SPEC_FIELDS)

    def to_tuple(self) -> tuple[Any, ...]:
        """In order."""
        return tuple(self.values())

    def to_dict(self) -> dict[str, Any]:
        """By name."""
        return dict(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and self.to_tuple() == other.to_tuple()

    def __hash__(self) -> int:
        return hash((TensorSpec, *self.to_tuple()))

    def __repr__(self) -> str:
        return f"TensorSpec({', '.join(f'{name}={value}' for name, value in self.items())})"


class Tensor(Operators):
    """One tensor of a graph."""

    _graph: Graph
    _id: str
    _shape: tuple[int, ...]
    _dtype: dtypes.dtype
    _meta_shape: tuple[int, ...]
    _producer: Op | None
    _consumers: list[Op]

    def __init__(self) -> None:
        raise RuntimeError("Tensors are made by ops, `popxl.variable`, `popxl.constant` and `popxl.graph_input`.")

    @classmethod
    def _make(
        cls, graph: Graph, name: str, shape: tuple[int, ...], form: dtypes.dtype, meta_shape: tuple[int, ...] = ()
    ) -> Any:
        made = object.__new__(cls)
        made._graph, made._id = graph, name
        made._shape, made._dtype, made._meta_shape = tuple(int(size) for size in shape), form, meta_shape
        made._producer, made._consumers = None, []
        return made

    @property
    def id(self) -> str:
        """Its name with the graph's in front."""
        return self._id

    @property
    def name(self) -> str:
        """Its name inside the graph."""
        return self._id.removeprefix(f"{self._graph.name}/") if self._graph.name else self._id

    @property
    def scope(self) -> str:
        """The graph's name."""
        return self._graph.name

    @property
    def dtype(self) -> dtypes.dtype:
        """Its number format."""
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self._shape

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """The shape of the whole of which this is one replica's share; empty where it is no share."""
        return self._meta_shape

    @property
    def spec(self) -> TensorSpec:
        """Shape and format."""
        return TensorSpec(self._shape, self._dtype, self._meta_shape)

    @property
    def rank(self) -> int:
        """How many dimensions it has."""
        return len(self._shape)

    @property
    def nelms(self) -> int:
        """How many elements it has."""
        return math.prod(self._shape)

    def strides(self, shape: Iterable[int] | None = None) -> tuple[int, ...]:
        """Bytes from one step of each dimension to the next."""
        sizes = self._shape if shape is None else tuple(shape)
        width = self.dtype.as_numpy().itemsize
        return tuple(width * math.prod(sizes[place + 1 :]) for place in range(len(sizes)))

    @property
    def ir(self) -> Ir:
        """Its program."""
        return self._graph.ir

    @property
    def ipu(self) -> int:
        """The IPU that it is on; UndefinedValue where no op has touched it."""
        return self._get_ipu_and_tile_set(raise_on_undefined_tile_set=False)[0]

    @property
    def tile_set(self) -> str:
        """compute or io; UndefinedValue where no op has touched it."""
        return self._get_ipu_and_tile_set(raise_on_undefined_ipu=False)[1]

    @property
    def in_sync_with_ipu(self) -> bool:
        """Does the host have the device's value?"""
        return True

    def _get_ipu_and_tile_set(
        self, raise_on_undefined_tile_set: bool = True, raise_on_undefined_ipu: bool = True
    ) -> tuple[int, str]:
        op = self._producer or next(iter(self._consumers), None)
        if op is None:
            if raise_on_undefined_tile_set:
                raise UndefinedValue("It was not said on which tiles this tensor lies.")
            if raise_on_undefined_ipu:
                raise UndefinedValue("Tensor's IPU is undefined.")
            return -1, "undefined"
        made = op is self._producer
        io = op.io_tiles if made else op.place.io_tiles
        return (op.ipu if made else op.place.ipu), "io" if io else "compute"

    def _ensure_tensor(self, value: Any, dtype: dtypes.dtype | None = None, raise_on_empty: bool = True) -> Tensor:
        if isinstance(value, Tensor):
            return value
        made = constant(value, self.dtype if dtype is None else dtype)
        if raise_on_empty and made.nelms == 0:
            raise ValueError(
                f"{value!r} has no elements, which is seldom meant. If it is, make a tensor of it first: "
                "`popxl.constant([])`."
            )
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.id} {self.dtype} {self.shape}]"

    def __hash__(self) -> int:
        return hash((self._id, self._graph.ir.id))

    def __eq__(self, other: object) -> bool:
        return self is other

    def __len__(self) -> int:
        if not self._shape:
            raise ValueError("A scalar has no length.")
        return self._shape[0]

    __iter__ = None
    __contains__ = None
    __array_ufunc__ = None


class Variable(Tensor):
    """A tensor of the main graph that keeps its value from run to run, with the host's copy of it."""

    _data: np.ndarray[Any, Any]  # the host's copy: one value for each group of replicas, if there are several
    _replica_grouping: ReplicaGrouping
    _retrieval_mode: str
    _memmap_arr: Any = None
    _all_replicas: Any = None  # the values of all replicas, as they were read last
    _remote: tuple[RemoteBuffer, int] | None = None  # the buffer and the entry that hold it
    _sharded: bool = False  # replicas hold shares of it

    def copy_to_ipu(self, dst: int, src: int) -> Tensor:  # type: ignore[override]
        """A copy on another IPU; no op has made this one, so its own has to be said."""
        return super().copy_to_ipu(dst, src)

    @property
    def replica_grouping(self) -> ReplicaGrouping:
        """Replicas that hold the same value."""
        return self._replica_grouping

    @property
    def retrieval_mode(self) -> Literal["one_per_group", "all_replicas"]:
        """Which replicas' values the host gets."""
        return self._retrieval_mode  # type: ignore[return-value]

    @property
    def shape_on_host(self) -> tuple[int, ...]:
        """The shape of the host's array: one value for each group, if there are several."""
        groups = self._replica_grouping.num_groups
        return self.shape if groups == 1 else (groups, *self.shape)

    @property
    def shape_on_replica(self) -> tuple[int, ...]:
        """The shape that a replica holds."""
        return self.shape


class Constant(Tensor):
    """A tensor with a value that is known when the program is built."""

    _data: np.ndarray[Any, Any]

    def copy_to_ipu(self, dst: int, src: int) -> Tensor:  # type: ignore[override]
        """As of a variable."""
        return super().copy_to_ipu(dst, src)


def constant(
    data: HostScalarTensor,
    dtype: dtypes.dtype | None = None,
    name: str | None = None,
    downcast: bool = True,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Constant:
    """A constant of the current graph. Numbers of 64 bits become 32, unless `downcast` is off or `dtype` says so."""
    if dtype is None and getattr(data, "dtype", None) in (dtypes.np_dtype_float8_143, dtypes.np_dtype_float8_152):
        raise TypeError("Numbers of 8 bits need a `dtype`: their bytes do not say which of the two formats they are.")
    array = to_numpy(data, dtype, downcast, copy=True, log2_scale=log2_scale, nan_on_overflow=nan_on_overflow)
    made: Constant = gcg()._add_tensor(name, array.shape, dtypes.dtype.as_dtype(array.dtype), kind=Constant)
    made._data = array
    return made


def graph_input(
    shape: Iterable[int],
    dtype: dtypes.dtype,
    name: str | None = None,
    by_ref: bool = False,
    meta_shape: Iterable[int] | None = None,
) -> Tensor:
    """A further input of the current graph. `by_ref`: what the graph writes to it is seen by its caller."""
    graph = gcg()
    made: Tensor = graph._add_tensor(name, shape, dtype, meta_shape or ())
    graph._inputs.append(made)
    if by_ref:
        graph._by_ref_inputs.add(made)
    return made


def graph_output(t: Tensor) -> None:
    """A further output of the current graph."""
    from popxl.ops.utils import check_in_graph

    graph = gcg()
    check_in_graph(graph, t=t)
    graph._add_output(t)


TensorByRef = NewAliasAnnotation("TensorByRef", Tensor)


def __getattr__(name: str) -> Any:
    if name in _FACTORIES:  # they need tensors themselves
        from popxl import variables

        return getattr(variables, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
