"""Parts of tensors, at places that are known or that are data; other shapes; sequences packed into one tensor."""

from __future__ import annotations

import torch

from openipu.translate.foreign import ForeignGraph
from openipu.translate.onnx.graphcore.domain import DOMAIN
from openipu.translate.onnx.ops.shapes import depth_to_space, slice_by_attributes
from openipu.translate.rules import Rule, rule
from openipu.translate.site import Site

RULES = [
    Rule("DepthToSpace", depth_to_space, domain=DOMAIN),
    Rule("Slice", slice_by_attributes, domain=DOMAIN),
]


@rule("Reshape", domain=DOMAIN)
def reshape(site: Site) -> torch.Tensor:
    x, shape = site.input(0), site.get("shape")
    if len(shape) > x.dim() and 0 in shape[x.dim() :]:
        site.fail(f"keeps a dimension that its input of shape {list(x.shape)} does not have")
    return x.reshape([size if size else x.shape[place] for place, size in enumerate(shape)])


@rule("Reverse", domain=DOMAIN)
def reverse(site: Site) -> torch.Tensor:
    return site.input(0).flip(site.get("dimensions"))


@rule("Subsample", domain=DOMAIN)
def subsample(site: Site) -> torch.Tensor:
    x, strides = site.input(0), site.get("strides")
    if len(strides) != x.dim() or any(stride < 1 for stride in strides):
        site.fail(f"needs a stride of at least 1 for each of {x.dim()} dimensions, not {list(strides)}")
    return x[tuple(slice(None, None, stride) for stride in strides)]


# PopART counts number formats in its own way here, and not in ONNX's.
_FORMATS = {
    0: torch.uint8,
    1: torch.int8,
    4: torch.uint16,
    5: torch.int16,
    6: torch.int32,
    7: torch.int64,
    8: torch.uint32,
    9: torch.uint64,
    10: torch.bool,
    11: torch.float32,
    12: torch.float16,
    13: torch.bfloat16,
    14: torch.float64,
}


@rule("Init", domain=DOMAIN)
def make_tensor(site: Site) -> torch.Tensor:
    """A tensor of zeros; one without initial values has zeros too, which a user can tell from no others."""
    shape = list(site.get("shape"))
    site.check_size(shape)
    number = site.get("data_type")
    if number not in _FORMATS:
        site.fail(f"has data_type {number}, which is none of PopART's numbers {', '.join(map(str, _FORMATS))}")
    return torch.zeros(shape, dtype=_FORMATS[number])


def _list_places(site: Site) -> list[tuple[int, torch.Tensor]]:
    """For each axis of a dynamic slice, the places that it covers."""
    axes, sizes = site.get("axes"), site.get("sizes")
    starts = site.input(1).reshape(-1).to(torch.int64)
    site.check_size(sizes)
    if not (len(axes) == len(sizes) == starts.numel()):
        site.fail(f"has {len(axes)} axes, {len(sizes)} sizes and {starts.numel()} starts: as many of each are needed")
    return [
        (axis, starts[place : place + 1] + torch.arange(size))
        for place, (axis, size) in enumerate(zip(axes, sizes, strict=True))
    ]


@rule("DynamicSlice", domain=DOMAIN)
def take_slice(site: Site) -> torch.Tensor:
    result = site.input(0)
    for axis, places in _list_places(site):
        result = result.index_select(axis, places)
    return result.reshape(site.input(2).shape) if site.has(2) else result


@rule("DynamicUpdate", "DynamicAdd", "DynamicZero", domain=DOMAIN)
def change_slice(site: Site) -> torch.Tensor:
    """The tensor with a part of it replaced, added to, or set to zero."""
    x, places = site.input(0), _list_places(site)
    sizes = list(x.shape)
    for axis, found in places:
        sizes[axis] = found.numel()
    kind = site.node.op
    value = torch.zeros(sizes, dtype=x.dtype) if kind == "DynamicZero" else site.input(2).reshape(sizes)
    return _write_part(x, places, value, add=kind == "DynamicAdd")


