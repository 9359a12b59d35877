"""Ops that choose elements by index: strided slices, gathers, scatters, segments, one-hot."""

from __future__ import annotations

import math

import torch

from openipu.capture import call_in_graph, is_capturing, on_host
from openipu.graph import FunctionCall
from openipu.host.embeddings import add_rows, read_rows
from openipu.translate.rules import Results, rule
from openipu.translate.site import Site

Tensor = torch.Tensor
Piece = int | slice | None


@rule("StridedSlice", static=(1, 2, 3))
def strided_slice(site: Site) -> Tensor:
    x = site.input(0)
    return _take(x, _read_pieces(site, x.dim(), 1))


@rule("StridedSliceGrad", static=(0, 1, 2, 3))
def strided_slice_gradient(site: Site) -> Tensor:
    """Zeros of the shape that was sliced, with the gradient where the slice was."""
    sizes = site.numbers(0, "shape")
    site.check_size(sizes)
    count = math.prod(sizes)
    with on_host():
        places = _take(torch.arange(count).reshape(sizes), _read_pieces(site, len(sizes), 1)).reshape(-1)
    gradient = site.input(4)
    index = places if site.lift is None else site.lift(places)
    return gradient.new_zeros(count).index_copy(0, index, gradient.reshape(-1)).reshape(sizes)


def _read_pieces(site: Site, rank: int, first: int) -> list[Piece]:
    """What each position of the slice takes: one place, a stretch, or None for a new dimension."""
    begin, end, step = (site.numbers(first + place, "slice") for place in range(3))
    masks = {name: int(site.get(f"{name}_mask", 0)) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    given = sum(
        not (masks["new_axis"] >> place & 1) and not (masks["ellipsis"] >> place & 1) for place in range(len(begin))
    )
    pieces: list[Piece] = []
    for place in range(len(begin)):
        bit = 1 << place
        if masks["ellipsis"] & bit:
            pieces.extend([slice(None)] * (rank - given))
        elif masks["new_axis"] & bit:
            pieces.append(None)
        elif masks["shrink_axis"] & bit:
            pieces.append(begin[place])
        else:
            start = None if masks["begin"] & bit else begin[place]
            stop = None if masks["end"] & bit else end[place]
            pieces.append(slice(start, stop, step[place]))
    return pieces


def _take(x: Tensor, pieces: list[Piece]) -> Tensor:
    axis = 0
    for piece in pieces:
        if piece is None:
            x = x.unsqueeze(axis)
            axis += 1
        elif isinstance(piece, int):
            x = x.select(axis, piece)
        else:
            start, stop, step = piece.indices(x.shape[axis])
            if step < 0:
                places = list(range(start, stop, step))
                x = x.flip(axis)[(slice(None),) * axis + (slice(0, 0),)] if not places else _take_back(x, axis, places)
            elif (start, stop, step) != (0, x.shape[axis], 1):
                x = x[(slice(None),) * axis + (slice(start, max(start, stop), step),)]
            axis += 1
    return x


def _take_back(x: Tensor, axis: int, places: list[int]) -> Tensor:
    step = places[0] - places[1] if len(places) > 1 else 1
    return x[(slice(None),) * axis + (slice(places[-1], places[0] + 1, step),)].flip(axis)


@rule("GatherV2", "Gather", "ResourceGather")
def gather(site: Site) -> Tensor:
    x, index = site.input(0), site.input(1)
    axis = site.numbers(2, "axis")[0] % x.dim() if site.has(2) else 0
    shared = int(site.get("batch_dims", 0))
    shared = shared + index.dim() if shared < 0 else shared
    if shared:
        return _gather_batches(x, index, axis, shared)
    if axis == 0 and x.dim() == 2 and x.dtype.is_floating_point:
        return torch.nn.functional.embedding(index.to(torch.int64), x)
    chosen = x.index_select(axis, index.reshape(-1).to(torch.int64))
    return chosen.reshape([*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]])


def _gather_batches(x: Tensor, index: Tensor, axis: int, shared: int) -> Tensor:
    """Each batch entry has indices of its own."""
    outer = x.shape[axis + 1 :]
    count = index[(0,) * shared].numel()
    wanted = index.reshape([*index.shape[:shared], *([1] * (axis - shared)), count, *([1] * len(outer))])
    wanted = wanted.expand([*x.shape[:axis], count, *outer]).to(torch.int64)
    chosen = torch.gather(x, axis, wanted)
    return chosen.reshape([*x.shape[:axis], *index.shape[shared:], *outer])


@rule("GatherNd", "ResourceGatherNd")
def gather_nd(site: Site) -> Tensor:
    x, index = site.input(0), site.input(1).to(torch.int64)
    if index.shape[-1] == 0:
        return x.expand([*index.shape[:-1], *x.shape])
    return x[tuple(index.unbind(-1))]


