"""Ops that move and choose elements."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from openipu.translate.kit.padding import pad_edges
from openipu.translate.paddle.calls import Answer, Call, translates

_LARGEST_END = 1 << 30


def _read_shape(call: Call, x: torch.Tensor) -> list[int]:
    """A shape in which 0 keeps a size and -1 is what is left."""
    sizes = call.numbers("shape", "ShapeTensor", "Shape")
    return [x.shape[axis] if size == 0 and axis < x.dim() else size for axis, size in enumerate(sizes)]


@translates("reshape", "reshape2", "view_shape")
def reshape(call: Call) -> Answer:
    x = call.tensor("X")
    return x.reshape(_read_shape(call, x))


@translates("transpose", "transpose2")
def transpose(call: Call) -> Answer:
    return call.tensor("X").permute(call.numbers("axis"))


@translates("squeeze", "squeeze2")
def squeeze(call: Call) -> Answer:
    x, axes = call.tensor("X"), call.numbers("axes", "AxesTensor", "AxesTensorList")
    places = [axis % max(x.dim(), 1) for axis in axes] if axes else range(x.dim())
    chosen = {place for place in places if x.shape[place] == 1}
    return x.reshape([size for axis, size in enumerate(x.shape) if axis not in chosen])


@translates("unsqueeze", "unsqueeze2")
def unsqueeze(call: Call) -> Answer:
    x = call.tensor("X")
    for axis in call.numbers("axes", "AxesTensor", "AxesTensorList"):
        x = x.unsqueeze(axis)
    return x


@translates("flatten", "flatten2")
def flatten(call: Call) -> Answer:
    x, axis = call.tensor("X"), call.whole("axis", 1)
    before = 1
    for size in x.shape[:axis]:
        before *= size
    return x.reshape(before, -1)


@translates("flatten_contiguous_range")
def flatten_range(call: Call) -> Answer:
    x = call.tensor("X")
    return torch.flatten(x, call.whole("start_axis", 1), call.whole("stop_axis", -1))


@translates("concat")
def concat(call: Call) -> Answer:
    return torch.cat(call.tensors("X"), call.numbers("axis", "AxisTensor", default=[0])[0])


@translates("split")
def split(call: Call) -> Answer:
    x = call.tensor("X")
    axis = call.numbers("axis", "AxisTensor", default=[0])[0]
    sections = call.numbers("sections", "SectionsTensorList")
    whole = x.shape[axis]
    if not sections:
        count = call.whole("num") or call.counts("Out")
        if count < 1 or whole % count:
            call.fail(f"cannot split {whole} elements into {count} equal parts")
        sections = [whole // count] * count
    if -1 in sections:
        rest = whole - sum(size for size in sections if size != -1)
        sections = [rest if size == -1 else size for size in sections]
    return {"Out": list(torch.split(x, sections, axis))}


@translates("stack")
def stack(call: Call) -> Answer:
    return {"Y": torch.stack(call.tensors("X"), call.whole("axis"))}


@translates("unstack")
def unstack(call: Call) -> Answer:
    return {"Y": list(torch.unbind(call.tensor("X"), call.whole("axis")))}


@translates("unbind")
def unbind(call: Call) -> Answer:
    return {"Out": list(torch.unbind(call.tensor("X"), call.whole("axis")))}


def _cut(x: torch.Tensor, axis: int, start: int, end: int, step: int = 1) -> torch.Tensor:
    """Elements from start to end, as Python slices."""
    places = range(*slice(start, end, step).indices(x.shape[axis]))
    if step > 0:
        return x[(slice(None),) * axis + (slice(start, end, step),)]
    return x.index_select(axis, torch.tensor(list(places), dtype=torch.int64))


def _drop(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    return x.reshape([size for axis, size in enumerate(x.shape) if axis not in set(axes)]) if axes else x


@translates("slice")
def take_slice(call: Call) -> Answer:
    x = call.tensor("Input")
    starts = call.numbers("starts", "StartsTensor", "StartsTensorList")
    ends = call.numbers("ends", "EndsTensor", "EndsTensorList")
    for axis, start, end in zip(call.numbers("axes"), starts, ends, strict=True):
        x = _cut(x, axis % max(x.dim(), 1), start, min(end, _LARGEST_END))
    return _drop(x, call.numbers("decrease_axis"))


@translates("strided_slice")
def take_strided_slice(call: Call) -> Answer:
    x = call.tensor("Input")
    starts = call.numbers("starts", "StartsTensor", "StartsTensorList")
    ends = call.numbers("ends", "EndsTensor", "EndsTensorList")
    steps = call.numbers("strides", "StridesTensor", "StridesTensorList")
    for axis, start, end, step in zip(call.numbers("axes"), starts, ends, steps, strict=True):
        place = axis % max(x.dim(), 1)
        if step < 0 and end < -x.shape[place]:
            places = list(range(x.shape[place]))[start::step]
            x = x.index_select(place, torch.tensor(places, dtype=torch.int64))
        else:
            x = _cut(x, place, start, end, step)
    return _drop(x, call.numbers("decrease_axis"))


@translates("expand")
def repeat_whole(call: Call) -> Answer:
    x = call.tensor("X")
    return x.repeat(call.numbers("expand_times", "ExpandTimes", "expand_times_tensor"))


@translates("tile")
def tile(call: Call) -> Answer:
    x, times = call.tensor("X"), call.numbers("repeat_times", "RepeatTimes", "repeat_times_tensor")
    return x.repeat([*[1] * (x.dim() - len(times)), *times])


@translates("expand_v2")
def expand(call: Call) -> Answer:
    x, shape = call.tensor("X"), call.numbers("shape", "Shape", "expand_shapes_tensor")
    call.site.check_size([size for size in shape if size != -1])
    return x.expand(shape).clone()


@translates("expand_as_v2", "expand_as")
def expand_as(call: Call) -> Answer:
    x = call.tensor("X")
    shape = call.numbers("target_shape") or list(call.tensor("Y").shape)
    return x.expand(shape).clone()


@translates("broadcast_tensors")
def broadcast(call: Call) -> Answer:
    return {"Out": [part.clone() for part in _broadcast(call.tensors("X"))]}


def _broadcast(parts: list[torch.Tensor]) -> list[torch.Tensor]:
    rank = max(part.dim() for part in parts)
    sizes = [[1] * (rank - part.dim()) + list(part.shape) for part in parts]
    shape = [max(extents) for extents in zip(*sizes, strict=True)]
    return [part.expand(shape) for part in parts]


@translates("meshgrid")
def mesh(call: Call) -> Answer:
    return {"Out": [part.clone() for part in torch.meshgrid(*call.tensors("X"), indexing="ij")]}


@translates("flip", "reverse")
def flip(call: Call) -> Answer:
    return torch.flip(call.tensor("X"), call.numbers("axis"))


@translates("roll")
def roll(call: Call) -> Answer:
    x, shifts, axes = call.tensor("X"), call.numbers("shifts", "ShiftsTensor"), call.numbers("axis")
    return torch.roll(x, shifts, axes) if axes else torch.roll(x, shifts)


@translates("shape", "shape64")
def read_shape(call: Call) -> Answer:
    return torch.tensor(list(call.tensor("Input").shape), dtype=torch.int32)


@translates("size")
def read_size(call: Call) -> Answer:
    return torch.tensor(call.tensor("Input").numel(), dtype=torch.int64)


@translates("gather")
def gather(call: Call) -> Answer:
    x, places = call.tensor("X"), call.tensor("Index")
    axis = call.numbers("axis", "Axis", default=[0])[0]
    if places.dim() == 2 and places.shape[1] == 1:
        places = places.reshape(-1)
    found = x.index_select(axis, places.reshape(-1).to(torch.int64))
    return found.squeeze(axis) if places.dim() == 0 else found


@translates("index_select")
def index_select(call: Call) -> Answer:
    return call.tensor("X").index_select(call.whole("dim"), call.tensor("Index").to(torch.int64))


@translates("gather_nd")
def gather_points(call: Call) -> Answer:
    x, places = call.tensor("X"), call.tensor("Index").to(torch.int64)
    return x[tuple(places.unbind(-1))] if places.shape[-1] else x.expand(*places.shape[:-1], *x.shape)


@translates("take_along_axis")
def take_along(call: Call) -> Answer:
    x, places, axis = call.tensor("Input"), call.tensor("Index").to(torch.int64), call.whole("Axis")
    if call.wants("Result"):
        return {"Result": torch.gather(x, axis, places)}
    return torch.gather(x, axis, places)


@translates("scatter")
def scatter(call: Call) -> Answer:
    x, places, updates = call.tensor("X"), call.tensor("Ids").reshape(-1).to(torch.int64), call.tensor("Updates")
    if call.flag("overwrite", True):
        return x.index_copy(0, places, updates)
    return x.index_fill(0, places, 0).index_add(0, places, updates)


@translates("scatter_nd_add")
def scatter_points(call: Call) -> Answer:
    x, places = call.tensor("X"), call.tensor("Index").to(torch.int64)
    return x.index_put(tuple(places.unbind(-1)), call.tensor("Updates"), accumulate=True)


@translates("pad")
def pad(call: Call) -> Answer:
    x, pads = call.tensor("X"), call.numbers("paddings", "PaddingsTensor")
    return pad_edges(x, [*pads[0::2], *pads[1::2]], "constant", call.number("pad_value"))


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "edge": "edge", "circular": "wrap"}


@translates("pad3d", "pad2d")
def pad_image(call: Call) -> Answer:
    """Pads of the last dimension come first, except in `pad2d`."""
    x, pads = call.tensor("X"), call.numbers("paddings", "Paddings")
    spatial = len(pads) // 2
    pairs = [(pads[2 * place], pads[2 * place + 1]) for place in range(spatial)]
    if call.op == "pad3d":
        pairs.reverse()
    layout = str(call.get("data_format", "NCDHW"))
    around = [(0, 0), *pairs, (0, 0)] if layout.endswith("C") else [(0, 0), (0, 0), *pairs]
    mode = _MODES.get(str(call.get("mode", "constant")))
    if mode is None:
        call.fail(f"has the unknown mode {call.get('mode')!r}")
    value = call.number("value", call.number("pad_value"))
    return pad_edges(x, [before for before, _ in around] + [behind for _, behind in around], mode, value)


@translates("tril_triu")
def triangle(call: Call) -> Answer:
    x, diagonal = call.tensor("X"), call.whole("diagonal")
    return torch.tril(x, diagonal) if call.flag("lower") else torch.triu(x, diagonal)


@translates("pixel_shuffle")
def pixel_shuffle(call: Call) -> Answer:
    return torch.nn.functional.pixel_shuffle(call.tensor("X"), call.whole("upscale_factor", 1))