def _write_part(
    x: torch.Tensor, places: list[tuple[int, torch.Tensor]], value: torch.Tensor, *, add: bool
) -> torch.Tensor:
    """One axis after the other: the part of the first axis, changed inside, is put back."""
    (axis, found), *rest = places
    if rest:
        value, add = _write_part(x.index_select(axis, found), rest, value, add=add), False
    return x.index_add(axis, found, value) if add else x.index_copy(axis, found, value)


@rule("SequenceSlice", domain=DOMAIN)
def copy_sequences(site: Site) -> torch.Tensor:
    """Rows of a source at the places of a destination: sequence i has `lengths[i]` of them."""
    source, target, lengths, starts, goals = (site.input(place) for place in range(5))
    rest = torch.zeros_like(target) if site.get("zeroUnused", 0) else target
    return _place_rows(source, rest, *(value.to(torch.int64) for value in (lengths, starts, goals)))


def _place_rows(
    source: torch.Tensor, target: torch.Tensor, lengths: torch.Tensor, starts: torch.Tensor, goals: torch.Tensor
) -> torch.Tensor:
    """For each row of the target: the sequence that covers it, the last one if several do, and its row there."""
    rows = torch.arange(target.shape[0])
    behind = rows[None, :] - goals[:, None]  # [sequences, rows]
    covers = (behind >= 0) & (behind < lengths[:, None])
    order = torch.arange(1, lengths.shape[0] + 1)[:, None] * covers.to(torch.int64)
    chosen = order.amax(0)
    origin = (starts[:, None] + behind).gather(0, torch.clamp(chosen - 1, min=0)[None, :])[0]
    found = source.index_select(0, torch.clamp(origin, 0, source.shape[0] - 1))
    shape = [-1] + [1] * (target.dim() - 1)
    return torch.where((chosen > 0).reshape(shape), found, target)


def _unpack(data: torch.Tensor, offsets: torch.Tensor, lengths: torch.Tensor, longest: int) -> torch.Tensor:
    """Sequences as rows of one length, with zeros behind each: [sequences, longest, ...]."""
    steps = torch.arange(longest)
    places = torch.clamp(offsets.to(torch.int64)[:, None] + steps[None, :], 0, data.shape[0] - 1)
    rows = data.index_select(0, places.reshape(-1)).reshape(*places.shape, *data.shape[1:])
    inside = steps[None, :] < lengths.to(torch.int64)[:, None]
    return torch.where(inside.reshape(*places.shape, *[1] * (data.dim() - 1)), rows, torch.zeros_like(rows))


@rule("PackedDataBlock", domain=DOMAIN)
def run_on_sequences(site: Site) -> torch.Tensor:
    """A graph of the node's own on sequences that lie packed, several at a time; its results are packed again."""
    body, longest, together = site.get("callback"), site.get("maxSequenceLengths"), site.get("callbackBatchSize", 1)
    count, rest = divmod(site.count - 2, 3)
    if not isinstance(body, ForeignGraph) or rest or count < 1 or len(longest) != count:
        site.fail("needs a graph, three inputs for each of its maxSequenceLengths, and two for the result")
    for length in longest:
        site.check_size([length])
    sequences = [
        _unpack(site.input(3 * place), site.input(3 * place + 1), site.input(3 * place + 2), longest[place])
        for place in range(count)
    ]
    number = sequences[0].shape[0]
    site.check_steps(number)
    if together < 1 or number % together:
        site.fail(f"runs its graph on {together} sequences at a time, and has {number}")
    parts = [
        site.run_body(body, [rows[first : first + together] for rows in sequences])[0]
        for first in range(0, number, together)
    ]
    found = torch.cat(parts)  # [sequences, longest, ...]
    offsets, lengths = (site.input(site.count - back).to(torch.int64) for back in (2, 1))
    size, room = site.get("resultSize"), found.shape[1]
    site.check_size([size, *found.shape[2:]])
    starts = torch.arange(number) * room
    flat = found.reshape(number * room, *found.shape[2:])
    target = torch.zeros((size, *found.shape[2:]), dtype=found.dtype)
    return _place_rows(flat, target, torch.clamp(lengths, max=room), starts, offsets)
