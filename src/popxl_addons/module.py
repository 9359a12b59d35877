"""Modules that know their variables: the base of layers, models and optimizers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Literal, NamedTuple, Self, TypeVar

import popxl
from popxl import ReplicaGrouping, dtypes
from popxl_addons.dot_tree import DotTree
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.graph_cache import GraphCache
from popxl_addons.hand_written_gradients import Aux, CalledGradients, VarGrads, create_grad_graph, mark_by_hand
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import overrides
from popxl_addons.variable_factory import (
    DataSource,
    NamedVariableFactories,
    VariableFactory,
    add_replica_sharded_variable_input,
    add_variable_input,
)

__all__ = ["Module"]

Inlining = Literal["error", "warning", "none"]
CallMode = Literal["auto", "build_grad", "autodiff", "none"]

Tree = TypeVar("Tree", bound=DotTree[Any])

_outlined: list[Module] = []  # modules whose graph is being built, the innermost last


@contextmanager
def _outlining(module: Module) -> Iterator[None]:
    _outlined.append(module)
    try:
        yield
    finally:
        _outlined.pop()


def _within_name_scope(build: Callable[..., Any]) -> Callable[..., Any]:
    """``build`` of a part runs under the name that the part has in the module around it."""

    @wraps(build)
    def scoped(self: Module, *args: Any, **kwargs: Any) -> Any:
        name = self.__dict__.get("_name_scope")
        if name is None:
            return build(self, *args, **kwargs)
        with popxl.name_scope(name):
            return build(self, *args, **kwargs)

    return scoped


class _Slot(NamedTuple):
    """A variable of a graph: what makes its values, and the input that takes one."""

    factory: VariableFactory
    tensor: popxl.Tensor


class _Slots(DotTree[_Slot]):
    """The variables of a module by name."""

    @classmethod
    def with_inputs(cls, factories: NamedVariableFactories) -> _Slots:
        """The same names, with new inputs of the current graph."""
        return _rename(factories, cls, lambda factory: _Slot(factory, factory.create_input()))

    def list_factories(self) -> NamedVariableFactories:
        """What makes their values."""
        return _rename(self, NamedVariableFactories, lambda slot: slot.factory)

    def list_tensors(self) -> NamedTensors:
        """The inputs."""
        return _rename(self, NamedTensors, lambda slot: slot.tensor)


def _rename(tree: DotTree[Any], kind: type[Tree], change: Callable[[Any], Any]) -> Tree:
    """Another kind of tree with the same branches, those without leaves included."""
    made = kind()
    for name, value in zip(tree.keys(), tree.values(), strict=True):
        made.insert(name, _rename(value, kind, change) if isinstance(value, DotTree) else change(value))
    return made


class Module(popxl.Module):
    """A function from tensors to tensors, ``build``, with variables that come as inputs of its graph.

    A module holds no values: :meth:`create_graph` gives a graph whose variable inputs have names, and factories that
    make as many sets of variables for it as are wanted. Modules that are attributes are parts, and their variables
    have the attribute's name before theirs. ``cache`` shares the graphs of calls with equal arguments.
    ``build_grad``, if a module has it, writes the gradient by hand; calling such a module in line would lose it, which
    ``grad_inlining_error`` turns into an error, a warning or nothing.
    """

    def __init__(self, cache: Any = False, grad_inlining_error: Inlining = "error") -> None:
        if grad_inlining_error not in ("error", "warning", "none"):
            raise ValueError(f"grad_inlining_error should be one of error, warning, none, not {grad_inlining_error!r}")
        if cache and self.implements_grad_graph:
            raise ValueError(
                "no graph caching: two gradients by `build_grad` would change one graph. Leave `cache` off."
            )
        self._slots = _Slots()  # of the graph that is being built, this module's and its parts'
        self._shared = GraphCache() if cache else None
        self._shared_slots: dict[popxl.Graph, _Slots] = {}
        self.aux = Aux()
        self.var_grad = VarGrads()
        self.called_graphs_grad_info = CalledGradients()
        self.grad_inlining_error = grad_inlining_error

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "build" in cls.__dict__:
            cls.build = _within_name_scope(cls.__dict__["build"])  # type: ignore[method-assign]

    def __setattr__(self, key: str, value: Any) -> None:
        if isinstance(value, Module):
            self._take_part(key, value)
        super().__setattr__(key, value)

    def _take_part(self, name: str, part: Module) -> None:
        """Hold a part's records by reference: what it adds to them while it is built is here, too."""
        self._slots.insert(name, part._slots)
        self.called_graphs_grad_info.add_submap(part.called_graphs_grad_info)
        part.set_name_scope(name)

    def set_name_scope(self, name: str) -> None:
        """The name under which tensors of this module are built."""
        self.__dict__["_name_scope"] = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.implements_grad_graph and (not _outlined or _outlined[-1] is not self):
            message = (
                f"{type(self).__name__} is called in line, but `build_grad` has been implemented, which autodiff will "
                "not find here. Call a graph of it, for example by `self.call_module`, or set `grad_inlining_error`."
            )
            if self.grad_inlining_error == "error":
                raise RuntimeError(message)
            if self.grad_inlining_error == "warning":
                warnings.warn(message, stacklevel=2)
        return super().__call__(*args, **kwargs)

    # Graphs

    def create_graph(self, *args: Any, **kwargs: Any) -> tuple[NamedVariableFactories, GraphWithNamedArgs]:
        """The factories of the module's variables, and its graph for inputs like these."""
        graph, slots = self._find_graph(args, kwargs) if self._shared is not None else self._build_graph(args, kwargs)
        called: Any = self.called_graphs_grad_info.consolidate()
        named = GraphWithNamedArgs(graph, slots.list_tensors(), None, self, self.aux, called)
        factories = slots.list_factories()
        self._forget_graph()
        return factories, named

    def _build_graph(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[popxl.Graph, _Slots]:
        self.aux = Aux()
        with _outlining(self):
            graph = popxl.gir().create_graph(self, *args, **kwargs)
        if self.implements_grad_graph:
            mark_by_hand(graph)
        return graph, self._slots

    def _find_graph(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[popxl.Graph, _Slots]:
        """A graph that equal arguments share, and the variables that it had when it was built."""
        assert self._shared is not None
        graph = self._shared.create_graph(self, *args, **kwargs)
        if graph not in self._shared_slots:
            self._shared_slots[graph] = self._slots.copy()
        return graph, self._shared_slots[graph]

    def _forget_graph(self) -> None:
        """A module is the same before and after a graph: all that belongs to one is with the graph."""
        self.aux, self.var_grad = Aux(), VarGrads()
        self.called_graphs_grad_info.clear()
        self._slots._clear()

    def build_grad(self, *args: Any, **kwargs: Any) -> Any:
        """The gradient by hand: takes the gradients of the outputs, returns those of the inputs.

        What ``build`` put into ``self.aux`` is there; gradients of variables go into ``self.var_grad``.
        """
        raise NotImplementedError("this module has no `build_grad`")

    @property
    def implements_grad_graph(self) -> bool:
        """Whether the gradient is written by hand."""
        return overrides(type(self), Module, "build_grad")

    def create_grad_graph(
        self,
        fwd_graph: GraphWithNamedArgs,
        grads_provided: Iterable[popxl.Tensor] | None = None,
        grads_required: Iterable[popxl.Tensor] | None = None,
    ) -> GraphWithNamedArgs:
        """The gradient graph of ``build_grad``; the forward graph gets outputs for what was set aside."""
        if not self.implements_grad_graph:
            raise RuntimeError("this module has no `build_grad`")
        gradient = create_grad_graph(self, fwd_graph, grads_provided, grads_required)
        self._forget_graph()
        return gradient

    def call_module(
        self,
        module: Module,
        name: str | None = None,
        autodiff: CallMode = "auto",
        grads_provided: Callable[[GraphWithNamedArgs], Iterable[popxl.Tensor]] | None = None,
        grads_required: Callable[[GraphWithNamedArgs], Iterable[popxl.Tensor]] | None = None,
    ) -> OutlinedCall:
        """Call a module as a graph of its own; the variables get ``name``, or that of its class.

        ``autodiff``: ``auto`` makes the gradient here only if the module writes it by hand, ``build_grad`` and
        ``autodiff`` make it that way, ``none`` leaves it.
        """
        return OutlinedCall(self, module, name, autodiff, grads_provided, grads_required)

    # Variables

    def add_variable_factory(self, variable_f: VariableFactory, name: str | None = None) -> popxl.Tensor:
        """An input for a factory that exists."""
        return self._enter(name or variable_f.name or "t", variable_f.create_input(), variable_f)

    def add_variable_input(
        self,
        name: str,
        data_iter: DataSource,
        dtype: dtypes.dtype | None = None,
        by_ref: bool = False,
        replica_grouping: ReplicaGrouping | None = None,
        overwrite: bool = False,
    ) -> popxl.Tensor:
        """A variable: the input of the graph, whose values ``data_iter`` makes (a function, or an iterable of arrays).

        ``by_ref``: the graph writes to it. ``replica_grouping``: which replicas have the same value.
        """
        tensor, factory = add_variable_input(name, data_iter, dtype, by_ref, replica_grouping)
        return self._enter(name, tensor, factory, overwrite)

    def add_replica_sharded_variable_input(
        self,
        name: str,
        data_iter: DataSource,
        dtype: dtypes.dtype | None = None,
        by_ref: bool = False,
        replica_grouping: ReplicaGrouping | None = None,
        shard_over: int | None = None,
    ) -> popxl.Tensor:
        """A variable of which the graph gets a shard; ``data_iter`` makes the whole."""
        tensor, factory = add_replica_sharded_variable_input(
            name, data_iter, dtype, by_ref, replica_grouping, shard_over
        )
        return self._enter(name, tensor, factory)

    def add_variable_inputs(
        self, name: str | int, variable_f: NamedVariableFactories, overwrite: bool = False
    ) -> NamedTensors:
        """Inputs for the factories of another graph, under a name: what a call of it in this module binds."""
        if isinstance(name, int) and name < 0:
            raise ValueError(f"a name that is a number cannot be negative: {name}")
        slots = _Slots.with_inputs(variable_f)
        self._slots.insert(name, slots, overwrite=overwrite)
        return slots.list_tensors()

    def _enter(
        self, name: str, tensor: popxl.Tensor, factory: VariableFactory, overwrite: bool = False
    ) -> popxl.Tensor:
        self._slots.insert(name, _Slot(factory, tensor), overwrite=overwrite)
        return tensor

    # Lists of modules

    @classmethod
    def from_list(cls, sub_modules: list[Module]) -> Self:
        """A module whose parts are numbered."""
        module = cls()
        for position, part in enumerate(sub_modules):
            setattr(module, str(position), part)
        module._sub_modules = sub_modules
        return module

    @classmethod
    def from_variable_factories(cls, inputs: list[VariableFactory]) -> Self:
        """A module whose variables are numbered."""
        module = cls()
        for position, factory in enumerate(inputs):
            setattr(module, str(position), module.add_variable_factory(factory, name=str(position)))
        return module

    def get(self, key: str | int) -> Any:
        """The part of a name or number."""
        return getattr(self, str(key))

    def __getitem__(self, item: str | int) -> Any:
        return self.get(item)

    def __iter__(self) -> Iterator[Module]:
        try:
            return iter(self.__dict__["_sub_modules"])
        except KeyError:
            raise AttributeError("only a module made by `Module.from_list` can be iterated over") from None


class OutlinedCall:
    """A module that is to be called as a graph. After the call ``graph`` and ``var_factories`` are what it made."""

    def __init__(
        self,
        caller: Module,
        callee: Module,
        name: str | None,
        autodiff: CallMode,
        grads_provided: Callable[[GraphWithNamedArgs], Iterable[popxl.Tensor]] | None = None,
        grads_required: Callable[[GraphWithNamedArgs], Iterable[popxl.Tensor]] | None = None,
    ) -> None:
        self.caller = caller
        self.callee = callee
        self.name = name or type(callee).__name__
        self.autodiff = autodiff
        self.grads_provided = grads_provided
        self.grads_required = grads_required

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[popxl.Tensor, ...]:
        self.var_factories, self.graph = self.callee.create_graph(*args, **kwargs)
        variables = self.caller.add_variable_inputs(self.name, self.var_factories)
        called = self.caller.called_graphs_grad_info
        called.add_submap(self.graph.called_graphs_grad_info)  # type: ignore[arg-type]
        self.n_outputs_pre_autodiff = len(self.graph.graph.outputs)
        # The gradient comes before the call, because it adds outputs to the graph.
        if self.autodiff in ("build_grad", "autodiff") or (
            self.autodiff == "auto" and self.callee.implements_grad_graph
        ):
            gradient = self.graph.autodiff(
                grads_provided=self.grads_provided(self.graph) if self.grads_provided else None,
                grads_required=self.grads_required(self.graph) if self.grads_required else None,
                method=self.autodiff,
            )
            called.add(self.graph, gradient)
        results = self.graph.bind(variables).call(*args, **kwargs)
        return results[: self.n_outputs_pre_autodiff]
