"""Gradients that a module writes itself: what forward sets aside, what backward returns, and the record of both."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import popxl
from popxl.transforms.autodiff import GradGraphInfo
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.graph_common import (
    CalledGraphsGradInfoLike,
    GradGraphInfoLike,
    GraphLike,
    plain_called_graphs,
    plain_grad_info,
    plain_graph,
)
from popxl_addons.graph_surgery import make_grad_info, stands_for, stands_for_gradient
from popxl_addons.utils import duplicate_items

if TYPE_CHECKING:
    from popxl_addons.module import Module

_ONLY_IN_BUILD_GRAD = "`{}` is for `build_grad`, while autodiff or `create_grad_graph` runs it"

_open_modules: list[Module] = []  # modules whose build_grad runs, the innermost last
_graphs_by_hand: WeakSet[popxl.Graph] = WeakSet()  # graphs whose gradient their module writes


def mark_by_hand(graph: popxl.Graph) -> None:
    """Autodiff of a graph that calls this one needs the gradient that its module writes."""
    _graphs_by_hand.add(graph)


def check_called(graph: popxl.Graph, known: Mapping[popxl.Graph, GradGraphInfo]) -> None:
    """Refuse to differentiate a graph if one that it calls has a gradient by hand which is not known here."""
    for called in graph.called_graphs:
        if called in known:
            continue
        if called in _graphs_by_hand:
            raise RuntimeError(f"{called} is marked as unsafe to autodiff: its module has a `build_grad`")
        check_called(called, known)


@contextmanager
def building_gradient(module: Module) -> Iterator[None]:
    """While ``build_grad`` of a module runs."""
    _open_modules.append(module)
    try:
        yield
    finally:
        _open_modules.pop()


class Aux:
    """What forward sets aside for backward: ``self.aux["x"] = x`` in ``build``, ``self.aux["x"]`` in ``build_grad``.

    A tensor that is asked for becomes an input of the gradient graph; any other value is handed over as it is.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.inputs: dict[str, popxl.Tensor] = {}  # those that the gradient graph asked for

    def __setitem__(self, key: str, value: Any) -> None:
        self.values[key] = value

    def __getitem__(self, key: str) -> Any:
        if not _open_modules or _open_modules[-1].aux is not self:
            raise RuntimeError(_ONLY_IN_BUILD_GRAD.format("aux[...]"))
        value = self.values[key]
        if not isinstance(value, popxl.Tensor):
            return value
        if key not in self.inputs:
            spec = value.spec
            self.inputs[key] = popxl.graph_input(spec.shape, spec.dtype, key, meta_shape=spec.meta_shape)
        return self.inputs[key]

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def __repr__(self) -> str:
        return repr(self.values)

    def copy(self) -> Aux:
        """The same values; nothing is shared but them."""
        other = Aux()
        other.values, other.inputs = dict(self.values), dict(self.inputs)
        return other


class VarGrads:
    """Gradients of the module's variables, by name, as ``build_grad`` sets them."""

    def __init__(self, variables: Mapping[str, popxl.Tensor] | None = None) -> None:
        self.gradients: dict[str, popxl.Tensor] = {}
        self._variables = variables

    def _check_open(self) -> Mapping[str, popxl.Tensor]:
        if not _open_modules or _open_modules[-1].var_grad is not self or self._variables is None:
            raise RuntimeError(_ONLY_IN_BUILD_GRAD.format("var_grad"))
        return self._variables

    def __getitem__(self, key: str) -> popxl.Tensor:
        self._check_open()
        return self.gradients[key]

    def __setitem__(self, key: str, tensor: popxl.Tensor) -> None:
        variables = self._check_open()
        if not isinstance(tensor, popxl.Tensor):
            raise TypeError(f"Not a tensor: {tensor}")
        if key not in variables:
            raise KeyError(f"Not a variable: {key}; there are {list(variables)}")
        _check_same_form(f"`var_grad[{key!r}]`", tensor, variables[key])
        self.gradients[key] = tensor

    def __contains__(self, key: str) -> bool:
        return key in self.gradients

    def __repr__(self) -> str:
        return repr(self.gradients)


class CalledGradients:
    """Gradients of graphs that a module calls, of its own and of its parts. Parts may still add to theirs."""

    def __init__(self, called: CalledGraphsGradInfoLike | None = None) -> None:
        self.own: dict[popxl.Graph, GradGraphInfo] = plain_called_graphs(called)
        self.parts: list[CalledGradients] = []

    def add(self, fwd_graph: GraphLike, grad_graph: GradGraphInfoLike) -> None:
        """The gradient of one graph."""
        self.own[plain_graph(fwd_graph)] = plain_grad_info(grad_graph)

    def add_submap(self, called: CalledGradients | CalledGraphsGradInfoLike) -> None:
        """Those of a part."""
        self.parts.append(called if isinstance(called, CalledGradients) else CalledGradients(called))

    def consolidate(self) -> dict[popxl.Graph, GradGraphInfo]:
        """All of them; a module's own go before those of its parts."""
        together: dict[popxl.Graph, GradGraphInfo] = {}
        for part in self.parts:
            together.update(part.consolidate())
        return {**together, **self.own}

    def clear(self) -> None:
        """Forget what the last graph needed, here and in the parts, which stay."""
        self.own = {}
        for part in self.parts:
            part.clear()


