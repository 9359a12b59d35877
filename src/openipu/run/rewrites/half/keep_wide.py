"""Rounded values that stay in float32.

In: a draft in which results are rounded to half by chance, and converted to float32 again by who reads them. Out: the
same draft, in which such a value is rounded in the memory that it was computed in, as a float32 that half has; a half
one is made only for who needs that. One pass over the cache instead of a narrower copy and a wide one again. A C++
kernel does it, if there is one (`bound_rounding.py`); otherwise operators do.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import fx

from openipu.run.drafts.ownership import is_last_use
from openipu.run.drafts.rules import Match, Rule, Search, Writer, matched
from openipu.run.rewrites.half.conversions import convert, converts_to, set_format
from openipu.run.rewrites.half.stochastic_rounding import round_in_place, round_stochastically, round_wide
from openipu.run.rewrites.half.widen_products import REPEATED_VIEWS

aten = torch.ops.aten


def _find_rounded(node: fx.Node) -> Match | None:
    readers = list(_list_wide_readers(node))
    return matched(node, *readers, readers=readers) if readers else None


def _find_mask(node: fx.Node) -> Match | None:
    """A mask of zeros and ones, which a dropout multiplies by."""
    source = node.args[0]
    is_mask = isinstance(source, fx.Node) and source.meta["val"].dtype is torch.bool
    return _find_rounded(node) if is_mask and converts_to(node, torch.float16) else None


def _list_wide_readers(node: fx.Node) -> Iterator[fx.Node]:
    """All conversions of a value to float32, and each view and copy of it, in front of those that read that."""
    for user in node.users:
        if converts_to(user, torch.float32):
            yield user
        elif (user.target in REPEATED_VIEWS or user.target is aten.clone.default) and user.args[0] is node:
            behind = list(_list_wide_readers(user))
            yield from [user, *behind] if behind else []


def _round_wide(match: Match, writer: Writer) -> fx.Node:
    rounding = match.root
    in_place = is_last_use(rounding.all_input_nodes[0])
    wide = set_format(writer.call(round_in_place if in_place else round_wide, *rounding.args), torch.float32)
    _read_wide(match, writer, wide)
    return convert(writer, wide, torch.float16)


def _convert_wide(match: Match, writer: Writer) -> None:
    _read_wide(match, writer, convert(writer, match.root.all_input_nodes[0], torch.float32))


def _read_wide(match: Match, writer: Writer, wide: fx.Node) -> None:
    """Let conversions have the float32 value, and those behind views and copies the same of it."""
    forms = {match.root: wide}
    for reader in match["readers"]:
        source, *others = reader.args
        if converts_to(reader, torch.float32):
            writer.replace(reader, forms[source])
        else:
            with writer.before(reader):
                moved = writer.call(reader.target, forms[source], *others, like=reader, **reader.kwargs)
            forms[reader] = set_format(moved, torch.float32)


_READERS = frozenset({"readers"})
ROUNDED_WIDE = (
    Rule("rounded in float32", Search((round_stochastically,), _find_rounded), _round_wide, shared=_READERS),
    Rule("mask in float32", Search((aten._to_copy.default,), _find_mask), _convert_wide, shared=_READERS),
)
