"""Random numbers as functions of a seed.

In: a draft with operators that sample from a generator. Out: the same draft with `openipu::random_bits` instead, a pure
function of one more placeholder, the micro-batch's seed. The bits of an element depend on the seed, the number of the
sample and the element's place in its tensor alone: they are the same whether micro-batches run one
after the other or batched. Dropout, `rand` and `uniform` are sampled so; rarer distributions keep PyTorch's generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import fx

from openipu.graph import GraphInput, InputKind
from openipu.graph.library import define_operator
from openipu.run import thresholds
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import Match, Rule, Search, Writer, apply_rules, matched

aten = torch.ops.aten

SEED_NAME = "seed"

_Numbers = np.ndarray[Any, np.dtype[np.int32]]

# Two rounds of shifting, adding without carry and multiplying spread every bit of a 32-bit number over the high ones.
ROUNDS = ((16, 0xFFFF, 0x7FEB352D), (15, 0x1FFFF, 0x846CA68B - (1 << 32)))
# Odd numbers that keep samples, rows and columns apart.
SAMPLE_STEP, ROW_STEP, COLUMN_STEP = 0x2C1B3C6D, 0x297A2D39, 0x9E3779B1 - (1 << 32)


def compute_bits(seed: torch.Tensor, sample: int, shape: Sequence[int], first: int = 0, step: int = 1) -> torch.Tensor:
    """Random int32 numbers of a shape, best in their high bits; a vector of seeds gives a dimension in front. With
    `first` and `step`, they are some rows of a larger sample.

    This is what the bits are; `sample_bits` and kernels compute the same faster.
    """
    rows, columns = math.prod(shape[:-1]), shape[-1] if shape else 1
    key = _finish(_mix(seed + number_sample(sample)))
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


def number_sample(sample: int) -> int:
    """What the seed is counted on by for a sample."""
    return _wrap(sample * SAMPLE_STEP)


def _wrap(number: int) -> int:
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def sample_bits(
    seed: torch.Tensor, sample: int, shape: Sequence[int], places: torch.Tensor | None = None
) -> torch.Tensor:
    """What `compute_bits` gives, with as little overhead and memory traffic as may be; or the rows at some places."""
    batched = [] if seed.dim() == 0 else [seed.shape[0]]
    keys, steps = _list_keys(seed, sample, shape, places)
    if keys.size * steps.size <= thresholds.NUMPY_SAMPLE_ELEMENTS:
        small = _hash_small(keys[:, None] + steps, finish=False)
        return torch.from_numpy(small).view([*batched, *shape])
    bits = torch.from_numpy(keys).unsqueeze(-1) + torch.from_numpy(steps)
    for shift, mask, factor in ROUNDS:
        bits.bitwise_xor_(torch.bitwise_right_shift(bits, shift).bitwise_and_(mask)).mul_(factor)
    return bits.view([*batched, *shape])


def _list_keys(
    seed: torch.Tensor, sample: int, shape: Sequence[int], places: torch.Tensor | None
) -> tuple[_Numbers, _Numbers]:
    """A number for each row of a sample, of all seeds together, and one for each column: bits are their mixed sums."""
    keys = _hash_small(seed.reshape(-1, 1).numpy() + np.int32(number_sample(sample)), finish=True)
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


def _shape_random_bits(seed: torch.Tensor, sample: int, shape: Sequence[int]) -> torch.Tensor:
    return seed.new_empty((*seed.shape, *shape))


def _run_random_bits(seed: torch.Tensor, sample: int, shape: Sequence[int]) -> torch.Tensor:
    return sample_bits(seed, sample, shape)


random_bits = define_operator(
    "random_bits(Tensor seed, int sample, int[] shape) -> Tensor", meta=_shape_random_bits, cpu=_run_random_bits
)


def sample_rows(seed: torch.Tensor, sample: int, shape: Sequence[int], first: int, step: int) -> torch.Tensor:
    """Some rows of a larger sample, one after the other: the first of them, and how many rows the next is behind it."""
    places = torch.arange(math.prod(shape[:-1]), dtype=torch.int64) * step + first
    return sample_bits(seed, sample, shape, places)


def _shape_random_rows(seed: torch.Tensor, sample: int, shape: Sequence[int], first: int, step: int) -> torch.Tensor:
    return seed.new_empty((*seed.shape, *shape))


random_rows = define_operator(
    "random_rows(Tensor seed, int sample, int[] shape, int first, int step) -> Tensor",
    meta=_shape_random_rows,
    cpu=sample_rows,
)
RANDOM_BITS = frozenset({random_bits, random_rows})


def count_samples(graph: fx.Graph) -> int:
    """The number of the next sample, which no earlier one has had."""
    return max((int(str(node.args[1])) + 1 for node in graph.nodes if node.target in RANDOM_BITS), default=0)


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


def sample_from_seed(draft: Draft) -> None:
    """Let the common distributions of a draft depend on its seed instead of a generator."""
    numbers = count(count_samples(draft.graph))

    def sample(match: Match, writer: Writer) -> fx.Node:
        emit = _Emit(match, writer)
        shape = list(match.root.meta["val"].shape)
        return _DISTRIBUTIONS[match.root.target](emit, emit(random_bits, find_seed(draft), next(numbers), shape))

    apply_rules(draft.graph, (Rule("sample from the seed", Search(tuple(_DISTRIBUTIONS), _find), sample),))


def _find(node: fx.Node) -> Match | None:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or node.kwargs.get("generator") is not None:
        return None
    return matched(node)


@dataclass(frozen=True)
class _Emit:
    """Writes the operators that stand for one of a generator."""

    match: Match
    writer: Writer

    @property
    def node(self) -> fx.Node:
        return self.match.root

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.node.meta["val"].dtype
        return dtype

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        new = self.writer.call(target, *args, **kwargs)
        set_value(new, self.node.meta)
        return new


def _sample_dropout(emit: _Emit, bits: fx.Node) -> fx.Node:
    """One with a probability: the bits, as a whole number of 32 bits with sign, are below its quantile."""
    probability: Any = emit.node.args[1] if len(emit.node.args) > 1 else emit.node.kwargs.get("p", 0.5)
    quantile = round(float(probability) * (1 << 32)) - (1 << 31)
    if quantile >= 1 << 31:
        kept = emit(aten.ge.Scalar, bits, -(1 << 31))
    else:
        kept = emit(aten.lt.Scalar, bits, quantile)
    return emit(aten._to_copy.default, kept, dtype=emit.dtype)


def _sample_bernoulli(emit: _Emit, bits: fx.Node) -> fx.Node:
    kept = emit(aten.lt.Tensor, _scale(emit, bits, torch.float32), emit.node.args[0])
    return emit(aten._to_copy.default, kept, dtype=emit.dtype)


def _sample_unit(emit: _Emit, bits: fx.Node) -> fx.Node:
    return _scale(emit, bits, emit.dtype)


def _sample_between(emit: _Emit, bits: fx.Node) -> fx.Node:
    bounds = dict(zip(("from", "to"), emit.node.args[1:], strict=False)) | emit.node.kwargs
    low: Any = bounds.get("from", 0.0)
    high: Any = bounds.get("to", 1.0)
    wide = emit(aten.mul.Tensor, _scale(emit, bits, emit.dtype), float(high - low))
    return emit(aten.add.Tensor, wide, float(low))


def _scale(emit: _Emit, bits: fx.Node, dtype: torch.dtype) -> fx.Node:
    """Numbers of [0, 1): as many high bits as the format holds exactly."""
    kept = min(24, -round(math.log2(torch.finfo(dtype).eps)) + 1)
    high = emit(aten.bitwise_right_shift.Tensor_Scalar, bits, 32 - kept)
    whole = emit(aten.bitwise_and.Scalar, high, (1 << kept) - 1)
    single = emit(aten._to_copy.default, whole, dtype=torch.float32)
    unit = emit(aten.mul.Tensor, single, 2.0**-kept)
    return unit if dtype is torch.float32 else emit(aten._to_copy.default, unit, dtype=dtype)


_DISTRIBUTIONS: dict[Any, Callable[[_Emit, fx.Node], fx.Node]] = {
    aten.bernoulli.p: _sample_dropout,
    aten.bernoulli.default: _sample_bernoulli,
    aten.rand.default: _sample_unit,
    aten.rand_like.default: _sample_unit,
    aten.uniform.default: _sample_between,
}


def set_value(node: fx.Node, meta: dict[str, Any]) -> None:
    """Give a new node the meta data of another, with the shape and format of its own result."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda source: source.meta["val"])
    if "device" in kwargs:
        kwargs = {**kwargs, "device": "meta"}
    node.meta = {**meta, "val": node.target(*args, **kwargs)}  # type: ignore[operator]
