"""Ops that move elements and compute none, and those that ask for a shape, which is known at compilation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from openipu.capture import is_on_ipu, lift, on_host
from openipu.translate.kit.padding import pad_edges
from openipu.translate.rules import Results, rule
from openipu.translate.site import Site

Tensor = torch.Tensor


@rule("Const")
def constant(site: Site) -> Tensor:
    value = site.get("value")
    if not isinstance(value, torch.Tensor):
        site.fail("is a constant that no IPU has, such as a text")
    return value


@rule("Shape", "VariableShape")
def shape(site: Site) -> Tensor:
    return _tell(list(site.input(0).shape), site.get("out_type", torch.int32))


@rule("ShapeN")
def shapes(site: Site) -> list[Tensor]:
    kind = site.get("out_type", torch.int32)
    return [_tell(list(site.input(place).shape), kind) for place in range(site.count)]


@rule("Size")
def size(site: Site) -> Tensor:
    return _tell(site.input(0).numel(), site.get("out_type", torch.int32))


@rule("Rank")
def rank(site: Site) -> Tensor:
    return _tell(site.input(0).dim(), torch.int32)


def _tell(value: int | list[int], dtype: torch.dtype) -> Tensor:
    with on_host():
        return torch.tensor(value, dtype=dtype)


@rule("BroadcastGradientArgs", static=(0, 1))
def find_broadcast(site: Site) -> list[Tensor]:
    """For both operands of an op: over which dimensions of the result its gradient is summed."""
    first, second = site.numbers(0, "shape"), site.numbers(1, "shape")
    wide = max(len(first), len(second))
    padded = [[1] * (wide - len(sizes)) + sizes for sizes in (first, second)]
    found: list[list[int]] = [[], []]
    for place, (one, other) in enumerate(zip(*padded, strict=True)):
        for which, own in enumerate((one, other)):
            if own == 1 and first != second:
                found[which].append(place)
    kind = site.value(0, "shape").dtype
    return [_tell(places, kind) for places in found]


@rule("BroadcastArgs", static=(0, 1))
def broadcast_shapes(site: Site) -> Tensor:
    sizes: torch.Size = torch.broadcast_shapes(  # type: ignore[no-untyped-call]
        site.numbers(0, "shape"), site.numbers(1, "shape")
    )
    return _tell(list(sizes), site.value(0, "shape").dtype)


@rule("ConcatOffset", static=(0,))
def find_offsets(site: Site) -> list[Tensor]:
    axis = site.numbers(0, "axis")[0]
    found, start = [], 0
    for place in range(1, site.count):
        sizes = site.numbers(place, "shape")
        at = axis % len(sizes)
        found.append(_tell([start if index == at else 0 for index in range(len(sizes))], torch.int32))
        start += sizes[at]
    return found


@rule("InvertPermutation")
def invert_permutation(site: Site) -> Tensor:
    order = site.input(0)
    return torch.argsort(order).to(order.dtype)


@rule("Reshape", static=(1,))
def reshape(site: Site) -> Tensor:
    x, wanted = site.input(0), site.numbers(1, "shape")
    if x.numel() == 0 and -1 in wanted:
        known = math.prod(number for number in wanted if number != -1)
        wanted = [0 if number == -1 and known == 0 else number for number in wanted]
    return x.reshape(wanted)


@rule("Squeeze")
def squeeze(site: Site) -> Tensor:
    x, axes = site.input(0), site.get("squeeze_dims", None) or site.get("axis", None)
    gone = {axis % x.dim() for axis in axes} if axes else {i for i, n in enumerate(x.shape) if n == 1}
    return x.reshape([number for place, number in enumerate(x.shape) if place not in gone])


@rule("ExpandDims", static=(1,))
def expand_dims(site: Site) -> Tensor:
    return site.input(0).unsqueeze(site.numbers(1, "dimension")[0])


@rule("Transpose", "ConjugateTranspose", static=(1,))
def transpose(site: Site) -> Tensor:
    return site.input(0).permute(site.numbers(1, "order"))


@rule("Fill", static=(0,))
def fill(site: Site) -> Tensor:
    sizes = site.numbers(0, "shape")
    site.check_size(sizes)
    known = site.find_value(1)
    if known is not None:
        return torch.full(sizes, known.reshape(()).item(), dtype=known.dtype)
    return site.input(1).expand(sizes).clone()


@rule("Empty", static=(0,))
def empty(site: Site) -> Tensor:
    sizes = site.numbers(0, "shape")
    site.check_size(sizes)
    return torch.zeros(sizes, dtype=site.get("dtype"))


@rule("Range", static=(0, 1, 2))
def arange(site: Site) -> Tensor:
    start, limit, delta = (site.value(place, "range").reshape(()) for place in range(3))
    count = max(0, math.ceil((limit.item() - start.item()) / delta.item()))
    site.check_size([count])
    with on_host():
        return (start + torch.arange(count, dtype=start.dtype) * delta).to(start.dtype)


@rule("LinSpace", static=(0, 1, 2))
def linspace(site: Site) -> Tensor:
    first, last, count = (site.value(place, "range").reshape(()).item() for place in range(3))
    site.check_size([int(count)])
    return torch.linspace(first, last, int(count), dtype=site.value(0, "range").dtype)


@rule("Pack")
def pack(site: Site) -> Tensor:
    values = _align([site.inputs[place] for place in range(site.count)], site)
    return torch.stack(values, site.get("axis", 0))


@rule("Unpack")
def unpack(site: Site) -> list[Tensor]:
    return list(torch.unbind(site.input(0), site.get("axis", 0)))


@rule("ConcatV2")
def concatenate(site: Site) -> Tensor:
    axis = site.numbers(site.count - 1, "axis")[0]
    return torch.cat(_align(list(site.inputs[:-1]), site), axis)


@rule("Concat")
def concatenate_by_first(site: Site) -> Tensor:
    return torch.cat(_align(list(site.inputs[1:]), site), site.numbers(0, "axis")[0])


def _align(values: Sequence[Tensor | None], site: Site) -> list[Tensor]:
    """All on one side: constants of the host beside tensors of the IPU become constants of the program."""
    present = [value for value in values if value is not None]
    if any(is_on_ipu(value) for value in present):
        return [lift(value) for value in present]
    return [value if site.lift is None else site.lift(value) for value in present]


@rule("Split", static=(0,))
def split(site: Site) -> list[Tensor]:
    x, axis = site.input(1), site.numbers(0, "axis")[0]
    parts = site.get("num_split")
    if x.shape[axis] % parts:
        site.fail(f"cuts {x.shape[axis]} elements into {parts} parts")
    return list(torch.split(x, max(1, x.shape[axis] // parts), axis))


@rule("SplitV", static=(1, 2))
def split_by_sizes(site: Site) -> list[Tensor]:
    x, sizes, axis = site.input(0), site.numbers(1, "sizes"), site.numbers(2, "axis")[0]
    rest = x.shape[axis] - sum(number for number in sizes if number >= 0)
    return list(torch.split(x, [rest if number < 0 else number for number in sizes], axis))


@rule("Tile", static=(1,))
def tile(site: Site) -> Tensor:
    x, times = site.input(0), site.numbers(1, "multiples")
    site.check_size([size * count for size, count in zip(x.shape, times, strict=True)])
    if all(size == 1 or count == 1 for size, count in zip(x.shape, times, strict=True)):
        return x.expand([size * count for size, count in zip(x.shape, times, strict=True)])
    return x.repeat(times)


@rule("BroadcastTo", static=(1,))
def broadcast(site: Site) -> Tensor:
    sizes = site.numbers(1, "shape")
    site.check_size(sizes)
    return site.input(0).expand(sizes)


@rule("Slice", static=(1, 2))
def take_slice(site: Site) -> Tensor:
    x = site.input(0)
    sizes = site.numbers(2, "sizes")
    starts = site.find_value(1)
    if starts is None:
        return _take_moving(site, x, site.input(1), sizes)
    for axis, (start, count) in enumerate(zip(starts.reshape(-1).tolist(), sizes, strict=True)):
        count = x.shape[axis] - int(start) if count < 0 else count
        if (int(start), count) != (0, x.shape[axis]):
            x = x.narrow(axis, int(start), count)
    return x


def _take_moving(site: Site, x: Tensor, starts: Tensor, sizes: list[int]) -> Tensor:
    """A slice whose start the data of a run decides."""
    for axis, count in enumerate(sizes):
        if count not in (-1, x.shape[axis]):
            x = x.index_select(axis, torch.arange(count, dtype=torch.int64) + starts[axis].to(torch.int64))
    return x


@rule("Pad", "PadV2", static=(1,))
def pad(site: Site) -> Tensor:
    x = site.input(0)
    return pad_edges(x, _read_pads(site), "constant", site.input(2) if site.has(2) else 0.0)


@rule("MirrorPad", static=(1,))
def mirror_pad(site: Site) -> Tensor:
    x = site.input(0)
    if site.get("mode") == "REFLECT":
        return pad_edges(x, _read_pads(site), "reflect", 0.0)
    pads = _read_pads(site)
    for axis in range(x.dim()):  # symmetric: the edge itself is repeated
        before, behind = pads[axis], pads[axis + x.dim()]
        if before or behind:
            size = x.shape[axis]
            order = [*range(before - 1, -1, -1), *range(size), *range(size - 1, size - 1 - behind, -1)]
            x = x.index_select(axis, torch.tensor(order, dtype=torch.int64))
    return x


def _read_pads(site: Site) -> list[int]:
    pairs = site.value(1, "pads").reshape(-1, 2).tolist()
    return [*(int(pair[0]) for pair in pairs), *(int(pair[1]) for pair in pairs)]


@rule("ReverseV2", static=(1,))
def reverse(site: Site) -> Tensor:
    return site.input(0).flip(site.numbers(1, "axes"))


@rule("Roll", static=(1, 2))
def roll(site: Site) -> Tensor:
    return torch.roll(site.input(0), site.numbers(1, "shift"), site.numbers(2, "axis"))


@rule("SpaceToDepth")
def space_to_depth(site: Site) -> Tensor:
    x, block = site.input(0), site.get("block_size")
    batch, height, width, depth = x.shape
    x = x.reshape(batch, height // block, block, width // block, block, depth).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(batch, height // block, width // block, block * block * depth)


@rule("DepthToSpace")
def depth_to_space(site: Site) -> Tensor:
    x, block = site.input(0), site.get("block_size")
    batch, height, width, depth = x.shape
    x = x.reshape(batch, height, width, block, block, depth // (block * block)).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(batch, height * block, width * block, depth // (block * block))


@rule("NoOp", "Assert", "ControlTrigger", "Abort", folds=False)
def nothing(site: Site) -> Results:
    return []
