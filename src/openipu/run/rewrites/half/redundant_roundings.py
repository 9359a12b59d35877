"""Roundings that change nothing.

In: a draft whose half products are computed in float32. Out: the same draft without the roundings of values that are
half-precision numbers already. What chooses among half-precision numbers, such as the largest of a window or the
positive part, gives half-precision numbers in float32 too: a product behind it reads them as they are, instead of
having them rounded to half and converted back.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

from openipu.graph import note_of
from openipu.ops import TRAITS, Trait, has_trait
from openipu.run.drafts.aliasing import find_viewed
from openipu.run.drafts.rules import Match, Rule, Search, Value, Writer, matched, op
from openipu.run.rewrites.half.conversions import convert, converts_to, is_half, set_format

aten = torch.ops.aten

_CHOICES = tuple(
    getattr(aten, name.removeprefix("aten.")).default
    for name, traits in TRAITS.items()
    if Trait.ELEMENTWISE_CHOICE in traits
)


def holds_half_numbers(node: fx.Node) -> bool:
    """Whether all numbers of a float32 value are half-precision ones: converted from half, or chosen among such."""
    while not (converts_to(node, torch.float32) and is_half(node.args[0])):
        source = node.args[0] if node.args else None
        if not isinstance(source, fx.Node) or not _chooses(node):
            return False
        node = source
    return True


def _chooses(node: fx.Node) -> bool:
    """Whether each number of the result is one of the first argument's, or its negative."""
    if node.target is operator.getitem:
        return bool(node.args[1] == 0)  # the second result of a pool are places in its windows
    chooses = node.op == "call_function" and has_trait(str(node.target), Trait.CHOOSES)
    return chooses or find_viewed(node) is not None


def _find_choice(node: fx.Node) -> Match | None:
    """What chooses among rounded numbers that were exact, for a reader in float32."""
    rounding = node.args[0]
    if not converts_to(rounding, torch.float16) or not isinstance(rounding, fx.Node):
        return None
    (wide,) = rounding.all_input_nodes
    is_single = wide.meta["val"].dtype is torch.float32
    return matched(node, x=wide) if is_single and holds_half_numbers(wide) and _is_read_in_float32(node) else None


def _is_read_in_float32(node: fx.Node) -> bool:
    return any(
        _is_same_phase(user, node)
        and (converts_to(user, torch.float32) or (user.target in _CHOICES and _is_read_in_float32(user)))
        for user in node.users
    )


def _choose_in_float32(match: Match, writer: Writer) -> fx.Node:
    """The operator on float32; who reads its half result gets that rounded."""
    choice = match.root
    chosen = writer.call(choice.target, match["x"], *choice.args[1:], like=choice, **choice.kwargs)
    return convert(writer, set_format(chosen, torch.float32), torch.float16)


def _is_exact(match: Match) -> bool:
    # A copy that lives until the backward pass would take twice the memory.
    return _is_same_phase(match.root, match["x"]) and holds_half_numbers(match["x"])


def _is_same_phase(node: fx.Node, other: fx.Node) -> bool:
    return note_of(node).phase == note_of(other).phase


_ROUNDING = op(aten._to_copy.default, Value("x", torch.float32), name="rounding", dtype=torch.float16)
RULES = (
    Rule("choice among half numbers", Search(_CHOICES, _find_choice), _choose_in_float32),
    Rule(
        "exact rounding",
        op(aten._to_copy.default, _ROUNDING, dtype=torch.float32),
        lambda match, writer: match["x"],
        _is_exact,
        shared=frozenset({"rounding"}),
    ),
)
