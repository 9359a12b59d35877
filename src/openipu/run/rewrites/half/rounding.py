"""How half results are rounded: to nearest or stochastically, and what becomes of those that are too large.

In: a draft, and the number options of a run. Out: the same draft, in which every operator on half numbers computes in
float32, and every conversion of float32 to half is an `openipu::round_half`, with random bits that are a function of
the micro-batch's seed. By default nothing changes: PyTorch rounds to nearest, and overflows to infinity.
"""

from __future__ import annotations

from itertools import count

import torch
from torch import fx

from openipu.graph import GraphInput, InputKind, RunOptions
from openipu.graph.library import define_operator
from openipu.numerics import FLOAT16, Overflow, Rounding, round_to_format
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.random_numbers import count_samples, find_seed, random_bits, set_value
from openipu.run.drafts.rules import Match, Rule, Search, Writer, apply_rules, matched
from openipu.run.rewrites.half import partials
from openipu.run.rewrites.half.widen_all import widen_half_arithmetic

aten = torch.ops.aten

UPDATE_SEED = "update seed"  # the same for all replicas, whose weights are to stay the same

round_half = define_operator(
    "round_half(Tensor values, Tensor? bits, str overflow) -> Tensor",
    meta=lambda values, bits, overflow: torch.empty_like(values, dtype=torch.float16),
    cpu=lambda values, bits, overflow: _run_round_half(values, bits, overflow),
    tags=(torch.Tag.pointwise,),
)


def apply_number_options(draft: Draft, options: RunOptions, update: bool = False) -> None:
    """Let a simplified draft of a micro-batch compute with the options' partials, rounding and overflow.

    Of an `update`, only the rounding changes: it has no products, and no results that are too large.
    """
    if options.half_partials and not update:
        apply_rules(draft.graph, partials.RULES)
    overflow = choose_overflow(options)
    if not options.stochastic_rounding and (update or overflow is Overflow.INFINITY):
        return
    widen_half_arithmetic(draft)
    apply_rules(draft.graph, _make_rules(draft, options, overflow, update))


def _make_rules(draft: Draft, options: RunOptions, overflow: Overflow, update: bool) -> tuple[Rule, ...]:
    """Each conversion of float32 to half is a rounding, with random numbers of its own if that is stochastic."""
    numbers = count(count_samples(draft.graph))

    def round_to_half(match: Match, writer: Writer) -> fx.Node:
        bits = None
        if options.stochastic_rounding:
            seed = _find_update_seed(draft) if update else find_seed(draft)
            bits = writer.call(random_bits, seed, next(numbers), list(match.root.meta["val"].shape))
            set_value(bits, match.root.meta)
        return writer.call(round_half, match.root.args[0], bits, overflow.value)

    return (Rule("rounding to half", Search((aten._to_copy.default,), _find_narrowing), round_to_half),)


def choose_overflow(options: RunOptions) -> Overflow:
    """What becomes of a half result that is too large."""
    if options.floating_point_exceptions and options.half_overflow is Overflow.SATURATE:
        return Overflow.NAN  # it is to be noticed
    return options.half_overflow


def _find_update_seed(draft: Draft) -> fx.Node:
    for entry in draft.inputs:
        if entry.kind is InputKind.SEED and entry.name == UPDATE_SEED:
            return draft.placeholder(entry.node)
    with draft.graph.inserting_before(next(iter(draft.graph.nodes))):
        node = draft.graph.placeholder("update_seed")
    node.meta = {"val": torch.empty((), dtype=torch.int32, device="meta")}
    draft.inputs = (GraphInput(node.name, InputKind.SEED, UPDATE_SEED, (), torch.int32), *draft.inputs)
    return node


def _find_narrowing(node: fx.Node) -> Match | None:
    source = node.args[0]
    if node.kwargs.get("dtype") is not torch.float16 or not isinstance(source, fx.Node):
        return None
    value = source.meta.get("val")
    return matched(node) if isinstance(value, torch.Tensor) and value.dtype is torch.float32 else None


def round_values(overflow: Overflow, values: torch.Tensor, bits: torch.Tensor | None = None) -> torch.Tensor:
    rounding = Rounding.NEAREST if bits is None else Rounding.STOCHASTIC
    return round_to_format(values, FLOAT16, rounding, overflow, bits).to(torch.float16)


def _run_round_half(values: torch.Tensor, bits: torch.Tensor | None, overflow: str) -> torch.Tensor:
    """What `round_values` gives, with as few passes over memory as may be."""
    rounded = values.to(torch.float16) if bits is None else _round_stochastically(values, bits)
    # Looking is cheaper than repairing, and overflow is rare.
    if (bits is None and overflow == Overflow.INFINITY) or bool(rounded.isfinite().all()):
        return rounded
    return round_values(Overflow(overflow), values, bits)


def _round_stochastically(values: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    """Stochastic rounding of finite numbers. The sign bit of a float32 is left alone by what is added to the others."""
    dropped = FLOAT16.dropped_bits
    chances = torch.bitwise_right_shift(bits, 32 - dropped).bitwise_and_((1 << dropped) - 1)
    small = values.abs() < FLOAT16.smallest_normal
    if not bool(small.any()):
        return (
            chances.add_(values.view(torch.int32)).bitwise_and_(-(1 << dropped)).view(torch.float32).to(torch.float16)
        )
    offset = small.to(torch.float32).mul_(FLOAT16.smallest_normal).copysign_(values)
    codes = (values + offset).view(torch.int32).add_(chances).bitwise_and_(-(1 << dropped))
    # What becomes zero has the sign of the value.
    return codes.view(torch.float32).sub_(offset).copysign_(values).to(torch.float16)
