"""Half products with half partials by a C++ kernel.

In: a draft in which a product is computed in chunks of its inputs, and the running sum is rounded behind each
(`partials.py`), and the kernel. Out: the same draft, in which one call computes all of it: sums stay in registers from
the first chunk to the last, are rounded there by the same bits, and a bias is added there as well. Chunks are added in
another order, so that last bits differ before they are rounded. Half weights are read as they are, without a copy in
float32.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from openipu.numerics import CHUNKS, Overflow
from openipu.run import thresholds
from openipu.run.drafts.aliasing import find_owner
from openipu.run.drafts.ownership import gives_fresh_memory
from openipu.run.drafts.rules import Match, Rule, Search, Writer, matched
from openipu.run.kernels import OperandError, Run, address_of, address_of_matrix, address_or_none
from openipu.run.kernels.catalog import HalfProductArguments
from openipu.run.memory.host_memory import borrow_scratch
from openipu.run.rewrites.half.conversions import converts_to, is_half, set_format
from openipu.run.rewrites.half.rounding import round_half
from openipu.run.rewrites.half.stochastic_rounding import OVERFLOWS, round_in_place, round_stochastically, round_wide

aten = torch.ops.aten

_LANES, _STRIP = 16, 32  # rows and columns that lie together in its scratch, at most

_round_half = round_half._op
_STOCHASTIC = (round_in_place, round_wide, round_stochastically)


def has_chunks(graph: fx.Graph) -> bool:
    """Whether there are products in chunks of their inputs, which the kernel might compute."""
    return any(_read_part(node) is not None for node in graph.find_nodes(op="call_function", target=aten.mm.default))


@gives_fresh_memory
def multiply_in_half(
    left: torch.Tensor,
    right: torch.Tensor,
    addend: torch.Tensor | None,
    chunk: int,
    seed: torch.Tensor | None,
    samples: tuple[int, int, int],
    overflow: str,
    dtype: torch.dtype,
    run: Run,
) -> torch.Tensor:
    """A product whose sums are rounded to half behind each chunk of inputs; to nearest, where there is no seed."""
    (height, depth), width = left.shape, right.shape[1]
    result = torch.empty(height, width, dtype=dtype)
    if not height or not width:
        return result
    row = None if addend is None else addend.contiguous()
    threads = torch.get_num_threads()
    strips = -(-width // _STRIP)
    columns = _STRIP * min(
        strips, max(thresholds.HALF_BLOCK_ELEMENTS // max(depth, 1), thresholds.HALF_BLOCK_COLUMNS) // _STRIP
    )
    scratch = borrow_scratch("half products", threads * depth * (_LANES + columns))
    try:
        if not 0 < depth <= CHUNKS * chunk:
            raise OperandError(f"{depth} inputs in chunks of {chunk}")
        left_address, left_row, left_input, left_half = address_of_matrix(left, height, depth)
        right_address, right_input, right_column, right_half = address_of_matrix(right, depth, width)
        arguments = HalfProductArguments(
            left=left_address,
            right=right_address,
            addend=address_or_none(row, width),
            result=address_of(result, height * width, dtype),
            seed=address_or_none(seed, 1, torch.int32),
            scratch=address_of(scratch, scratch.numel()),
            left_input_stride=left_input,
            left_row_stride=left_row,
            right_input_stride=right_input,
            right_column_stride=right_column,
            depth=depth,
            height=height,
            width=width,
            chunk=chunk,
            first_sample=samples[0],
            last_sample=samples[1],
            addend_sample=samples[2],
            strip_columns=columns,
            left_half=left_half,
            right_half=right_half,
            result_half=dtype is torch.float16,
            overflow=OVERFLOWS[overflow],
            threads=threads,
        )
    except OperandError:
        return _multiply_plainly(left, right, row, chunk, seed, samples, overflow, dtype)
    run(arguments)
    return result


def _multiply_plainly(
    left: torch.Tensor,
    right: torch.Tensor,
    addend: torch.Tensor | None,
    chunk: int,
    seed: torch.Tensor | None,
    samples: tuple[int, int, int],
    overflow: str,
    dtype: torch.dtype,
) -> torch.Tensor:
    """The same by operators."""

    def round_sum(total: torch.Tensor, sample: int) -> torch.Tensor:
        if seed is None:
            rounded: torch.Tensor = _round_half(total, None, overflow)
            return rounded.float()
        return round_wide(total, seed, sample, total.shape, overflow)

    left, right = left.float(), right.float()
    parts = list(zip(torch.split(left, chunk, 1), torch.split(right, chunk, 0), strict=True))
    total = torch.zeros(left.shape[0], right.shape[1], dtype=torch.float32)
    for place, (some, others) in enumerate(parts):
        total = round_sum(total + some @ others, samples[1] if place == len(parts) - 1 else samples[0] + place)
    if addend is not None:
        total = round_sum(total + addend, samples[2])
    return total.to(dtype)


def make_rules(run: Run, *, updates: bool = False) -> tuple[Rule, ...]:
    """Let one call compute each product whose sums are rounded on their way.

    `updates`: weights change while the draft runs, so that a copy of one is not what it was copied from.
    """

    def join(match: Match, writer: Writer) -> fx.Node:
        chain: _Chain = match["chain"]
        first = chain.roundings[0]
        dtype = torch.float32 if match["readers"] else match.root.meta["val"].dtype
        with writer.before(chain.end):
            operands = [_read_half(writer, value, updates) for value in (chain.left, chain.right)]
            settings = (chain.addend, chain.chunk, first.seed, chain.list_samples(), first.overflow, dtype, run)
            joined = set_format(writer.call(multiply_in_half, *operands, *settings), dtype)
        for reader in match["readers"]:
            writer.replace(reader, joined)
        return joined

    return (Rule("product with half partials", Search((aten.mm.default,), _find), join, shared=frozenset({"readers"})),)


def _find(node: fx.Node) -> Match | None:
    """A product in chunks. Where all who read its rounded sum convert that, they read it in float32."""
    chain = _Chain.find(node)
    if chain is None:
        return None
    result = chain.roundings[-1].result
    is_wide = bool(result.users) and is_half(result) and all(converts_to(user, torch.float32) for user in result.users)
    readers = list(result.users) if is_wide else []
    inside = [node]  # one after the other, each read by the next alone
    while next(iter(inside[-1].users)) is not result:
        inside += inside[-1].users
    return matched(result, *inside, *readers, chain=chain, readers=readers)


@dataclass(frozen=True)
class _Rounding:
    """One that reads a sum: where its result is, and how it rounds."""

    result: fx.Node
    seed: fx.Node | None
    sample: int
    overflow: str

    @classmethod
    def find(cls, total: fx.Node, *, wide: bool) -> _Rounding | None:
        """That of the only reader; `wide`: in float32 again."""
        if len(total.users) != 1:
            return None
        (node,) = total.users
        arguments: tuple[Any, ...] = node.args
        seed, sample, overflow = None, 0, Overflow.INFINITY.value
        if node.target in _STOCHASTIC:
            seed, sample, overflow = arguments[1], arguments[2], arguments[4]
        elif node.target is round_half and arguments[1] is None:
            overflow = arguments[2]
        elif not converts_to(node, torch.float16):
            return None
        if node.meta["val"].dtype is torch.float16 and wide:
            if len(node.users) != 1:
                return None
            (node,) = node.users
            if not converts_to(node, torch.float32):
                return None
        return cls(node, seed, sample, overflow)


@dataclass(frozen=True)
class _Chain:
    """A product in chunks: its operands, its roundings, and what is added at the end."""

    left: fx.Node
    right: fx.Node
    chunk: int
    end: fx.Node  # the last that reads both operands
    roundings: tuple[_Rounding, ...]
    addend: fx.Node | None

    @classmethod
    def find(cls, start: fx.Node) -> _Chain | None:
        """The one that starts with this product."""
        operands = _read_part(start)
        if operands is None or operands[2] != 0:
            return None
        cut_left, cut_right, _ = operands
        left, chunk, right = cut_left.args[0], cut_left.args[1], cut_right.args[0]
        count = -(-left.meta["val"].shape[-1] // chunk)
        total, roundings = start, []
        for part in range(1, count):
            rounding = _Rounding.find(total, wide=True)
            added = _find_sum(rounding.result) if rounding is not None else None
            if rounding is None or added is None or _read_part(added[1]) != (cut_left, cut_right, part):
                return None
            if len(added[1].users) != 1:
                return None
            roundings.append(rounding)
            total = added[0]
        last = _Rounding.find(total, wide=False)
        if last is None or not 1 < count <= CHUNKS:
            return None
        plain = cls(left, right, chunk, total, (*roundings, last), None)
        chains = [plain._with_addend(), plain]
        return next((chain for chain in chains if chain is not None and chain._suits()), None)

    def _with_addend(self) -> _Chain | None:
        """The same chain, with a row that is added to each row."""
        total = self.roundings[-1].result
        if total.meta["val"].dtype is not torch.float32:
            (total,) = total.users if len(total.users) == 1 else (total,)
            if not converts_to(total, torch.float32):
                return None
        added = _find_sum(total)
        if added is None or added[1] > self.end:
            return None
        value, width = added[1].meta["val"], self.right.meta["val"].shape[1]
        last = _Rounding.find(added[0], wide=False)
        if last is None or tuple(value.shape) != (width,) or value.dtype is not torch.float32:
            return None
        return _Chain(self.left, self.right, self.chunk, self.end, (*self.roundings, last), added[1])

    def list_samples(self) -> tuple[int, int, int]:
        samples = [rounding.sample for rounding in self.roundings]
        return (samples[0], samples[-2], samples[-1]) if self.addend is not None else (samples[0], samples[-1], 0)

    def _suits(self) -> bool:
        """Whether all sums are rounded alike, by samples that follow one another, and both operands can be read."""
        first = self.roundings[0]
        middle = self.roundings[: -1 if self.addend is None else -2]
        return (
            all((each.seed, each.overflow) == (first.seed, first.overflow) for each in self.roundings)
            and all(each.sample == first.sample + place * (first.seed is not None) for place, each in enumerate(middle))
            and (first.seed is None or first.seed.meta["val"].numel() == 1)
            and all(value.meta["val"].dtype is torch.float32 for value in (self.left, self.right))
            and all(
                tuple(each.result.meta["val"].shape) == tuple(self.end.meta["val"].shape) for each in self.roundings
            )
        )


def _read_part(node: fx.Node) -> tuple[Any, Any, Any] | None:
    """Both operands in chunks, and which one of them is multiplied here."""
    if node.target is not aten.mm.default or any(
        value.target is not operator.getitem for value in node.all_input_nodes
    ):
        return None
    parts: tuple[Any, ...] = node.args
    (left, place), (right, other) = (part.args for part in parts)
    if not left.target is right.target is aten.split.Tensor or place != other:
        return None
    (_, size, *first), (_, chunk, *second) = left.args, right.args
    return (left, right, place) if (size, first, second) == (chunk, [-1], [-2]) else None


def _find_sum(rounded: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """The sum that alone reads a rounded one, and what it adds to that."""
    if len(rounded.users) != 1:
        return None
    (node,) = rounded.users
    if node.target is not aten.add.Tensor or node.kwargs or node.args[0] is not rounded:
        return None
    added = node.args[1]
    return (node, added) if isinstance(added, fx.Node) and added is not rounded else None


def _read_half(writer: Writer, value: fx.Node, updates: bool) -> fx.Node:
    """The half value of which a matrix is a copy in float32, turned as it is; or the matrix itself."""
    turned = value.target is aten.t.default
    copy: Any = value.args[0] if turned else value
    if not isinstance(copy, fx.Node) or not converts_to(copy, torch.float32):
        return value
    source = copy.args[0]
    if not isinstance(source, fx.Node) or source.meta["val"].dtype is not torch.float16:
        return value
    if updates and find_owner(source).op == "placeholder":
        return value
    if not turned:
        return source
    return set_format(writer.call(aten.t.default, source, like=value), torch.float16)
