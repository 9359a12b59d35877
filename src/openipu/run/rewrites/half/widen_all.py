"""Half arithmetic in float32.

In: a draft. Out: the same draft, in which every operator that may have to round a half result takes float32 operands,
and a conversion to half follows it. PyTorch does the same inside each operator, so results stay; but now the conversion
is there to be changed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from openipu.ops import Trait, has_trait
from openipu.run.drafts.aliasing import find_viewed, is_pure
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import Match, Rule, Search, Writer, apply_rules, matched
from openipu.run.rewrites.half.conversions import (
    ask_for_float32,
    compute_in_float32,
    convert,
    holds_half,
    is_half,
    list_parts,
)


def widen_half_arithmetic(draft: Draft) -> None:
    """Compute in float32 what makes half results of half operands, and round afterwards."""
    copies: dict[fx.Node, fx.Node] = {}

    def widen(match: Match, writer: Writer) -> fx.Node:
        for source in match.root.all_input_nodes:
            if is_half(source) and source not in copies:
                copies[source] = convert(writer, source, torch.float32, like=source)
        return compute_in_float32(match, writer, copies, match["values"])

    rule = Rule("half arithmetic in float32", Search(None, _find), widen, shared=frozenset({"parts"}))
    apply_rules(draft.graph, (rule,))


def _find(node: fx.Node) -> Match | None:
    """An operator that may have to round a half result."""
    if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "aten":
        return None
    if has_trait(str(node.target), Trait.EXACT) or not is_pure(node) or find_viewed(node) is not None:
        return None
    results = _list_values(node.meta.get("val"))
    if not any(map(holds_half, results)):
        return None
    values = _evaluate(node)
    if values is None:
        return None
    pairs = zip(results, _list_values(values), strict=True)
    if any(holds_half(old) and getattr(new, "dtype", None) is not torch.float32 for old, new in pairs):
        return None  # half results that would not become float32
    parts = list_parts(node)
    return matched(node, *parts, parts=parts, values=values)


def _evaluate(node: fx.Node) -> Any:
    """What the operator returns for float32 operands, if it takes them."""

    def widen(source: fx.Node) -> Any:
        value = source.meta["val"]
        return value.to(torch.float32) if holds_half(value) else value

    args, kwargs = ask_for_float32(fx.map_arg((node.args, node.kwargs), widen))
    if "device" in kwargs:
        kwargs = {**kwargs, "device": "meta"}
    try:
        return node.target(*args, **kwargs)  # type: ignore[operator]
    except (RuntimeError, TypeError, NotImplementedError):
        return None  # an operator for half numbers alone


def _list_values(values: Any) -> list[Any]:
    return list(values) if isinstance(values, tuple | list) else [values]
