"""Random numbers as functions of a seed.

In: a draft with operators that draw from a generator. Out: the same draft with `openipu::random_bits` instead, a pure
function of one more placeholder, the micro-batch's seed. The bits of an element depend on the seed, the number of the
draw and the element's place in its tensor alone: they are the same whether micro-batches run one
after the other or batched. Dropout, `rand` and `uniform` are drawn so; rarer distributions keep PyTorch's generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import fx

from openipu.graph import GraphInput, InputKind
from openipu.graph.library import define_operator
from openipu.run import thresholds
from openipu.run.drafts.draft import Draft

aten = torch.ops.aten

SEED_NAME = "seed"

_Numbers = np.ndarray[Any, np.dtype[np.int32]]

# Two rounds of shifting, adding without carry and multiplying spread every bit of a 32-bit number over the high ones.
ROUNDS = ((16, 0xFFFF, 0x7FEB352D), (15, 0x1FFFF, 0x846CA68B - (1 << 32)))
# Odd numbers that keep draws, rows and columns apart.
DRAW_STEP, ROW_STEP, COLUMN_STEP = 0x2C1B3C6D, 0x297A2D39, 0x9E3779B1 - (1 << 32)


def compute_bits(seed: torch.Tensor, draw: int, shape: Sequence[int], first: int = 0, step: int = 1) -> torch.Tensor:
    """Random int32 numbers of a shape, best in their high bits; a vector of seeds gives a dimension in front. With
    `first` and `step`, they are some rows of a larger draw.

    This is what the bits are; `draw_bits` and kernels compute the same faster.
    """
    rows, columns = math.prod(shape[:-1]), shape[-1] if shape else 1
    key = _finish(_mix(seed + number_draw(draw)))
    seeds = list(seed.shape)
    key = key.view([*seeds, 1])
    places = _list_steps(rows, _wrap(step * ROW_STEP))
    keys = _finish(_mix(key + places + _wrap(first * ROW_STEP)))
    keys = keys.view([*seeds, *shape[:-1], 1])
    bits = _mix(keys + _list_steps(columns, COLUMN_STEP))
    return bits if shape else bits.squeeze(-1)


def _mix(value: torch.Tensor) -> torch.Tensor:
    for shift, mask, factor in ROUNDS:
        value = (value ^ (value >> shift & mask)) * factor
    return value


def _finish(value: torch.Tensor) -> torch.Tensor:
    """Bring the high bits down, where a number is to be counted on from."""
    return value ^ (value >> 16 & 0xFFFF)


def _list_steps(count: int, step: int) -> torch.Tensor:
    return torch.arange(count, dtype=torch.int32) * step


def number_draw(draw: int) -> int:
    """What the seed is counted on by for a draw."""
    return _wrap(draw * DRAW_STEP)


def _wrap(number: int) -> int:
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def draw_bits(seed: torch.Tensor, draw: int, shape: Sequence[int], places: torch.Tensor | None = None) -> torch.Tensor:
    """What `compute_bits` gives, with as little overhead and memory traffic as may be; or the rows at some places."""
    batched = [] if seed.dim() == 0 else [seed.shape[0]]
    keys, steps = _list_keys(seed, draw, shape, places)
    if keys.size * steps.size <= thresholds.NUMPY_DRAW_ELEMENTS:
        small = _hash_small(keys[:, None] + steps, finish=False)
        return torch.from_numpy(small).view([*batched, *shape])
    bits = torch.from_numpy(keys).unsqueeze(-1) + torch.from_numpy(steps)
    for shift, mask, factor in ROUNDS:
        bits.bitwise_xor_(torch.bitwise_right_shift(bits, shift).bitwise_and_(mask)).mul_(factor)
    return bits.view([*batched, *shape])


def _list_keys(
    seed: torch.Tensor, draw: int, shape: Sequence[int], places: torch.Tensor | None
) -> tuple[_Numbers, _Numbers]:
    """A number for each row of a draw, of all seeds together, and one for each column: bits are their mixed sums."""
    keys = _hash_small(seed.reshape(-1, 1).numpy() + np.int32(number_draw(draw)), finish=True)
    if places is None:
        rows = _keep_steps(math.prod(shape[:-1]), ROW_STEP)
    else:
        rows = places.to(torch.int32).numpy() * np.int32(ROW_STEP)
    keys = _hash_small(keys + rows, finish=True)
    return keys.reshape(-1), _keep_steps(shape[-1] if shape else 1, COLUMN_STEP)


def _hash_small(value: _Numbers, finish: bool) -> _Numbers:
    for shift, mask, factor in ROUNDS:
        value ^= (value >> shift) & mask
        value *= np.int32(factor)
    if finish:
        value ^= (value >> 16) & 0xFFFF
    return value


@lru_cache(maxsize=256)
def _keep_steps(count: int, step: int) -> _Numbers:
    return np.arange(count, dtype=np.int32) * np.int32(step)


def _shape_random_bits(seed: torch.Tensor, draw: int, shape: Sequence[int]) -> torch.Tensor:
    return seed.new_empty((*seed.shape, *shape))


def _run_random_bits(seed: torch.Tensor, draw: int, shape: Sequence[int]) -> torch.Tensor:
    return draw_bits(seed, draw, shape)


random_bits = define_operator(
    "random_bits(Tensor seed, int draw, int[] shape) -> Tensor", meta=_shape_random_bits, cpu=_run_random_bits
)


def draw_rows(seed: torch.Tensor, draw: int, shape: Sequence[int], first: int, step: int) -> torch.Tensor:
    """Some rows of a larger draw, one after the other: the first of them, and how many rows the next is behind it."""
    places = torch.arange(math.prod(shape[:-1]), dtype=torch.int64) * step + first
    return draw_bits(seed, draw, shape, places)


def _shape_random_rows(seed: torch.Tensor, draw: int, shape: Sequence[int], first: int, step: int) -> torch.Tensor:
    return seed.new_empty((*seed.shape, *shape))


random_rows = define_operator(
    "random_rows(Tensor seed, int draw, int[] shape, int first, int step) -> Tensor",
    meta=_shape_random_rows,
    cpu=draw_rows,
)
DRAWS = frozenset({random_bits, random_rows})


def count_draws(graph: fx.Graph) -> int:
    """The number of the next draw, which no earlier one has had."""
    return max((int(str(node.args[1])) + 1 for node in graph.nodes if node.target in DRAWS), default=0)


class _Drawer:
    """Numbers the draws of one draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._draws = count_draws(draft.graph)

    def draw(self, shape: Sequence[int], note: dict[str, Any]) -> fx.Node:
        """A node with the bits of one draw, at the graph's insertion point."""
        arguments = (find_seed(self._draft), self._draws, list(shape))
        self._draws += 1
        return _emit(self._draft.graph, random_bits, arguments, note)