@rule("ScatterNd", static=(2,))
def scatter_nd(site: Site) -> Tensor:
    index, updates, sizes = site.input(0), site.input(1), site.numbers(2, "shape")
    site.check_size(sizes)
    return torch.zeros(sizes, dtype=updates.dtype).index_put(_split_index(index), updates, accumulate=True)


@rule("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub")
def scatter_tensor(site: Site) -> Tensor:
    x, index, updates = site.input(0), site.input(1), site.input(2)
    if site.node.op == "TensorScatterUpdate":
        return x.index_put(_split_index(index), updates)
    return x.index_put(_split_index(index), -updates if site.node.op.endswith("Sub") else updates, accumulate=True)


@rule("ScatterAdd", "ScatterSub", "ScatterUpdate")
def scatter_rows(site: Site) -> Tensor:
    """Rows of a variable: (old value, rows, what they get)."""
    x, index, updates = site.input(0), site.input(1).reshape(-1).to(torch.int64), site.input(2)
    rows = updates.expand([*site.input(1).shape, *x.shape[1:]]).reshape([-1, *x.shape[1:]])
    if site.node.op == "ScatterUpdate":
        return x.index_copy(0, index, rows)
    return x.index_add(0, index, rows, alpha=-1 if site.node.op == "ScatterSub" else 1)


def _split_index(index: Tensor) -> tuple[Tensor, ...]:
    return tuple(index.to(torch.int64).unbind(-1))


@rule("UnsortedSegmentSum", static=(2,))
def segment_sum(site: Site) -> Tensor:
    values, index, count = site.input(0), site.input(1), site.numbers(2, "segments")[0]
    inside = list(values.shape[index.dim() :])
    site.check_size([count, *inside])
    rows = values.reshape([-1, *inside])
    return torch.zeros([count, *inside], dtype=values.dtype).index_add(0, index.reshape(-1).to(torch.int64), rows)


@rule("OneHot", static=(1,))
def one_hot(site: Site) -> Tensor:
    index, depth = site.input(0), site.numbers(1, "depth")[0]
    site.check_size([*index.shape, depth])
    axis = int(site.get("axis", -1))
    places = torch.arange(depth, dtype=index.dtype)
    hit = index.unsqueeze(-1) == places
    chosen = torch.where(hit, site.input(2), site.input(3))
    return chosen if axis == -1 else chosen.movedim(-1, axis)


@rule("Where")
def find_places(site: Site) -> Tensor:
    """Only of a known condition: how many places there are is a shape."""
    return torch.nonzero(site.value(0, "condition"))


@rule("ReverseSequence")
def reverse_sequence(site: Site) -> Tensor:
    x, lengths = site.input(0), site.input(1).to(torch.int64)
    axis, batch = int(site.get("seq_dim")), int(site.get("batch_dim", 0))
    places = torch.arange(x.shape[axis], dtype=torch.int64)
    turned = torch.where(places < lengths.unsqueeze(1), lengths.unsqueeze(1) - 1 - places, places)
    sizes = [1] * x.dim()
    sizes[batch], sizes[axis] = x.shape[batch], x.shape[axis]
    turned = (turned if batch < axis else turned.t()).reshape(sizes)
    return torch.gather(x, axis, turned.expand(x.shape))


@rule("IpuHostEmbeddingLookup", folds=False)
def look_up_on_host(site: Site) -> Tensor:
    """Rows of a table that lies in the memory of the host."""
    indices, name, width = site.input(0), str(site.get("table")), int(site.get("width"))

    def read(places: Tensor) -> list[Tensor]:
        return [read_rows(name, places)]

    if not is_capturing():
        return read(indices)[0]
    result = torch.empty((*indices.shape, width), dtype=getattr(torch, site.get("dtype")), device="meta")
    return call_in_graph(FunctionCall("host_embedding_lookup", read, {"table": name}, acts=True), [indices], [result])[
        0
    ]


@rule("IpuHostEmbeddingUpdate", folds=False)
def update_on_host(site: Site) -> Results:
    """Rows of changes, times a rate, are added to the table."""
    changes, indices = site.input(0), site.input(1)
    name, rate, factor = str(site.get("table")), float(site.get("rate")), int(site.get("factor"))

    def write(rows: Tensor, places: Tensor) -> list[Tensor]:
        add_rows(name, places, rows * rate, factor)
        return [places.clone()]

    if not is_capturing():
        write(changes, indices)
        return ()
    call_in_graph(
        FunctionCall("host_embedding_update", write, {"table": name}, acts=True), [changes, indices], [indices]
    )
    return ()
