"""Ops that move elements and compute none: shapes, joins, pieces, constants."""

from __future__ import annotations

import math

import torch

from openipu.capture import on_host
from openipu.translate.kit.padding import pad_edges
from openipu.translate.onnx.formats import find_dtype
from openipu.translate.rules import rule
from openipu.translate.site import Site


@rule("Constant")
def constant(site: Site) -> torch.Tensor:
    found = site.node.attributes
    for name in ("value", "sparse_value"):
        if name in found:
            return torch.as_tensor(found[name])
    for name, dtype in (("value_float", torch.float32), ("value_floats", torch.float32)):
        if name in found:
            return torch.tensor(found[name], dtype=dtype)
    for name in ("value_int", "value_ints"):
        if name in found:
            return torch.tensor(found[name], dtype=torch.int64)
    return site.fail("has no value that a tensor could hold")


@rule("ConstantOfShape", static=(0,))
def fill(site: Site) -> torch.Tensor:
    value = site.get("value", None)
    filler = torch.zeros(1) if value is None else value
    if filler.numel() != 1:
        site.fail("needs a value of one element")
    sizes = site.numbers(0, "shape")
    site.check_size(sizes)
    return torch.full(sizes, filler.reshape(()).item(), dtype=filler.dtype)


@rule("Shape")
def shape(site: Site) -> torch.Tensor:
    sizes = list(site.input(0).shape)
    with on_host():
        return torch.tensor(sizes[site.get("start", 0) : site.get("end", len(sizes))], dtype=torch.int64)


@rule("Size")
def size(site: Site) -> torch.Tensor:
    count = site.input(0).numel()
    with on_host():
        return torch.tensor(count, dtype=torch.int64)


@rule("Reshape", until=4)
def reshape_by_attribute(site: Site) -> torch.Tensor:
    return _reshape(site, site.get("shape"), False)


@rule("Reshape", since=5, static=(1,))
def reshape(site: Site) -> torch.Tensor:
    return _reshape(site, site.numbers(1, "shape"), bool(site.get("allowzero", 0)))