def find_seed(draft: Draft) -> fx.Node:
    """The placeholder of the micro-batch's seed, made when it is first asked for."""
    for entry in draft.inputs:
        if entry.kind is InputKind.SEED:
            return draft.placeholder(entry.node)
    first = next(iter(draft.graph.nodes))
    with draft.graph.inserting_before(first):
        node = draft.graph.placeholder(SEED_NAME)
    node.meta = {"val": torch.empty((), dtype=torch.int32, device="meta")}
    draft.inputs = (GraphInput(node.name, InputKind.SEED, SEED_NAME, (), torch.int32), *draft.inputs)
    return node


def seed_draws(draft: Draft) -> None:
    """Let the common draws of a draft depend on its seed instead of a generator."""
    drawer: _Drawer | None = None
    for node in list(draft.graph.nodes):
        rule = _RULES.get(node.target) if node.op == "call_function" else None
        value = node.meta.get("val")
        if rule is None or not isinstance(value, torch.Tensor) or not value.is_floating_point():
            continue
        if node.kwargs.get("generator") is not None:
            continue
        drawer = drawer or _Drawer(draft)
        with draft.graph.inserting_before(node):
            new = rule(draft.graph, node, drawer.draw(tuple(value.shape), node.meta))
        node.replace_all_uses_with(new)
        draft.graph.erase_node(node)


