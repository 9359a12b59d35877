"""Rows and elements by index: gather, scatter, one-hot, embedding-like ops."""

from __future__ import annotations

import math

import torch

from openipu.capture import lift, on_host
from openipu.translate.rules import Results, rule
from openipu.translate.site import Site


def _wrap(indices: torch.Tensor, size: int) -> torch.Tensor:
    """Indices from the front; negative ones count from the end."""
    wide = indices.to(torch.int64)
    return torch.where(wide < 0, wide + size, wide)


@rule("Gather")
def gather(site: Site) -> torch.Tensor:
    x, indices, axis = site.input(0), site.input(1), site.get("axis", 0)
    axis = axis % x.dim()
    places = _wrap(indices, x.shape[axis])
    if places.dim() == 0:
        return x.index_select(axis, places.reshape(1)).squeeze(axis)
    if axis == 0 and x.dim() == 2 and x.dtype.is_floating_point:
        return torch.nn.functional.embedding(places, x)
    rows = x.index_select(axis, places.reshape(-1))
    return rows.reshape(*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])


@rule("GatherElements")
def gather_elements(site: Site) -> torch.Tensor:
    x, axis = site.input(0), site.get("axis", 0)
    return torch.gather(x, axis, _wrap(site.input(1), x.shape[axis]))


@rule("GatherND")
def gather_nd(site: Site) -> torch.Tensor:
    x, indices, batches = site.input(0), site.input(1), site.get("batch_dims", 0)
    depth = indices.shape[-1]
    lead = list(x.shape[:batches])
    flat = x.reshape(math.prod(lead), *x.shape[batches:])
    where = indices.reshape(math.prod(lead), -1, depth)
    sizes = flat.shape[1 : 1 + depth]
    place = torch.arange(flat.shape[0])[:, None].expand(where.shape[:2])
    for axis, size in enumerate(sizes):
        place = place * size + _wrap(where[..., axis], size)
    rest = flat.shape[1 + depth :]
    rows = flat.reshape(-1, *rest).index_select(0, place.reshape(-1))
    return rows.reshape(*indices.shape[:-1], *rest)


@rule("Scatter", "ScatterElements")
def scatter_elements(site: Site) -> torch.Tensor:
    x, axis = site.input(0), site.get("axis", 0)
    places, updates = _wrap(site.input(1), x.shape[axis]), site.input(2)
    mode = site.get("reduction", "none")
    if mode == "none":
        return torch.scatter(x, axis, places, updates)
    if mode == "add":
        return torch.scatter_add(x, axis, places, updates)
    kinds = {"mul": "prod", "max": "amax", "min": "amin"}
    return torch.scatter_reduce(x, axis, places, updates, kinds[mode])


@rule("ScatterND")
def scatter_nd(site: Site) -> torch.Tensor:
    x, indices, updates = (site.input(place) for place in range(3))
    depth = indices.shape[-1]
    place = torch.zeros(indices.shape[:-1], dtype=torch.int64)
    for axis in range(depth):
        place = place * x.shape[axis] + _wrap(indices[..., axis], x.shape[axis])
    rest = list(x.shape[depth:])
    rows = x.reshape(math.prod(x.shape[:depth]), -1)
    new = updates.reshape(-1, rows.shape[1])
    index = place.reshape(-1, 1).expand(new.shape)
    mode = site.get("reduction", "none")
    if mode == "none":
        result = rows.scatter(0, index, new)
    elif mode == "add":
        result = rows.scatter_add(0, index, new)
    else:
        result = rows.scatter_reduce(0, index, new, {"mul": "prod", "max": "amax", "min": "amin"}[mode])
    return result.reshape(*x.shape[:depth], *rest)


@rule("OneHot", static=(1,))
def one_hot(site: Site) -> torch.Tensor:
    indices, values = site.input(0), site.input(2)
    depth, axis = site.numbers(1, "depth")[0], site.get("axis", -1)
    site.check_size([*indices.shape, depth])
    axis = axis % (indices.dim() + 1)
    places = _wrap(indices, depth).unsqueeze(axis)
    classes = torch.arange(depth).reshape([-1 if place == axis else 1 for place in range(places.dim())])
    return torch.where(places == classes, values[1], values[0])


@rule("Compress", static=(1,))
def compress(site: Site) -> torch.Tensor:
    x, axis = site.input(0), site.get("axis", None)
    if axis is None:
        x, axis = x.reshape(-1), 0
    with on_host():
        wanted = torch.nonzero(site.value(1, "condition").reshape(-1)).reshape(-1)
    return x.index_select(axis, lift(wanted))


@rule("NonZero", static=(0,))
def nonzero(site: Site) -> torch.Tensor:
    return torch.nonzero(site.value(0, "elements")).t().contiguous()


@rule("Unique", static=(0,))
def unique(site: Site) -> Results:
    x, axis, ordered = site.value(0, "elements"), site.get("axis", None), bool(site.get("sorted", 1))
    dim = None if axis is None else axis % x.dim()
    values, inverse, counts = torch.unique(x, sorted=True, return_inverse=True, return_counts=True, dim=dim)
    flat, length = inverse.reshape(-1), counts.numel()
    first = torch.full((length,), flat.numel(), dtype=torch.int64)
    first = first.scatter_reduce(0, flat, torch.arange(flat.numel()), "amin")
    if not ordered:
        order = torch.argsort(first)
        rank = torch.argsort(order)
        values = values[order] if dim is None else values.index_select(dim, order)
        first, counts, flat = first[order], counts[order], rank[flat]
    return [values, first, flat, counts]


@rule("TensorScatter")
def write_slice(site: Site) -> torch.Tensor:
    past, update, starts = site.input(0), site.input(1), site.optional(2)
    axis = site.get("axis", -2) % past.dim()
    circular = site.get("mode", "linear") == "circular"
    steps = torch.arange(update.shape[axis])
    begin = torch.zeros(past.shape[0], dtype=torch.int64) if starts is None else starts.to(torch.int64)
    places = begin[:, None] + steps[None, :]
    if circular:
        places = places % past.shape[axis]
    shape = [1] * past.dim()
    shape[0], shape[axis] = places.shape[0], places.shape[1]
    return past.scatter(axis, places.reshape(shape).expand(update.shape), update)
