"""A program: its graphs, its streams, how many replicas run it.

In: functions and modules that make ops. Out: an `Ir` that a `Session` compiles.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from popxl._ir.settings import Settings
from popxl.graph import Graph
from popxl.module import Module
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor import Tensor, TensorByRef, TensorSpec, graph_input, graph_output

if TYPE_CHECKING:
    from popxl.remote_buffer import RemoteBuffer
    from popxl.streams import DeviceToHostStream, HostToDeviceStream

_numbers = itertools.count()


class Ir:
    """One program."""

    def __init__(self, replication: int | Literal["popdist"] = 1) -> None:
        self._id = next(_numbers)
        self._numbers = itertools.count()
        self._graph_numbers: dict[str, int] = {}
        self._prepared = False
        self._replicas, self._instances = 1, 1
        self._use_popdist = replication == "popdist"
        self._has_read_only_memmap = False
        self._num_host_transfers = 1
        self._remote_buffers: dict[int, RemoteBuffer] = {}
        self._shares: dict[Tensor, tuple[RemoteBuffer, int]] = {}  # shares on the device -> the entry they come from
        self._main = Graph._make(self, "")
        self._graphs: list[Graph] = [self._main]
        self._pb_ir = Settings()
        if replication == "popdist":
            import popdist  # type: ignore[import-not-found, unused-ignore]

            self._replicas, self._instances = popdist.getNumLocalReplicas(), popdist.getNumInstances()
        else:
            self.replication_factor = replication

    def _count(self) -> int:
        return next(self._numbers)

    @property
    def main_graph(self) -> Graph:
        """The graph that a run executes."""
        return self._main

    def create_graph(self, fn: Callable[..., Any] | Module, *args: Any, **kwargs: Any) -> Graph:
        """A graph of what `fn` makes. Arguments that are tensors, or specs of some, become the graph's inputs."""
        if isinstance(fn, Module):
            name, func = type(fn).__qualname__, fn.build
        elif not callable(fn) or not hasattr(fn, "__qualname__"):
            raise TypeError(
                "`create_graph` takes a function, or an instance of a class that is derived from popxl.Module."
            )
        else:
            name, func = fn.__qualname__, fn
        signature = _read_signature(func)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ValueError(
                f"What was given to `create_graph` does not fit: the arguments do not match the signature of {fn}."
            ) from error
        bound.apply_defaults()
        graph = self.create_empty_graph(name)
        with graph:
            for key, value in bound.arguments.items():
                bound.arguments[key] = _make_inputs(key, value, signature.parameters[key])
            outputs = fn(*bound.args, **bound.kwargs)
            for tensor in _list_outputs(outputs):
                graph_output(tensor)
        return graph

    def create_empty_graph(self, name: str | None = None) -> Graph:
        """A graph without ops."""
        graph = Graph._make(self, self._create_name(name or "graph"))
        self._graphs.append(graph)
        return graph

    def _create_name(self, name: str) -> str:
        name = name.replace(".<locals>", "")
        number = self._graph_numbers.get(name, 0)
        self._graph_numbers[name] = number + 1
        return f"{name}_subgraph({number})"

    def dot_checkpoint(self, check: str, save_dir: Path | str | None = None) -> None:
        """Write the graphs for Graphviz: one file, named after the check."""
        from popxl._ir.drawing import draw_graphs

        draw_graphs(self._graphs, check, Path(save_dir) if save_dir is not None else Path())

    def _find_streams(self, which: str) -> list[Any]:
        from popxl._ir.aliases import count_traffic

        return list(getattr(count_traffic(self._main), which))

    def get_all_d2h_streams(self) -> set[DeviceToHostStream]:
        """Streams that the program stores to."""
        return set(self._find_streams("stores"))

    def get_all_h2d_streams(self) -> set[HostToDeviceStream]:
        """Streams that the program loads from."""
        return set(self._find_streams("loads"))

    @property
    def num_host_transfers(self) -> int:
        """How often one run uses each stream."""
        return self._num_host_transfers

    @num_host_transfers.setter
    def num_host_transfers(self, value: int) -> None:
        self._num_host_transfers = value

    @property
    def replication_factor(self) -> int:
        """Replicas of all instances together."""
        return self._replicas * self._instances

    @replication_factor.setter
    def replication_factor(self, value: int) -> None:
        if self._prepared:
            raise RuntimeError(
                f"{self.id} is already prepared: a session has compiled it for its number of replicas. Set that "
                "before the "
                "first session."
            )
        self._replicas = value

    @property
    def instance_replication_factor(self) -> int:
        """Replicas of this process."""
        return self._replicas

    @property
    def id(self) -> int:
        """A number of its own."""
        return self._id

    def __hash__(self) -> int:
        return hash(self._id)

    def __eq__(self, value: object) -> bool:
        if not isinstance(value, Ir):
            raise TypeError(f"A program can be compared with programs; {value!r} is a {type(value).__name__}.")
        return self is value

    def __repr__(self) -> str:
        return f"Ir[id={self.id}]"

    def replica_grouping(self, stride: int = 1, group_size: int | None = None) -> ReplicaGrouping:
        """Groups of replicas that are `stride` apart; all of them together if nothing is said."""
        return ReplicaGrouping._with_stride(self, stride, group_size)

    def replica_grouping_from_assignments(self, assignment: list[int]) -> ReplicaGrouping:
        """Groups of replicas by the number of each one's group."""
        return ReplicaGrouping._from_assignment(ir=self, assignment=assignment)


def _read_signature(func: Callable[..., Any]) -> inspect.Signature:
    """With annotations as they are meant, where they are written as texts."""
    try:
        return inspect.signature(func, follow_wrapped=True, eval_str=True)
    except (NameError, SyntaxError, AttributeError, TypeError):
        return inspect.signature(func, follow_wrapped=True)


def _make_inputs(name: str, value: Any, parameter: inspect.Parameter) -> Any:
    """An argument as the graph sees it: inputs in the place of tensors."""
    hint = parameter.annotation
    if isinstance(value, Tensor | TensorSpec):
        return _make_input(name, value, hint is TensorByRef)
    if not isinstance(value, tuple | list | dict):
        return value
    starred = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if isinstance(value, dict) and not starred:
        return value
    by_ref = hint is TensorByRef if starred else _is_list_by_ref(hint)
    items = value.items() if isinstance(value, dict) else [(f"{name}_{i}", entry) for i, entry in enumerate(value)]
    tensors = [isinstance(entry, Tensor | TensorSpec) for _, entry in items]
    if any(tensors) and not all(tensors):
        raise TypeError(
            f"Argument {name!r} holds a mixture of Tensors and other values: {value!r}. Give either as an argument of "
            "its own."
        )
    if not any(tensors):
        return value
    made = {key: _make_input(key, entry, by_ref) for key, entry in items}
    return made if isinstance(value, dict) else list(made.values())


def _is_list_by_ref(hint: Any) -> bool:
    return getattr(hint, "__args__", None) == (TensorByRef,)


def _make_input(name: str, value: Tensor | TensorSpec, by_ref: bool) -> Tensor:
    return graph_input(value.shape, value.dtype, name, by_ref=by_ref, meta_shape=value.meta_shape)


def _list_outputs(outputs: Any) -> list[Tensor]:
    if outputs is None:
        return []
    if isinstance(outputs, Tensor):
        return [outputs]
    found: list[Any] = list(outputs) if isinstance(outputs, Iterable) else [None]
    if not all(isinstance(entry, Tensor) for entry in found):
        raise ValueError(
            "What the function of a graph returns must be None, a Tensor or an iterable of these, and it is "
            f"{outputs!r}."
        )
    return found