def _draw_dropout(graph: fx.Graph, node: fx.Node, bits: fx.Node) -> fx.Node:
    probability = node.args[1] if len(node.args) > 1 else node.kwargs.get("p", 0.5)
    assert isinstance(probability, int | float)
    kept = _compare(graph, node, bits, float(probability))
    return _emit(graph, aten._to_copy.default, (kept,), node.meta, dtype=node.meta["val"].dtype)


def _compare(graph: fx.Graph, node: fx.Node, bits: fx.Node, probability: float) -> fx.Node:
    """True with a probability: the bits, as a whole number of 32 bits with sign, are below its quantile."""
    quantile = round(probability * (1 << 32)) - (1 << 31)
    if quantile >= 1 << 31:
        return _emit(graph, aten.ge.Scalar, (bits, -(1 << 31)), node.meta)
    return _emit(graph, aten.lt.Scalar, (bits, quantile), node.meta)


def _draw_bernoulli(graph: fx.Graph, node: fx.Node, bits: fx.Node) -> fx.Node:
    uniform = _scale(graph, node, bits, torch.float32)
    kept = _emit(graph, aten.lt.Tensor, (uniform, node.args[0]), node.meta)
    return _emit(graph, aten._to_copy.default, (kept,), node.meta, dtype=node.meta["val"].dtype)


def _draw_uniform(graph: fx.Graph, node: fx.Node, bits: fx.Node) -> fx.Node:
    return _scale(graph, node, bits, node.meta["val"].dtype)


def _draw_between(graph: fx.Graph, node: fx.Node, bits: fx.Node) -> fx.Node:
    low = node.args[1] if len(node.args) > 1 else node.kwargs.get("from", 0.0)
    high = node.args[2] if len(node.args) > 2 else node.kwargs.get("to", 1.0)
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    unit = _scale(graph, node, bits, node.meta["val"].dtype)
    wide = _emit(graph, aten.mul.Tensor, (unit, float(high - low)), node.meta)
    return _emit(graph, aten.add.Tensor, (wide, float(low)), node.meta)


def _scale(graph: fx.Graph, node: fx.Node, bits: fx.Node, dtype: torch.dtype) -> fx.Node:
    """Numbers of [0, 1): as many high bits as the format holds exactly."""
    kept = min(24, -round(math.log2(torch.finfo(dtype).eps)) + 1)
    high = _emit(graph, aten.bitwise_right_shift.Tensor_Scalar, (bits, 32 - kept), node.meta)
    whole = _emit(graph, aten.bitwise_and.Scalar, (high, (1 << kept) - 1), node.meta)
    single = _emit(graph, aten._to_copy.default, (whole,), node.meta, dtype=torch.float32)
    unit = _emit(graph, aten.mul.Tensor, (single, 2.0**-kept), node.meta)
    return unit if dtype is torch.float32 else _emit(graph, aten._to_copy.default, (unit,), node.meta, dtype=dtype)


_Rule = Callable[[fx.Graph, fx.Node, fx.Node], fx.Node]

_RULES: dict[Any, _Rule] = {
    aten.bernoulli.p: _draw_dropout,
    aten.bernoulli.default: _draw_bernoulli,
    aten.rand.default: _draw_uniform,
    aten.rand_like.default: _draw_uniform,
    aten.uniform.default: _draw_between,
}


def _emit(graph: fx.Graph, target: Any, args: tuple[Any, ...], meta: dict[str, Any], **kwargs: Any) -> fx.Node:
    node = graph.call_function(target, args, kwargs)
    set_value(node, meta)
    return node


def set_value(node: fx.Node, meta: dict[str, Any]) -> None:
    """Give a new node the meta data of another, with the shape and format of its own result."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda source: source.meta["val"])
    if "device" in kwargs:
        kwargs = {**kwargs, "device": "meta"}
    node.meta = {**meta, "val": node.target(*args, **kwargs)}  # type: ignore[operator]