@dataclass(frozen=True)
class _Request:
    """What a gradient graph takes and gives, in tensors of the forward graph."""

    provided: list[popxl.Tensor]
    inputs: list[popxl.Tensor]  # required gradients of plain inputs, which build_grad returns
    variables: dict[str, popxl.Tensor]  # required gradients of variables, which it puts into var_grad


def create_grad_graph(
    module: Module,
    fwd_graph: GraphWithNamedArgs,
    grads_provided: Iterable[popxl.Tensor] | None,
    grads_required: Iterable[popxl.Tensor] | None,
) -> GraphWithNamedArgs:
    """Build the graph of ``module.build_grad`` and join it to the forward graph, which gets outputs for ``aux``."""
    _check_signature(module)
    request = _read_request(fwd_graph, grads_provided, grads_required)
    module.var_grad = VarGrads(fwd_graph.args.to_dict())
    module.aux = fwd_graph._aux.copy()
    with building_gradient(module):
        grad_graph = popxl.gir().create_graph(module.build_grad, *request.provided)
    _check_results(grad_graph, request, module.var_grad)

    with grad_graph:
        for name in request.variables:
            popxl.graph_output(module.var_grad.gradients[name])
    with fwd_graph.graph:
        for value in module.aux.values.values():
            if isinstance(value, popxl.Tensor):
                popxl.graph_output(value)

    set_aside = {module.aux.inputs[name]: module.aux.values[name] for name in module.aux.inputs}
    provided = dict(zip(grad_graph.inputs, request.provided, strict=False))
    info = make_grad_info(
        fwd_graph.graph,
        grad_graph,
        [stands_for(set_aside[t]) if t in set_aside else stands_for_gradient(provided[t]) for t in grad_graph.inputs],
        [stands_for_gradient(t) for t in [*request.inputs, *request.variables.values()]],
    )
    return GraphWithNamedArgs.from_grad_graph(info)


def _check_signature(module: Module) -> None:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    for name, parameter in inspect.signature(module.build_grad).parameters.items():
        if parameter.kind not in positional:
            raise TypeError(
                f"`build_grad` takes one gradient for each output, by position; {name!r} is a parameter of another kind"
            )


def _read_request(
    fwd_graph: GraphWithNamedArgs,
    grads_provided: Iterable[popxl.Tensor] | None,
    grads_required: Iterable[popxl.Tensor] | None,
) -> _Request:
    graph = fwd_graph.graph
    provided = _members("grads_provided", grads_provided, graph.outputs, "output")
    required = _members("grads_required", grads_required, graph.inputs, "input")
    names = {tensor: name for name, tensor in fwd_graph.args.to_dict().items()}
    return _Request(
        provided=provided,
        inputs=[t for t in required if t not in names],
        variables={names[t]: t for t in required if t in names},
    )


def _members(
    argument: str, tensors: Iterable[popxl.Tensor] | None, allowed: Iterable[popxl.Tensor], kind: str
) -> list[popxl.Tensor]:
    allowed = list(allowed)
    if tensors is None:
        return allowed
    chosen = list(tensors)
    for tensor in chosen:
        if not isinstance(tensor, popxl.Tensor) or tensor not in allowed:
            raise ValueError(f"`{argument}`: {tensor} is not a {kind} of `fwd_graph`")
    if doubles := duplicate_items(chosen):
        raise ValueError(f"`{argument}` has tensors more than once: {doubles}")
    return chosen


def _check_results(grad_graph: popxl.Graph, request: _Request, var_grad: VarGrads) -> None:
    advice = "`grads_required` says which gradients there are to be."
    if missing := set(request.variables) - set(var_grad.gradients):
        raise RuntimeError(f"`build_grad` has set no `var_grad` for {sorted(missing)}. {advice}")
    results = list(grad_graph.outputs)
    counts = f"{len(results)} for {len(request.inputs)} inputs. {advice}"
    if len(results) > len(request.inputs):
        raise RuntimeError(f"Too many outputs in the grad graph: {counts}")
    if len(results) < len(request.inputs):
        raise RuntimeError(f"Too few outputs in the grad graph: {counts}")
    for position, (result, needed) in enumerate(zip(results, request.inputs, strict=True)):
        _check_same_form(f"output {position} of `build_grad`", result, needed)


def _check_same_form(what: str, tensor: popxl.Tensor, like: popxl.Tensor) -> None:
    if tensor.shape != like.shape or tensor.meta_shape != like.meta_shape:
        raise ValueError(
            f"the shape of {what} is {tensor.shape} (of the whole: {tensor.meta_shape}), and has to be {like.shape} "
            f"({like.meta_shape})"
        )