def _reshape(site: Site, wanted: list[int], keep_zero: bool) -> torch.Tensor:
    x = site.input(0)
    if not keep_zero:
        if any(number == 0 and place >= x.dim() for place, number in enumerate(wanted)):
            site.fail(f"copies a dimension that its input of shape {list(x.shape)} does not have: {wanted}")
        wanted = [x.shape[place] if number == 0 else number for place, number in enumerate(wanted)]
    if x.numel() == 0 and -1 in wanted:
        known = math.prod(number for number in wanted if number != -1)
        wanted = [(0 if known == 0 else x.numel() // known) if number == -1 else number for number in wanted]
    return x.reshape(wanted)


@rule("Flatten")
def flatten(site: Site) -> torch.Tensor:
    x = site.input(0)
    axis = site.get("axis", 1)
    axis = axis + x.dim() if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@rule("Transpose")
def transpose(site: Site) -> torch.Tensor:
    x = site.input(0)
    return x.permute(site.get("perm", list(reversed(range(x.dim())))))


@rule("Squeeze", until=12)
def squeeze(site: Site) -> torch.Tensor:
    return _squeeze(site.input(0), site.get("axes", None))


@rule("Squeeze", since=13, static=(1,))
def squeeze_by_tensor(site: Site) -> torch.Tensor:
    return _squeeze(site.input(0), site.numbers(1, "axes") if site.has(1) else None)


def _squeeze(x: torch.Tensor, axes: list[int] | None) -> torch.Tensor:
    gone = {axis % x.dim() for axis in axes} if axes is not None else {i for i, n in enumerate(x.shape) if n == 1}
    if any(x.shape[axis] != 1 for axis in gone):
        raise ValueError(f"dimensions {sorted(gone)} of {list(x.shape)} are not all 1")
    return x.reshape([number for place, number in enumerate(x.shape) if place not in gone])


@rule("Unsqueeze", until=12)
def unsqueeze(site: Site) -> torch.Tensor:
    return _unsqueeze(site.input(0), site.get("axes"))


@rule("Unsqueeze", since=13, static=(1,))
def unsqueeze_by_tensor(site: Site) -> torch.Tensor:
    return _unsqueeze(site.input(0), site.numbers(1, "axes"))


def _unsqueeze(x: torch.Tensor, axes: list[int]) -> torch.Tensor:
    rank = x.dim() + len(axes)
    new = {axis % rank for axis in axes}
    if len(new) != len(axes):
        raise ValueError(f"axes {axes} name a dimension twice")
    sizes = iter(x.shape)
    return x.reshape([1 if place in new else next(sizes) for place in range(rank)])


@rule("Concat")
def concatenate(site: Site) -> torch.Tensor:
    axis = site.get("axis", 1) if site.version < 4 else site.get("axis")
    return torch.cat([site.input(position) for position in range(site.count)], dim=axis)


@rule("Split", until=12)
def split(site: Site) -> list[torch.Tensor]:
    return _split(site, site.get("split", None))


@rule("Split", since=13, static=(1,))
def split_by_tensor(site: Site) -> list[torch.Tensor]:
    return _split(site, site.numbers(1, "sizes of the parts") if site.has(1) else None)


def _split(site: Site, sizes: list[int] | None) -> list[torch.Tensor]:
    x, axis = site.input(0), site.get("axis", 0)
    if sizes is None:
        parts = site.get("num_outputs", None) or site.results
        each = -(-x.shape[axis] // parts)
        sizes = [min(each, x.shape[axis] - start) for start in range(0, x.shape[axis], each)] if each else [0] * parts
    return list(torch.split(x, sizes, dim=axis))


@rule("Slice", until=9)
def slice_by_attributes(site: Site) -> torch.Tensor:
    starts, ends = site.get("starts"), site.get("ends")
    return _slice(site, starts, ends, site.get("axes", None), None)


@rule("Slice", since=10, static=(1, 2, 3, 4))
def slice_by_tensors(site: Site) -> torch.Tensor:
    axes = site.numbers(3, "axes") if site.has(3) else None
    steps = site.numbers(4, "steps") if site.has(4) else None
    return _slice(site, site.numbers(1, "starts"), site.numbers(2, "ends"), axes, steps)


def _slice(
    site: Site, starts: list[int], ends: list[int], axes: list[int] | None, steps: list[int] | None
) -> torch.Tensor:
    x = site.input(0)
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        site.fail(f"has {len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} steps")
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            site.fail("has a step of 0")
        length = x.shape[axis]
        first, last, stride = slice(start, end, step).indices(length)
        if stride > 0:
            x = x.narrow(axis, 0, length)
            x = x[(slice(None),) * (axis % x.dim()) + (slice(first, max(first, last), stride),)]
        else:
            count = max(0, -(-(first - last) // -stride))
            places = torch.arange(count, dtype=torch.int64) * stride + first
            x = x.index_select(axis, places)
    return x


@rule("Expand", static=(1,))
def expand(site: Site) -> torch.Tensor:
    x, wanted = site.input(0), site.numbers(1, "shape")
    return x.expand(*_broadcast(list(x.shape), wanted))


def _broadcast(first: list[int], second: list[int]) -> list[int]:
    """The shape of two that are laid over each other, the last dimensions on the last."""
    rank = max(len(first), len(second))
    pairs = zip([1] * (rank - len(first)) + first, [1] * (rank - len(second)) + second, strict=True)
    if any(1 not in (one, other) and one != other for one, other in pairs):
        raise ValueError(f"{first} cannot be spread over {second}")
    pairs = zip([1] * (rank - len(first)) + first, [1] * (rank - len(second)) + second, strict=True)
    return [other if one == 1 else one for one, other in pairs]


@rule("Tile", static=(1,), since=6)
def tile(site: Site) -> torch.Tensor:
    x, repeats = site.input(0), site.numbers(1, "repeats")
    site.check_size([size_ * times for size_, times in zip(x.shape, repeats, strict=True)])
    return x.repeat(repeats)


@rule("Tile", until=5, static=(1, 2))
def tile_along_axis(site: Site) -> torch.Tensor:
    x = site.input(0)
    repeats = [1] * x.dim()
    repeats[site.numbers(2, "axis")[0]] = site.numbers(1, "tiles")[0]
    return x.repeat(repeats)


@rule("Pad", until=1)
def pad_first(site: Site) -> torch.Tensor:
    return pad_edges(site.input(0), site.get("paddings"), site.get("mode", "constant"), site.get("value", 0.0))


@rule("Pad", since=2, until=10)
def pad_by_attributes(site: Site) -> torch.Tensor:
    return pad_edges(site.input(0), site.get("pads"), site.get("mode", "constant"), site.get("value", 0.0))


@rule("Pad", since=11, static=(1, 3))
def pad_by_tensors(site: Site) -> torch.Tensor:
    x, pads = site.input(0), site.numbers(1, "pads")
    if site.has(3):
        axes = [axis % x.dim() for axis in site.numbers(3, "axes")]
        spread = [0] * (2 * x.dim())
        for place, axis in enumerate(axes):
            spread[axis], spread[axis + x.dim()] = pads[place], pads[place + len(axes)]
        pads = spread
    before, behind = pads[: x.dim()], pads[x.dim() : 2 * x.dim()]
    site.check_size([max(0, sum(parts)) for parts in zip(x.shape, before, behind, strict=True)])
    value = site.find_value(2)
    if value is None:
        value = site.optional(2)
    return pad_edges(x, pads, site.get("mode", "constant"), 0 if value is None else value)


@rule("DepthToSpace")
def depth_to_space(site: Site) -> torch.Tensor:
    x, block = site.input(0), site.get("blocksize")
    batch, channels, height, width = x.shape
    if site.get("mode", "DCR") == "DCR":
        parts = x.reshape(batch, block, block, channels // block**2, height, width).permute(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(batch, channels // block**2, block, block, height, width).permute(0, 1, 4, 2, 5, 3)
    return parts.reshape(batch, channels // block**2, height * block, width * block)


@rule("SpaceToDepth")
def space_to_depth(site: Site) -> torch.Tensor:
    x, block = site.input(0), site.get("blocksize")
    batch, channels, height, width = x.shape
    parts = x.reshape(batch, channels, height // block, block, width // block, block)
    order = (0, 3, 5, 1, 2, 4) if site.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return parts.permute(order).reshape(batch, channels * block**2, height // block, width // block)


@rule("EyeLike")
def eye(site: Site) -> torch.Tensor:
    x, offset = site.input(0), site.get("k", 0)
    number = site.get("dtype", None)
    dtype = x.dtype if number is None else find_dtype(number, f"the result of {site.node.title}")
    rows, columns = torch.arange(x.shape[0])[:, None], torch.arange(x.shape[1])[None, :]
    here: torch.Tensor = columns - rows == offset
    return here.to(dtype)


@rule("Range", static=(0, 1, 2))
def count_up(site: Site) -> torch.Tensor:
    start, limit, delta = (site.value(place, what) for place, what in enumerate(("start", "limit", "delta")))
    if not float(delta):
        site.fail("has a step of 0")
    count = max(0, math.ceil((float(limit) - float(start)) / float(delta)))
    site.check_size([count])
    return start.reshape(()) + torch.arange(count).to(start.dtype) * delta.reshape(())


@rule("Trilu", static=(1,))
def triangle(site: Site) -> torch.Tensor:
    diagonal = site.numbers(1, "k")[0] if site.has(1) else 0
    x = site.input(0)
    return torch.triu(x, diagonal) if site.get("upper", 1) else torch.tril(x, diagonal)


@rule("ReverseSequence")
def reverse_sequence(site: Site) -> torch.Tensor:
    x, lengths = site.input(0), site.input(1)
    batch, time = site.get("batch_axis", 1), site.get("time_axis", 0)
    turned = x.movedim((time, batch), (0, 1))
    places = torch.arange(turned.shape[0])[:, None]
    inside = places < lengths[None, :]
    source = torch.where(inside, lengths[None, :] - 1 - places, places)
    index = source.reshape(*source.shape, *[1] * (turned.dim() - 2)).expand(turned.shape)
    return torch.gather(turned, 0, index).movedim((0, 1), (time, batch))


@rule("CenterCropPad", static=(1,))
def crop_or_pad(site: Site) -> torch.Tensor:
    x, wanted = site.input(0), site.numbers(1, "shape")
    axes = site.get("axes", None)
    axes = list(range(x.dim())) if axes is None else [axis % x.dim() for axis in axes]
    for axis, size_ in zip(axes, wanted, strict=True):
        have = x.shape[axis]
        if have > size_:
            x = x.narrow(axis, (have - size_) // 2, size_)
        elif have < size_:
            pads = [0] * (2 * x.dim())
            pads[axis] = (size_ - have) // 2
            pads[axis + x.dim()] = size_ - have - pads[axis]
            x = pad_edges(x, pads, "constant", 0)
    return x


@rule("Col2Im", static=(1, 2))
def fold_columns(site: Site) -> torch.Tensor:
    """Blocks laid back into an image of any number of dimensions; what overlaps is added."""
    x, image, block = site.input(0), site.numbers(1, "image shape"), site.numbers(2, "block shape")
    rank = len(image)
    pads = site.get("pads", [0] * (2 * rank))
    dilations, strides = site.get("dilations", [1] * rank), site.get("strides", [1] * rank)
    whole = [size_ + pads[axis] + pads[axis + rank] for axis, size_ in enumerate(image)]
    place = torch.zeros((1, 1), dtype=torch.int64)  # of each element of a block, for each block
    for axis in range(rank):
        count = (whole[axis] - dilations[axis] * (block[axis] - 1) - 1) // strides[axis] + 1
        inside = torch.arange(block[axis]) * dilations[axis]
        starts = torch.arange(count) * strides[axis]
        here = inside[:, None] + starts[None, :]
        rows, columns = place.shape
        place = (place * whole[axis])[:, None, :, None] + here[None, :, None, :]
        place = place.reshape(rows * block[axis], columns * count)
    if tuple(place.shape) != (math.prod(block), x.shape[2]):
        site.fail(f"has {x.shape[2]} columns, and blocks {block} in an image {image} give {place.shape[1]}")
    flat = x.reshape(x.shape[0], x.shape[1] // math.prod(block), -1)
    empty = torch.zeros((*flat.shape[:2], math.prod(whole)), dtype=x.dtype)
    result = empty.scatter_add(2, place.reshape(-1).expand(flat.shape), flat).reshape(*flat.shape[:2], *whole)
    for axis, size_ in enumerate(image):
        result = result.narrow(axis + 2, pads[axis], size_)
    return result
