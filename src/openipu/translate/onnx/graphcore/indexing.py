"""By index: scatters that reduce, gathers in groups, buckets, sorting, medians, splines."""

from __future__ import annotations

import torch

from openipu.translate.onnx.graphcore.domain import DOMAIN
from openipu.translate.rules import Results, rule
from openipu.translate.site import Site

_MOST_DIMENSIONS = 8  # of the space of splines
_REDUCTIONS = {"sum": "sum", "max": "amax", "min": "amin", "mul": "prod"}


@rule("ScatterReduce", domain=DOMAIN)
def scatter(site: Site) -> torch.Tensor:
    """Rows of a source added up, or reduced otherwise, at the places that indices say. With groups: each for itself."""
    source, indices = site.input(0), site.input(1).to(torch.int64)
    grouped = site.get("group_size", 1) > 1
    axis = site.get("axis", -1) % source.dim()
    if grouped and axis == 0:
        site.fail("scatters along the dimension of its groups")
    kind = str(site.get("reduction", "sum")).lower()
    if kind != "none" and kind not in _REDUCTIONS:
        site.fail(f"has the unknown reduction {kind!r}: sum, max, min, mul and none are known")
    places = _widen(site, indices, source, axis, grouped)
    initial = site.optional(2)
    if initial is None:
        shape = list(source.shape if site.get("enable_index_broadcast", 1) else places.shape)
        shape[axis] = site.get("axis_size")
        site.check_size(shape)
        initial = torch.full(shape, 1 if kind == "mul" else 0, dtype=source.dtype)
    elif list(initial.shape) != list(source.shape):
        places = places.contiguous()  # PyTorch adds up wrongly by indices that are spread, where the result is larger
    if kind == "none":
        return torch.scatter(initial, axis, places, source)
    if kind == "sum":
        return torch.scatter_add(initial, axis, places, source)
    return torch.scatter_reduce(initial, axis, places, source, _REDUCTIONS[kind], include_self=site.has(2))


def _widen(site: Site, indices: torch.Tensor, source: torch.Tensor, axis: int, grouped: bool) -> torch.Tensor:
    """Indices of one dimension lie along the axis; the others grow to the source's shape if they may."""
    lead = 1 if grouped else 0
    if indices.dim() - lead == 1:
        for _ in range(axis - lead):
            indices = indices.unsqueeze(lead)
    while indices.dim() < source.dim():
        indices = indices.unsqueeze(-1)
    return indices.expand(source.shape) if site.get("enable_index_broadcast", 1) else indices


@rule("GroupedGather", domain=DOMAIN)
def gather_in_groups(site: Site) -> torch.Tensor:
    """Rows by index; with groups the first dimension of both counts the groups, and each is gathered for itself."""
    x, indices = site.input(0), site.input(1).to(torch.int64)
    axis, groups = site.get("axis", 0) % x.dim(), site.get("group_size", 1)
    if groups <= 1:
        return _gather(x, indices, axis)
    if axis == 0 or x.shape[0] != groups or indices.shape[0] != groups:
        site.fail(f"gathers along dimension {axis} in {groups} groups: dimension 0 of both inputs counts the groups")
    rows = x.movedim(axis, 1).flatten(0, 1)  # [groups * size, ...]
    places = indices + (torch.arange(groups) * x.shape[axis]).reshape(-1, *[1] * (indices.dim() - 1))
    found = rows.index_select(0, places.reshape(-1)).reshape(*indices.shape, *rows.shape[1:])
    inner = range(1, indices.dim())
    return found.movedim(list(inner), [place + axis - 1 for place in inner])


def _gather(x: torch.Tensor, indices: torch.Tensor, axis: int) -> torch.Tensor:
    rows = x.index_select(axis, indices.reshape(-1))
    return rows.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


@rule("Bucketize", domain=DOMAIN)
def find_buckets(site: Site) -> torch.Tensor:
    return torch.bucketize(site.input(0), site.input(1), out_int32=True, right=bool(site.get("right", 0)))


