"""Graphs: ops in the order in which they were made, with inputs and outputs.

In: ops made inside `with graph:`. Out: a `Graph` that others call, repeat or differentiate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any

from popxl.context import get_current_context
from popxl.tensor import Constant, Tensor, Variable

if TYPE_CHECKING:
    from popxl._ir.operation import Op
    from popxl.dtypes import dtype
    from popxl.ir import Ir


class Graph:
    """A graph of a program. `Ir.main_graph` and `Ir.create_graph` make them."""

    _name: str
    _ir: Ir
    _ops: list[Op]
    _sites: list[Op]  # ops that run it
    _inputs: list[Tensor]
    _outputs: list[Tensor]
    _tensors: dict[str, Tensor]
    _by_ref_inputs: set[Tensor]

    def __init__(self) -> None:
        raise TypeError("A Graph is made by `ir.create_graph` or `ir.create_empty_graph`, not by its class.")

    @classmethod
    def _make(cls, ir: Ir, name: str) -> Graph:
        made = object.__new__(cls)
        made._ir, made._name = ir, name
        made._ops, made._sites, made._inputs, made._outputs = [], [], [], []
        made._tensors, made._by_ref_inputs = {}, set()
        return made

    @property
    def name(self) -> str:
        """Its name; empty for the main graph."""
        return self._name

    @property
    def id(self) -> str:
        """Its name."""
        return self._name

    @property
    def ir(self) -> Ir:
        """The program that it belongs to."""
        return self._ir

    @property
    def main_graph(self) -> Graph:
        """The main graph of its program."""
        return self._ir.main_graph

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Tensors that a call gives it."""
        return tuple(self._inputs)

    @property
    def inputs_by_name(self) -> dict[str, Tensor]:
        """The inputs by their names."""
        return {tensor.name: tensor for tensor in self._inputs}

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Tensors that a call gets from it."""
        return tuple(self._outputs)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, in the order in which they were made."""
        return tuple(self._tensors.values())

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Its variables: only the main graph has some."""
        return tuple(tensor for tensor in self._tensors.values() if isinstance(tensor, Variable))

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Its constants."""
        return tuple(tensor for tensor in self._tensors.values() if isinstance(tensor, Constant))

    @property
    def called_graphs(self) -> tuple[Graph, ...]:
        """Graphs that its ops run, each once."""
        return tuple(dict.fromkeys(graph for op in self._ops for graph in op.called))

    def get_tensor(self, tensor_id: str) -> Tensor:
        """The tensor of an id."""
        if tensor_id not in self._tensors:
            from popart import popart_exception

            raise popart_exception(f"No Ir::Tensor with TensorId '{tensor_id}' in graph '{self._name}'.")
        return self._tensors[tensor_id]

    def _create_tensor_id(self, name: str | None = None) -> str:
        whole = "/".join((*get_current_context().name_scopes, name or "t"))
        found = f"{self._name}/{whole}" if self._name else whole
        return found if found not in self._tensors else f"{found}__t{self._ir._count()}"

    def _add_tensor(
        self,
        name: str | None,
        shape: Iterable[int],
        form: dtype,
        meta_shape: Iterable[int] = (),
        kind: type[Tensor] = Tensor,
    ) -> Any:
        tensor = kind._make(self, self._create_tensor_id(name), tuple(shape), form, tuple(meta_shape))
        self._tensors[tensor.id] = tensor
        return tensor

    def _add_output(self, tensor: Tensor) -> None:
        self._outputs.append(tensor)

    def __contains__(self, value: Tensor) -> bool:
        if not isinstance(value, Tensor):
            raise TypeError(f"Only a Tensor can be in a graph; {value!r} is a {type(value).__name__}.")
        return value._graph is self

    def __eq__(self, value: object) -> bool:
        if not isinstance(value, Graph):
            raise TypeError(f"A graph can be compared with graphs; {value!r} is a {type(value).__name__}.")
        return self is value

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"Graph[id={self.id} name={self.name}]"

    def __enter__(self) -> Graph:
        get_current_context().push_graph(self)
        return self

    def __exit__(self, *exc: object) -> None:
        get_current_context().pop_graph()

    def register_op_created_hook(self, fn: Callable[[Op], Any]) -> int:
        """Have `fn` called with each op that is made in this graph; the number takes it off again."""

        @wraps(fn)
        def hook(op: Op) -> None:
            if op.graph is self:
                fn(op)

        return get_current_context().register_op_created_hook(hook)

    def remove_op_created_hook(self, handle: int) -> None:
        """Take a function off again."""
        get_current_context().remove_op_created_hook(handle)
