"""Half products with half partials by native code.

In: a draft in which a product is computed in chunks of its inputs, and the running sum is rounded
behind each (`partials.py`). Out: the same draft, in which one call computes all of it, where native code has been
installed: sums stay in registers from the first chunk to the last, are rounded there by the same bits, and a bias is
added there as well. Chunks are added in another order, so that last bits differ before they are rounded. Half weights
are read as they are, without a copy in float32.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from openipu.numerics import CHUNKS, Overflow
from openipu.run.drafts.aliasing import find_owner, is_pure
from openipu.run.drafts.draft import Draft
from openipu.run.half.rounded_draws import OVERFLOWS, round_by_chance, round_in_place, round_wide
from openipu.run.half.rounding import round_half
from openipu.run.half.widen_products import converts_to
from openipu.run.memory.host_memory import borrow_scratch

aten = torch.ops.aten

# left: memory, steps between inputs and between rows, whether it is half; right: the same, with columns; addend,
# result, whether it is half; inputs, rows, columns, inputs of a chunk; seed, draws of all chunks but the last, of that,
# of the sum with the addend; what becomes of too large numbers; scratch, columns of a block, threads
Kernel = Callable[..., None]

_LANES, _STRIP = 16, 32  # rows and columns that lie together in its scratch, at most
_BLOCK = 1 << 20  # numbers of columns that stay in the cache, the last one before memory
_FEWEST_COLUMNS = 64  # of a block: else rows are gathered again too often

_BY_CHANCE = (round_in_place, round_wide, round_by_chance)
_installed: list[Kernel] = []  # one, or none


def has_half_products() -> bool:
    """Whether native code is installed."""
    return bool(_installed)


def install_half_products(kernel: Kernel | None) -> None:
    """Use native code in graphs that are generated from here on, or no longer."""
    _installed[:] = [] if kernel is None else [kernel]


def has_chunks(graph: fx.Graph) -> bool:
    """Whether there are products in chunks of their inputs, which native code might compute."""
    return any(_read_part(node) is not None for node in graph.find_nodes(op="call_function", target=aten.mm.default))


def multiply_in_half(
    left: torch.Tensor,
    right: torch.Tensor,
    addend: torch.Tensor | None,
    chunk: int,
    seed: torch.Tensor | None,
    draws: tuple[int, int, int],
    overflow: str,
    dtype: torch.dtype,
) -> torch.Tensor:
    """A product whose sums are rounded to half behind each chunk of inputs; to nearest, where there is no seed."""
    (height, depth), width = left.shape, right.shape[1]
    result = torch.empty(height, width, dtype=dtype)
    if not height or not width:
        return result
    row = None if addend is None else addend.contiguous()
    threads = torch.get_num_threads()
    strips = -(-width // _STRIP)
    broad = _STRIP * min(strips, max(_BLOCK // depth, _FEWEST_COLUMNS) // _STRIP)
    scratch = borrow_scratch("half products", threads * depth * (_LANES + broad))
    _installed[0](
        *(left.data_ptr(), left.stride(1), left.stride(0), left.dtype is torch.float16),
        *(right.data_ptr(), right.stride(0), right.stride(1), right.dtype is torch.float16),
        *(None if row is None else row.data_ptr(), result.data_ptr(), dtype is torch.float16),
        *(depth, height, width, chunk, None if seed is None else seed.data_ptr(), *draws, OVERFLOWS[overflow]),
        *(scratch.data_ptr(), broad, threads),
    )
    return result


def join_half_products(draft: Draft, *, updates: bool = False) -> None:
    """Let one call compute each product whose sums are rounded on their way.

    `updates`: weights change while the draft runs, so that a copy of one is not what it was copied from.
    """
    places = {node: place for place, node in enumerate(draft.graph.nodes)}
    for node in list(draft.graph.nodes):
        chain = _Chain.find(node, places)
        if chain is not None:
            places[_join(draft.graph, chain, updates)] = places[chain.end]
    for node in reversed(list(draft.graph.nodes)):
        if not node.users and (is_pure(node) or node.target in _BY_CHANCE):
            draft.graph.erase_node(node)


@dataclass(frozen=True)
class _Rounding:
    """One that reads a sum: where its result is, and how it rounds."""

    result: fx.Node
    seed: fx.Node | None
    draw: int
    overflow: str

    @classmethod
    def find(cls, total: fx.Node, *, wide: bool) -> _Rounding | None:
        """That of the only reader; `wide`: in float32 again."""
        if len(total.users) != 1:
            return None
        (node,) = total.users
        arguments: tuple[Any, ...] = node.args
        seed, draw, overflow = None, 0, Overflow.INFINITY.value
        if node.target in _BY_CHANCE:
            seed, draw, overflow = arguments[1], arguments[2], arguments[4]
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
        return cls(node, seed, draw, overflow)


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
    def find(cls, start: fx.Node, places: dict[fx.Node, int]) -> _Chain | None:
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
        chains = [plain._with_addend(places), plain]
        return next((chain for chain in chains if chain is not None and chain._suits()), None)

    def _with_addend(self, places: dict[fx.Node, int]) -> _Chain | None:
        """The same chain, with a row that is added to each row."""
        total = self.roundings[-1].result
        if total.meta["val"].dtype is not torch.float32:
            (total,) = total.users if len(total.users) == 1 else (total,)
            if not converts_to(total, torch.float32):
                return None
        added = _find_sum(total)
        if added is None or places[added[1]] > places[self.end]:
            return None
        value, width = added[1].meta["val"], self.right.meta["val"].shape[1]
        last = _Rounding.find(added[0], wide=False)
        if last is None or tuple(value.shape) != (width,) or value.dtype is not torch.float32:
            return None
        return _Chain(self.left, self.right, self.chunk, self.end, (*self.roundings, last), added[1])

    def list_draws(self) -> tuple[int, int, int]:
        draws = [rounding.draw for rounding in self.roundings]
        return (draws[0], draws[-2], draws[-1]) if self.addend is not None else (draws[0], draws[-1], 0)

    def _suits(self) -> bool:
        """Whether all sums are rounded alike, by draws that follow one another, and both operands can be read."""
        first = self.roundings[0]
        middle = self.roundings[: -1 if self.addend is None else -2]
        return (
            all((each.seed, each.overflow) == (first.seed, first.overflow) for each in self.roundings)
            and all(each.draw == first.draw + place * (first.seed is not None) for place, each in enumerate(middle))
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


def _join(graph: fx.Graph, chain: _Chain, updates: bool) -> fx.Node:
    result, first = chain.roundings[-1].result, chain.roundings[0]
    readers = [result]
    dtype = result.meta["val"].dtype
    if dtype is torch.float16 and result.users and all(converts_to(user, torch.float32) for user in result.users):
        readers, dtype = list(result.users), torch.float32
    with graph.inserting_before(chain.end):
        operands = [_read_half(graph, value, updates) for value in (chain.left, chain.right)]
        settings = (chain.addend, chain.chunk, first.seed, chain.list_draws(), first.overflow, dtype)
        joined = graph.call_function(multiply_in_half, (*operands, *settings))
    joined.meta = {**result.meta, "val": result.meta["val"].to(dtype)}
    for reader in readers:
        reader.replace_all_uses_with(joined)
    return joined


def _read_half(graph: fx.Graph, value: fx.Node, updates: bool) -> fx.Node:
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
    half = graph.call_function(aten.t.default, (source,))
    half.meta = {**value.meta, "val": source.meta["val"].t()}
    return half