@rule("Sort", domain=DOMAIN)
def sort(site: Site) -> Results:
    x = site.input(0)
    values, places = torch.sort(
        x, dim=site.get("axis", -1), descending=bool(site.get("descending", 0)), stable=bool(site.get("stable", 0))
    )
    return [values, places.to(torch.int32)]


@rule("ReduceMedian", domain=DOMAIN)
def find_median(site: Site) -> Results:
    """The lower median over some dimensions, and its place among the elements of these dimensions."""
    x, keep = site.input(0), bool(site.get("keepdims", 1))
    given = site.get("axes", None)
    axes = sorted({axis % x.dim() for axis in given}) if given is not None else list(range(x.dim()))
    others = [axis for axis in range(x.dim()) if axis not in axes]
    rows = x.permute(*others, *axes).reshape(*[x.shape[axis] for axis in others], -1)
    values, places = torch.sort(rows, dim=-1, stable=True)
    middle = (rows.shape[-1] - 1) // 2
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)] if keep else list(rows.shape[:-1])
    return [found[..., middle].reshape(shape) for found in (values, places.to(torch.int32))]


@rule("SplineBasis", domain=DOMAIN)
def spline_basis(site: Site) -> Results:
    """Basis functions of splines at points of [0, 1], and their weights' numbers: [points, (degree + 1) ** dims]."""
    points, sizes, is_open = site.input(0), site.input(1).to(torch.int64), site.input(2)
    degree = site.get("degree", 1)
    if degree not in (1, 2, 3):
        site.fail(f"has the degree {degree}: 1, 2 and 3 are known")
    many = degree + 1
    if points.dim() != 2 or points.shape[1] > _MOST_DIMENSIONS:
        site.fail(f"takes points [points, dimensions] of at most {_MOST_DIMENSIONS} dimensions")
    site.check_size([points.shape[0], many ** points.shape[1]])
    room = sizes - degree * is_open.to(torch.int64)
    scaled = points * room.to(points.dtype)
    whole = torch.floor(scaled)
    bases = _evaluate_bases(scaled - whole, degree)  # [points, dims, degree + 1]
    weights = torch.ones((points.shape[0], 1), dtype=points.dtype)
    index = torch.zeros((points.shape[0], 1), dtype=torch.int64)
    factor = torch.ones((), dtype=torch.int64)
    for dim in range(points.shape[1]):
        step = (whole[:, dim, None].to(torch.int64) + torch.arange(many)) % sizes[dim]
        # The first dimension counts fastest.
        weights = (bases[:, dim, :, None] * weights[:, None, :]).reshape(points.shape[0], -1)
        index = ((step * factor)[:, :, None] + index[:, None, :]).reshape(points.shape[0], -1)
        factor = factor * sizes[dim]
    return [weights, index.to(torch.int32)]


def _evaluate_bases(v: torch.Tensor, degree: int) -> torch.Tensor:
    if degree == 1:
        parts = [1 - v, v]
    elif degree == 2:
        parts = [0.5 * v * v - v + 0.5, -v * v + v + 0.5, 0.5 * v * v]
    else:
        cube, square = v * v * v, v * v
        parts = [
            (1 - v) ** 3 / 6,
            (3 * cube - 6 * square + 4) / 6,
            (-3 * cube + 3 * square + 3 * v + 1) / 6,
            cube / 6,
        ]
    return torch.stack(parts, -1)


@rule("SplineWeighting", domain=DOMAIN)
def weigh_by_splines(site: Site) -> torch.Tensor:
    """Each row times the weights that its splines choose, added up as their basis functions say."""
    x, weight, basis, index = (site.input(place) for place in range(4))
    chosen = weight.index_select(0, index.reshape(-1).to(torch.int64))
    matrices = chosen.reshape(*index.shape, *weight.shape[1:])  # [points, splines, in, out]
    mixed = (matrices * basis[:, :, None, None]).sum(1)
    return torch.matmul(x[:, None, :], mixed)[:, 0]
