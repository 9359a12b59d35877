"""Element-wise update rules as functions that write in place.

In: a `Rule`. Out: two generated functions: one for its 0-dim values (a bias correction), run once an update, and one
for its elements, run on pieces of memory small enough to stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.draft import list_results
from openipu.run.update.contraction import contract_arithmetic
from openipu.run.update.fused import find_fused_update
from openipu.run.update.half_rules import convert_around, strip_conversions
from openipu.run.update.in_place import write_results
from openipu.run.update.rules import GRADIENT_ROLE, PARAMETER_ROLE, Rule

aten = torch.ops.aten

_COMMUTES = (aten.add.Tensor, aten.mul.Tensor)


@dataclass(frozen=True, eq=False)
class RuleFunctions:
    """A rule, ready to call. All sequences are in the order of the functions' arguments."""

    roles: tuple[str, ...]  # tensors of the parameter's shape; the gradient, where the rule reads it, is the last
    externals: tuple[fx.Node, ...]  # 0-dim values that the elements read
    numbers: tuple[bool, ...]  # which of the externals are passed as Python numbers
    update_elements: Callable[..., Any]
    one_pass: bool  # the elements are updated by one kernel, which needs no pieces that stay in the cache
    scalar_arguments: tuple[fx.Node, ...]
    scalar_results: tuple[fx.Node, ...]
    compute_scalars: Callable[..., tuple[torch.Tensor, ...]] | None
    scalar_states: dict[fx.Node, str]  # 0-dim state that is read -> its name
    scalar_roles: dict[str, fx.Node]  # 0-dim state that is written -> its new value

    @property
    def shared_states(self) -> tuple[str, ...]:
        """Names of all 0-dim state of the rule."""
        return tuple(dict.fromkeys((*self.scalar_states.values(), *self.scalar_roles)))


def build_rule_functions(rule: Rule, *, wide: bool = False) -> RuleFunctions:
    """Generate both functions of a rule; with `wide`, for half parameters that are given in float32 and left so."""
    elementwise = {role: node for role, node in rule.results.items() if role not in rule.scalar_roles}
    scalar_roles = {role: node for role, node in rule.results.items() if role not in elementwise}
    roles = [
        role for role in dict.fromkeys([PARAMETER_ROLE, *rule.leaves.values(), *elementwise]) if role != GRADIENT_ROLE
    ]
    if GRADIENT_ROLE in rule.leaves.values():
        roles.append(GRADIENT_ROLE)
    inside = {*rule.elements, *rule.leaves}
    read = [source for node in rule.elements for source in node.all_input_nodes] + list(elementwise.values())
    externals = tuple(dict.fromkeys(node for node in read if node not in inside))
    numbers = _find_numbers(rule, externals, elementwise)
    scalar_results = tuple(
        dict.fromkeys(node for node in (*externals, *scalar_roles.values()) if node in set(rule.scalars))
    )
    arguments = (*rule.shared, *rule.scalar_states)
    update_elements, one_pass = _generate_elements(rule, roles, externals, elementwise, numbers, wide)
    return RuleFunctions(
        roles=tuple(roles),
        externals=externals,
        numbers=tuple(node in numbers for node in externals),
        update_elements=update_elements,
        one_pass=one_pass,
        scalar_arguments=arguments,
        scalar_results=scalar_results,
        compute_scalars=_generate_scalars(rule, arguments, scalar_results) if scalar_results else None,
        scalar_states=rule.scalar_states,
        scalar_roles=scalar_roles,
    )


def _generate_scalars(
    rule: Rule, arguments: tuple[fx.Node, ...], results: tuple[fx.Node, ...]
) -> Callable[..., tuple[torch.Tensor, ...]]:
    graph = fx.Graph()
    copies = {node: graph.placeholder(node.name) for node in arguments}
    for node in rule.scalars:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in results))
    return generate_function(graph, {}, "update scalars")


def _find_numbers(rule: Rule, externals: tuple[fx.Node, ...], results: dict[str, fx.Node]) -> set[fx.Node]:
    """0-dim values that may be passed as Python numbers, which the combined operators need."""
    elements = set(rule.elements)
    # Half-precision weights and gradients are converted first and last: between that, all is float32.
    arithmetic = [node for node in rule.elements if node.target is not aten._to_copy.default]
    operands = [source for node in arithmetic for source in node.all_input_nodes if source not in externals]
    if any(node.meta["val"].dtype not in (torch.float32, torch.float64) for node in (*arithmetic, *operands)):
        return set()
    return {
        node
        for node in externals
        if node.meta["val"].is_floating_point()
        and node not in results.values()
        and all(_takes_number(user, node) for user in node.users if user in elements)
    }


def _takes_number(user: fx.Node, number: fx.Node) -> bool:
    """Whether an operator accepts a number where it has this 0-dim tensor (in second place, or in either)."""
    if user.kwargs or len(user.args) != 2 or user.args[0] is user.args[1]:
        return False
    return user.target in _COMMUTES or (user.args[1] is number and user.target in (aten.sub.Tensor, aten.div.Tensor))


def _generate_elements(
    rule: Rule,
    roles: list[str],
    externals: tuple[fx.Node, ...],
    results: dict[str, fx.Node],
    number_externals: set[fx.Node],
    unrounded: bool,
) -> tuple[Callable[..., Any], bool]:
    graph = fx.Graph()
    targets = {role: graph.placeholder(role) for role in roles}
    copies = {node: targets[role] for node, role in rule.leaves.items()}
    copies |= {node: graph.placeholder(node.name) for node in externals}
    for node in rule.leaves:
        copies[node].meta = dict(node.meta)
    numbers = {copies[node] for node in number_externals}
    for node in rule.elements:
        copies[node] = graph.node_copy(node, copies.__getitem__)
        if node.target in _COMMUTES and copies[node].args[0] in numbers:
            copies[node].args = copies[node].args[::-1]
    output = graph.output(tuple(copies[node] for node in results.values()))
    contract_arithmetic(graph, numbers)
    new = dict(zip(results, list_results(graph), strict=True))
    wide, wide_new = strip_conversions(targets, new)
    fuse = find_fused_update(graph, wide, wide_new) if len(numbers) == len(externals) else None
    if unrounded:
        output.args = (tuple(wide_new[role] for role in results),)
    write_results(graph, [targets[role] for role in results], output)
    plain = generate_function(graph, {}, "update elements")
    if fuse is None:
        return plain, False
    # What is converted on the way goes in pieces: the float32 copies are to stay in the cache.
    return convert_around(fuse.make(plain), targets, wide), fuse.one_pass and wide == targets
