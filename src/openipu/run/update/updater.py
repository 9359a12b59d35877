"""The optimizer's update, written straight into the device's weights and state.

In: an `UpdatePlan` and the device memory. Out: an `Updater`: what to compute before a step, which buckets the step
itself can apply, and what is left for its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from openipu.graph import GraphInput, InputKind, OutputKind
from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.draft import Draft, copy_ancestors
from openipu.run.drafts.rules import apply_rules
from openipu.run.kernels import KernelLibrary, Run
from openipu.run.kernels.catalog import ROUND, STOCHASTIC_ROUNDING
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.rewrites.half import stochastic_rounding
from openipu.run.rewrites.half.rounding import UPDATE_SEED
from openipu.run.rewrites.in_place.bound_rounding import bind_rounding
from openipu.run.update.buckets import Bucket, BucketGroup, divide_parameters, name_tensor
from openipu.run.update.functions import build_rule_functions
from openipu.run.update.rules import PARAMETER_ROLE, UpdatePlan


class Updater:
    """All buckets, and what of the update graph is not an element-wise rule."""

    def __init__(
        self,
        plan: UpdatePlan,
        memory: DeviceMemory,
        accumulate: bool,
        written: frozenset[str] = frozenset(),
        library: KernelLibrary | None = None,
    ) -> None:
        """`written` names parameters that forward itself writes to: their update starts from the new values."""
        rounding = None if library is None else library.find_run(STOCHASTIC_ROUNDING, ROUND)
        self._plan = plan
        self._memory = memory
        self._accumulate = accumulate
        dtypes = {name: tensor.dtype for name, tensor in memory.parameters.items()}
        dtypes |= plan.gradient_dtypes
        computed = dict.fromkeys(
            node for family in plan.families for node in family.rule.shared if node.op != "placeholder"
        )
        needing = _find_dependents(plan.draft, InputKind.GRADIENT)
        self._ready: list[BucketGroup] = []  # need nothing but their own gradients
        self._waiting: list[
            BucketGroup
        ] = []  # need a value of all gradients, such as their norm, or the end of forward
        for family in plan.families:
            rounded = any(name_tensor(role, family.parameters[0]) in plan.roundings for role in family.rule.results)
            functions = build_rule_functions(family.rule, wide=rounded)
            waits = any(node in needing for node in family.rule.shared) or not written.isdisjoint(family.parameters)
            groups = self._waiting if waits else self._ready
            for names in divide_parameters(family.parameters, functions, memory):
                dtype = dtypes[names[0]]
                groups.append(BucketGroup(functions, names, memory, dtype, accumulate, plan.roundings, rounding))
        others = _find_other_results(plan)
        self._other_targets = {node: key for key, node in others.items()}
        self._other_accumulators = {
            name: torch.zeros(memory.parameters[name].shape, dtype=dtypes[name])
            for name in plan.other_parameters
            if accumulate
        }
        self._early = _Part(plan.draft, [node for node in computed if node not in needing], memory, rounding)
        late = [*(node for node in computed if node in needing), *others.values()]
        self._late = _Part(plan.draft, late, memory, rounding)
        self._values = self._collect_fixed_values()
        self.accumulators = self._collect_accumulators()

    @property
    def ready_buckets(self) -> tuple[Bucket, ...]:
        """Buckets that can be applied as soon as their own gradients are there."""
        return tuple(bucket for group in self._ready for bucket in group.buckets)

    @property
    def late_gradients(self) -> tuple[str, ...]:
        """Parameters whose gradients must be kept until the end of a step that does not accumulate."""
        waiting = [name for group in self._waiting for bucket in group.buckets for name in bucket.parameters]
        return tuple(dict.fromkeys([*waiting, *self._plan.other_parameters, *self._late.gradients]))

    def begin(self) -> None:
        """Before the first micro-batch of an update: what does not depend on gradients."""
        self._values.update(self._early.compute({}))
        for group in self._ready:
            group.prepare(self._values)
        if self._accumulate:
            for group in (*self._ready, *self._waiting):
                for bucket in group.buckets:
                    bucket.clear()
            for accumulator in self._other_accumulators.values():
                accumulator.zero_()

    def finish(self, gradients: Mapping[str, torch.Tensor]) -> None:
        """After the last micro-batch: every bucket that was not applied inside the graph, and the rest."""
        self._values.update(self._late.compute(gradients))
        if self._accumulate:
            for bucket in self.ready_buckets:
                bucket.apply()
        for group in self._waiting:
            group.prepare(self._values)
            for bucket in group.buckets:
                bucket.apply(*(() if self._accumulate else (gradients[name] for name in bucket.parameters)))
        for node, (kind, name) in self._other_targets.items():
            target = self._memory.parameters[name] if kind is OutputKind.PARAMETER else self._memory.state[name]
            target.copy_(self._values[node])

    def _collect_accumulators(self) -> dict[str, torch.Tensor]:
        if not self._accumulate:
            return {}
        found = dict(self._other_accumulators)
        for group in (*self._ready, *self._waiting):
            for bucket in group.buckets:
                found |= dict(zip(bucket.parameters, bucket.gradients, strict=True))
        return found

    def _collect_fixed_values(self) -> dict[fx.Node, torch.Tensor]:
        """Shared values that are placeholders: hyper-parameters, constants, state that belongs to no parameter."""
        entries = {entry.node: entry for entry in self._plan.draft.inputs}
        values: dict[fx.Node, torch.Tensor] = {}
        for family in self._plan.families:
            for node in family.rule.shared:
                if node.op == "placeholder":
                    bound = self._plan.draft.bound.get(node.name)
                    held = bound if bound is not None else find_value(entries[node.name], self._memory)
                    assert held is not None
                    values[node] = held
        return values


class _Part:
    """The piece of the update graph that computes some of its nodes."""

    def __init__(self, draft: Draft, wanted: Sequence[fx.Node], memory: DeviceMemory, rounding: Run | None) -> None:
        self._results = tuple(dict.fromkeys(wanted))
        graph, copies = copy_ancestors(draft.graph, self._results)
        graph.output(tuple(copies[node] for node in self._results))
        apply_rules(graph, stochastic_rounding.RULES)
        if rounding is not None:
            bind_rounding(graph, rounding)
        bound: dict[str, Any] = {
            copy.name: draft.bound[node.name] for node, copy in copies.items() if node.name in draft.bound
        }
        entries = {entry.node: entry for entry in draft.inputs}
        gradients: list[str] = []
        for node, copy in copies.items():
            entry = entries.get(node.name)
            if entry is None or node.op != "placeholder" or copy.name in bound:
                continue
            if entry.kind is InputKind.GRADIENT:
                gradients.append(entry.name)
            else:
                bound[copy.name] = find_value(entry, memory)
        self.gradients = tuple(gradients)
        self._function = generate_function(graph, bound, "update")

    def compute(self, gradients: Mapping[str, torch.Tensor]) -> dict[fx.Node, torch.Tensor]:
        """The values of the wanted nodes."""
        if not self._results:
            return {}
        values = self._function(*(gradients[name] for name in self.gradients))
        return dict(zip(self._results, values, strict=True))


def find_value(entry: GraphInput, memory: DeviceMemory) -> torch.Tensor | None:
    """The device tensor behind a placeholder, where it is one that stays."""
    match entry.kind:
        case InputKind.PARAMETER:
            return memory.find_parameter(entry.name, entry.dtype)
        case InputKind.STATE:
            return memory.state[entry.name]
        case InputKind.HYPER:
            return memory.hyper[entry.name]
        case InputKind.SEED if entry.name == UPDATE_SEED:
            return memory.update_seed
        case _:
            return None


def _find_dependents(draft: Draft, kind: InputKind) -> set[fx.Node]:
    roots = {entry.node for entry in draft.inputs if entry.kind is kind}
    found: set[fx.Node] = set()
    for node in draft.graph.nodes:
        if node.name in roots or any(source in found for source in node.all_input_nodes):
            found.add(node)
    return found


def _find_other_results(plan: UpdatePlan) -> dict[tuple[OutputKind, str], fx.Node]:
    """What the captured graph itself must compute: new values that no family covers."""
    covered = {(OutputKind.PARAMETER, name) for family in plan.families for name in family.parameters}
    covered |= {
        (OutputKind.STATE, f"{role}:{name}")
        for family in plan.families
        for name in family.parameters
        for role in family.rule.results
        if role != PARAMETER_ROLE
    }
    return {
        (entry.kind, entry.name): node
        for node, entry in zip(plan.draft.results, plan.draft.outputs, strict=True)
        if (entry.kind, entry.name) not in covered
    }
