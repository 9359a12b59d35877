"""Which parameters are updated alike.

In: the captured update graph: for each parameter, ops from weight, gradient, state and hyper-parameters to new values.
Out: an `UpdatePlan`: families of parameters whose updates are the same element-wise rule, so that one call can update
all of them, and the rest, which runs as it was captured. Nothing here knows SGD from Adam: rules are compared by their
graphs.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import fx

from openipu.graph import OWNERLESS, GraphInput, InputKind, OutputKind, Program, StateSlot
from openipu.run.drafts.aliasing import is_pointwise
from openipu.run.drafts.draft import Draft, draft_graph
from openipu.run.rewrites.simplify import simplify
from openipu.run.update.groups import GRADIENT_ROLE, PARAMETER_ROLE, group_alike
from openipu.run.update.stacked_scalars import separate_scalars

__all__ = ["GRADIENT_ROLE", "PARAMETER_ROLE", "Family", "Rule", "StochasticRounding", "UpdatePlan", "plan_update"]


@dataclass(frozen=True, eq=False)
class Rule:
    """One element-wise update rule, as found at its first parameter. Roles are "parameter", "gradient", state names."""

    leaves: dict[fx.Node, str]  # placeholders of the parameter's own shape -> role
    scalar_states: dict[fx.Node, str]  # 0-dim state placeholders -> state name
    shared: tuple[fx.Node, ...]  # values that are the same for every parameter: hyper-parameters, a clipping factor
    scalars: tuple[fx.Node, ...]  # 0-dim nodes, in order
    elements: tuple[fx.Node, ...]  # nodes of the parameter's shape, in order
    results: dict[str, fx.Node]  # role -> new value
    scalar_roles: frozenset[str]  # roles of 0-dim state beside a parameter that is not 0-dim


@dataclass(frozen=True, eq=False)
class Family:
    """Parameters that share a rule."""

    rule: Rule
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StochasticRounding:
    """Stochastic rounding of a new weight, or of new state, to half."""

    sample: int  # which bits of the update's seed
    overflow: str


@dataclass(frozen=True, eq=False)
class UpdatePlan:
    """The update graph, cut up."""

    draft: Draft  # the updates of one parameter of each family, and of all others
    families: tuple[Family, ...]
    other_parameters: tuple[str, ...]  # updated by the captured graph itself
    gradient_dtypes: Mapping[str, torch.dtype]
    roundings: Mapping[str, StochasticRounding] = field(default_factory=dict)  # of families, by parameter or state


class _NotElementwiseError(Exception):
    """This parameter's update is not one element-wise rule."""


def plan_update(program: Program) -> UpdatePlan:
    """Find the families of the program's update."""
    update = program.update
    assert update is not None
    groups = group_alike(update, program.state_slots)
    plan = _read_families(program, groups)
    if plan is None:
        # What is not an element-wise rule runs as it was captured, so each of its parameters is needed.
        plan = _read_families(program, [(name,) for names in groups for name in names])
    assert plan is not None
    return plan


def _read_families(program: Program, groups: Sequence[tuple[str, ...]]) -> UpdatePlan | None:
    """The plan from the first parameter of each group, or None where a group of several has no element-wise rule."""
    assert program.update is not None
    draft = _draft_updates(program, {names[0] for names in groups})
    slots = {slot.key: slot for slot in program.state_slots}
    reader = _RuleReader(draft, slots)
    members: dict[Hashable, list[str]] = {}
    rules: dict[Hashable, Rule] = {}
    others: list[str] = []
    for names in groups:
        try:
            key, rule = reader.read(names[0])
        except _NotElementwiseError:
            if len(names) > 1:
                return None
            others.append(names[0])
            continue
        rules.setdefault(key, rule)
        members.setdefault(key, []).extend(names)
    position = {entry.name: index for index, entry in enumerate(program.update.outputs)}
    families = tuple(
        Family(rules[key], tuple(sorted(names, key=position.__getitem__))) for key, names in members.items()
    )
    dtypes = {entry.name: entry.dtype for entry in program.update.inputs_of(InputKind.GRADIENT)}
    return UpdatePlan(draft, families, tuple(others), dtypes)


def _draft_updates(program: Program, parameters: Collection[str]) -> Draft:
    """The part of the update graph that computes the new values of some parameters and of their state."""
    assert program.update is not None
    owner = {slot.key: slot.parameter for slot in program.state_slots}
    wanted = [
        entry
        for entry in program.update.outputs
        if (owner[entry.name] if entry.kind is OutputKind.STATE else entry.name) in (*parameters, OWNERLESS)
    ]
    draft = draft_graph(program.update, program.constants, wanted)
    separate_scalars(draft)
    simplify(draft)
    return draft


