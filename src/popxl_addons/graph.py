"""Graphs with named inputs, and graphs of which some inputs are bound to tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

import popxl
from popxl import ops
from popxl.ops.call import CallSiteInfo
from popxl.transforms.autodiff import GradGraphInfo
from popxl_addons.graph_common import CalledGraphsGradInfo, CalledGraphsGradInfoLike, plain_called_graphs
from popxl_addons.graph_surgery import list_ops
from popxl_addons.named_tensors import NamedTensors, TensorMap

if TYPE_CHECKING:
    from popxl_addons.hand_written_gradients import Aux
    from popxl_addons.module import Module

__all__ = ["BoundGraph", "GraphWithNamedArgs"]


class BoundGraph:
    """A graph and tensors for some of its inputs; a call gives the others."""

    def __init__(self, graph: popxl.Graph, args: TensorMap | None = None) -> None:
        self.graph = graph
        self.args: dict[popxl.Tensor, popxl.Tensor] = dict(args or {})

    def call(self, *targs: Any, args: TensorMap | None = None) -> tuple[popxl.Tensor, ...]:
        """Call the graph: ``targs`` by position, ``args`` by the graph's input, in preference to what is bound."""
        return tuple(self.call_with_info(*targs, args=args).outputs)

    def call_with_info(self, *targs: Any, args: TensorMap | None = None) -> CallSiteInfo:
        """As :meth:`call`, with the record of the call, which backward asks for activations."""
        return ops.call_with_info(self.graph, *targs, inputs_dict={**self.args, **(args or {})})

    def bind(self, args: TensorMap) -> BoundGraph:
        """The graph with these inputs bound as well."""
        return BoundGraph(self.graph, {**self.args, **args})

    def subgraph_io_map(
        self, *targs: popxl.Tensor, args: TensorMap | None = None, outs: Iterable[popxl.Tensor] = ()
    ) -> dict[popxl.Tensor, popxl.Tensor]:
        """Inputs and outputs of the graph to the tensors of a call."""
        outputs = dict(zip(self.graph.outputs, outs, strict=False))
        by_position = dict(zip(self.graph.inputs, targs, strict=False))
        return {**outputs, **self.args, **(args or {}), **by_position}


class GraphWithNamedArgs:
    """A graph, and names of those of its inputs that are variables.

    A gradient graph has its record, ``grad_graph_info``; a graph that a module built remembers the module and what it
    set aside for a gradient written by hand.
    """

    def __init__(
        self,
        graph: popxl.Graph,
        args: NamedTensors | None = None,
        grad_graph_info: GradGraphInfo | None = None,
        from_module: Module | None = None,
        aux: Aux | None = None,
        called_graphs_grad_info: CalledGraphsGradInfoLike | None = None,
    ) -> None:
        from popxl_addons.hand_written_gradients import Aux

        self.graph = graph
        self.args = args if args is not None else NamedTensors()
        self._grad_graph_info = grad_graph_info
        self._from_module = from_module
        self._aux = aux if aux is not None else Aux()
        self.called_graphs_grad_info: CalledGraphsGradInfo = plain_called_graphs(called_graphs_grad_info)
        self.autodiff_applied = False

    @classmethod
    def from_grad_graph(cls, grad_graph_info: GradGraphInfo, args: NamedTensors | None = None) -> Self:
        """The graph of a gradient."""
        return cls(grad_graph_info.graph, args, grad_graph_info)

    @property
    def grad_graph_info(self) -> GradGraphInfo:
        """What a gradient graph expects and gives; other graphs have none."""
        if self._grad_graph_info is None:
            raise AttributeError("grad_graph_info: this is no gradient graph")
        return self._grad_graph_info

    @grad_graph_info.setter
    def grad_graph_info(self, grad_graph_info: GradGraphInfo) -> None:
        self._grad_graph_info = grad_graph_info

    def bind(self, args: NamedTensors | None = None) -> BoundGraph:
        """The graph with the inputs of these names bound; names that it does not have are left alone."""
        return BoundGraph(self.graph, self.args.to_mapping(args) if args is not None else None)

    def call(self, *targs: Any, args: TensorMap | None = None) -> tuple[popxl.Tensor, ...]:
        """Call the graph with nothing bound."""
        return self.bind().call(*targs, args=args)

    def call_with_info(self, *targs: Any, args: TensorMap | None = None) -> CallSiteInfo:
        """As :meth:`call`, with the record of the call."""
        return self.bind().call_with_info(*targs, args=args)

    def autodiff(
        self,
        grads_provided: Iterable[popxl.Tensor] | None = None,
        grads_required: Iterable[popxl.Tensor] | None = None,
        called_graphs_grad_info: Mapping[Any, Any] | None = None,
        method: Literal["auto", "build_grad", "autodiff"] = "auto",
        force: bool = False,
    ) -> GraphWithNamedArgs:
        """The gradient graph: the one that the module builds by hand if it does, else the one of autodiff.

        Both add outputs to this graph, so a second gradient of it is refused unless ``force`` says that it is meant.
        """
        from popxl_addons.transforms.autodiff import autodiff

        if method not in ("auto", "build_grad", "autodiff"):
            raise ValueError(f"method is auto, build_grad or autodiff, not {method!r}")
        if self.autodiff_applied and not force:
            raise RuntimeError(
                "Autodiff has already been applied to this graph, and changed it: a second gradient would not be the "
                "same. `force=True` makes it all the same."
            )
        by_hand = self._from_module is not None and self._from_module.implements_grad_graph
        if method == "build_grad" and not by_hand:
            raise RuntimeError("no module with a `build_grad` made this graph, or no `from_module` is specified")
        if by_hand and method != "autodiff":
            assert self._from_module is not None
            gradient = self._from_module.create_grad_graph(self, grads_provided, grads_required)
        else:
            gradient = autodiff(self, grads_provided, grads_required, called_graphs_grad_info)
        self.autodiff_applied = True
        return gradient

    def print_schedule(self) -> str:
        """A text: inputs with their names, outputs, and the ops in the order in which they run."""
        numbers: dict[popxl.Tensor, str] = {}

        def show(t: popxl.Tensor) -> str:
            return numbers.setdefault(t, f"%{len(numbers) + 1}")

        def describe(ts: Iterable[popxl.Tensor]) -> str:
            return "(" + ", ".join(f"{show(t)} [{t.shape} {t.dtype.name}]" for t in ts) + ")"

        names = {t: name for name, t in self.args.to_dict().items()}
        inputs = ", ".join(f"{names[t]}={show(t)}" if t in names else show(t) for t in self.graph.inputs)
        lines = []
        for op in list_ops(self.graph):
            called = "".join(f"({graph.name})" for graph in op.called)
            lines.append(f"    {op.kind}.{op.id}{called} {describe(op.inputs)} -> {describe(op.outputs)}")
        outputs = ", ".join(show(t) for t in self.graph.outputs)
        head = f"Graph : {self.graph.name}\n  ({inputs}) -> ({outputs}) {{"
        return "\n".join([head, *lines, "  }"])

    def copy(self) -> GraphWithNamedArgs:
        """The same graph with a tree of names of its own."""
        return GraphWithNamedArgs(self.graph, self.args.copy(), self._grad_graph_info)