class _RuleReader:
    """Reads the rule of one parameter after another; equal rules get equal keys."""

    def __init__(self, draft: Draft, slots: dict[str, StateSlot]) -> None:
        self._slots = slots
        self._slots_of: dict[str, list[StateSlot]] = {}
        for slot in slots.values():
            self._slots_of.setdefault(slot.parameter, []).append(slot)
        placeholders = {node.name: node for node in draft.graph.find_nodes(op="placeholder")}
        self._entries: dict[fx.Node, GraphInput] = {placeholders[entry.node]: entry for entry in draft.inputs}
        self._order = {node: index for index, node in enumerate(draft.graph.nodes)}
        self._numbers: dict[Hashable, int] = {}
        self._results: dict[str, dict[str, fx.Node]] = {}
        self._shared: dict[fx.Node, bool] = {}
        for node, entry in zip(draft.results, draft.outputs, strict=True):
            if entry.kind is OutputKind.PARAMETER:
                self._results.setdefault(entry.name, {})[PARAMETER_ROLE] = node
            elif entry.kind is OutputKind.STATE and slots[entry.name].parameter != OWNERLESS:
                slot = slots[entry.name]
                self._results.setdefault(slot.parameter, {})[slot.name] = node

    def read(self, parameter: str) -> tuple[Hashable, Rule]:
        results = self._results[parameter]
        shape = tuple(results[PARAMETER_ROLE].meta["val"].shape)
        slots = self._slots_of.get(parameter, [])
        if any(slot.shape not in ((), shape) for slot in slots):
            raise _NotElementwiseError
        visit = _Visit(self, parameter, shape)
        numbers = tuple(sorted((role, visit.number(node)) for role, node in results.items()))
        ordered = sorted(visit.numbers, key=self._order.__getitem__)
        rule = Rule(
            leaves=visit.leaves,
            scalar_states=visit.scalar_states,
            shared=tuple(node for node in ordered if node in visit.shared),
            scalars=tuple(node for node in ordered if node in visit.scalars),
            elements=tuple(node for node in ordered if node in visit.elements),
            results=results,
            scalar_roles=frozenset(slot.name for slot in slots if slot.shape != shape),
        )
        return (numbers, tuple(sorted(rule.scalar_roles)), shape == ()), rule

    def intern(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def find_entry(self, node: fx.Node) -> GraphInput | None:
        return self._entries.get(node)

    def find_slot(self, key: str) -> StateSlot:
        return self._slots[key]

    def is_shared(self, node: fx.Node) -> bool:
        """Whether a 0-dim value is the same whichever parameter is asked for."""
        if node not in self._shared:
            entry = self._entries.get(node)
            if node.op == "placeholder":
                shared = (
                    entry is None or entry.kind in (InputKind.HYPER, InputKind.CONSTANT) or self._is_ownerless(entry)
                )
            elif is_pointwise(node):
                shared = all(self.is_shared(source) for source in node.all_input_nodes)
            else:
                shared = True  # a reduction, such as the norm of all gradients: computed once, before the rules
            self._shared[node] = shared
        return self._shared[node]

    def _is_ownerless(self, entry: GraphInput) -> bool:
        """Is it state of all parameters, such as a count of steps or a learning rate?"""
        return entry.kind is InputKind.STATE and not self._slots[entry.name].parameter and not entry.shape


class _Visit:
    """The walk from one parameter's new values back to its leaves."""

    def __init__(self, reader: _RuleReader, parameter: str, shape: tuple[int, ...]) -> None:
        self._reader, self._parameter, self._shape = reader, parameter, shape
        self.numbers: dict[fx.Node, int] = {}
        self.leaves: dict[fx.Node, str] = {}
        self.scalar_states: dict[fx.Node, str] = {}
        self.shared: set[fx.Node] = set()
        self.scalars: set[fx.Node] = set()
        self.elements: set[fx.Node] = set()

    def number(self, node: fx.Node) -> int:
        if node not in self.numbers:
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor):
                raise _NotElementwiseError
            self.numbers[node] = self._reader.intern((self._describe(node, tuple(value.shape)), value.dtype))
        return self.numbers[node]

    def _describe(self, node: fx.Node, shape: tuple[int, ...]) -> Hashable:
        entry = self._reader.find_entry(node)
        shared = shape == () and self._reader.is_shared(node)
        if (
            entry is not None
            and entry.kind in (InputKind.PARAMETER, InputKind.GRADIENT, InputKind.STATE)
            and not shared
        ):
            return self._describe_leaf(node, entry)
        if shared:
            self.shared.add(node)
            return ("shared", node.name)
        if not is_pointwise(node) or shape not in ((), self._shape):
            raise _NotElementwiseError
        arguments = fx.map_arg((node.args, node.kwargs), lambda source: _Number(self.number(source)))
        scalar = shape == () and self._shape != ()
        (self.scalars if scalar else self.elements).add(node)
        return (node.target, repr(arguments), scalar)

    def _describe_leaf(self, node: fx.Node, entry: GraphInput) -> Hashable:
        role = {InputKind.PARAMETER: PARAMETER_ROLE, InputKind.GRADIENT: GRADIENT_ROLE}.get(entry.kind, "")
        owner = entry.name
        if entry.kind is InputKind.STATE:
            slot = self._reader.find_slot(entry.name)
            role, owner = slot.name, slot.parameter
        if owner != self._parameter or entry.shape not in ((), self._shape):
            raise _NotElementwiseError
        if entry.shape == self._shape:
            self.leaves[node] = role
            return ("leaf", role)
        self.scalar_states[node] = role
        return ("scalar state", role)


class _Number(int):
    """An interned argument: printed apart from plain numbers in a key."""

    def __repr__(self) -> str:
        return f"%{int(self)}"
