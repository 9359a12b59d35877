"""ATen's many ways to index, each told as rows of a table.

In: a site of embedding, gather, index, scatter and so on. Out: the cost of the `Lookup` that it is.
"""

from __future__ import annotations

import math

import torch

from openipu.ops.cost import CostContext, Family, OpCost, Operand, OpSite
from openipu.ops.kernels import ADD, MULTIPLY
from openipu.ops.rule import read_argument, read_operand
from openipu.ops.rules.gather import Lookup, cost_gather_of, cost_scatter_of, cost_update_of, count_rows
from openipu.ops.steps import combine, pass_over, wrap


def cost_embedding(site: OpSite, context: CostContext) -> OpCost:
    """`embedding(weight, indices)`."""
    table, indices = read_operand(site, 0, "weight"), read_operand(site, 1, "indices")
    return cost_gather_of(Lookup(table.shape[0], table.shape[1], indices.elements, table.dtype), context)


def cost_embedding_backward(site: OpSite, context: CostContext) -> OpCost:
    """`embedding_dense_backward(grad, indices, num_weights, …)`: rows added into zeros."""
    gradient, indices = read_operand(site, 0, "grad_output"), read_operand(site, 1, "indices")
    entries = int(read_argument(site, 2, "num_weights"))
    problem = Lookup(entries, gradient.shape[-1], indices.elements, gradient.dtype)
    return cost_scatter_of(problem, context, from_zero=True)


def cost_embedding_bag(site: OpSite, context: CostContext) -> OpCost:
    """Rows taken, then added up bag by bag."""
    table, indices = read_operand(site, 0, "weight"), read_operand(site, 1, "indices")
    row = table.shape[1]
    rows = cost_gather_of(Lookup(table.shape[0], row, indices.elements, table.dtype), context)
    added = pass_over(ADD, indices.elements * row, table.dtype, context, inputs=2, name="add up bags")
    return combine(Family.GATHER, rows, wrap(Family.GATHER, added, basis="one add an element"))


def cost_embedding_bag_backward(site: OpSite, context: CostContext) -> OpCost:
    """Each bag's gradient goes to all its rows."""
    gradient, indices, result = site.operands[0], site.operands[1], site.outputs[0]
    problem = Lookup(result.shape[0], gradient.shape[-1], indices.elements, gradient.dtype)
    return cost_scatter_of(problem, context, from_zero=True)


def cost_index_select(site: OpSite, context: CostContext) -> OpCost:
    """`index_select(self, dim, index)`: whole slices."""
    table, index = site.operands[0], site.operands[-1]
    dim = int(read_argument(site, 1, "dim", 0)) % max(1, len(table.shape))
    entries, row = count_rows(table.shape, (dim,) if table.shape else ())
    return cost_gather_of(Lookup(entries, row, index.elements, table.dtype), context)


def cost_gather(site: OpSite, context: CostContext) -> OpCost:
    """`gather(self, dim, index)` and `take`: single elements, or rows where the index is expanded over them."""
    return cost_gather_of(_find_rows(site.operands[0], site.operands[-1]), context)


def cost_index(site: OpSite, context: CostContext) -> OpCost:
    """`index(self, [indices])`: rows along the indexed dimensions."""
    table = site.operands[0]
    entries, row = count_rows(table.shape, _find_indexed(site))
    lookups = site.outputs[0].elements // row if row else 0
    return cost_gather_of(Lookup(entries, row, lookups, table.dtype), context)


def cost_index_put(site: OpSite, context: CostContext) -> OpCost:
    """`index_put(self, [indices], values, accumulate)`: rows written or added into a copy of the table."""
    table = site.operands[0]
    entries, row = count_rows(table.shape, _find_indexed(site))
    values = read_operand(site, 2, "values")
    indices = [index for index in read_argument(site, 1, "indices") if isinstance(index, Operand)]
    lookups = max(index.elements for index in indices) if indices else values.elements // max(1, row)
    if indices and indices[0].dtype is torch.bool:
        lookups = entries
    return cost_scatter_of(Lookup(entries, row, lookups, table.dtype), context, from_zero=False)


def cost_scatter(site: OpSite, context: CostContext) -> OpCost:
    """`scatter(self, dim, index, src)` and its kin: single elements, or rows where the index is expanded over them."""
    table = read_operand(site, 0, "self")
    index = read_operand(site, 2 if len(site.args) > 2 else 1, "index")
    return cost_scatter_of(_find_rows(table, index), context, from_zero=False)


def cost_index_add(site: OpSite, context: CostContext) -> OpCost:
    """`index_add(self, dim, index, source)`: whole slices."""
    return cost_scatter_of(_find_slices(site), context, from_zero=False)


def cost_index_copy(site: OpSite, context: CostContext) -> OpCost:
    """`index_copy(self, dim, index, source)`, `index_fill`: whole slices, written over what was there."""
    return cost_update_of(_find_slices(site), context)


def _find_slices(site: OpSite) -> Lookup:
    table, index = read_operand(site, 0, "self"), read_operand(site, 2, "index")
    dim = int(read_argument(site, 1, "dim", 0)) % max(1, len(table.shape))
    entries, row = count_rows(table.shape, (dim,) if table.shape else ())
    return Lookup(entries, row, index.elements, table.dtype)


def _find_rows(table: Operand, index: Operand) -> Lookup:
    """PopTorch tells its gather and scatter that an index is expanded, and whole rows are moved: PopART's
    `enable_index_broadcast`. So messages between nodes of a graph are rows of features."""
    row = math.prod(index.shape[dim] for dim in index.repeated)
    if len(table.shape) != len(index.shape):  # `take` counts the elements of the table, whatever its shape
        return Lookup(table.elements, 1, index.elements, table.dtype)
    entries = math.prod(size for dim, size in enumerate(table.shape) if dim not in index.repeated)
    return Lookup(entries, row, index.elements // max(1, row), table.dtype)


def cost_grid_sample(site: OpSite, context: CostContext) -> OpCost:
    """Four neighbours of each point, weighted and added: rows of channels taken by index."""
    image, result = site.operands[0], site.outputs[0]
    return _cost_sampled(image, result, context, backward=False)


def cost_grid_sample_backward(site: OpSite, context: CostContext) -> OpCost:
    """Each point's gradient is added to its four neighbours."""
    gradient, image = site.operands[0], site.operands[1]
    return _cost_sampled(image, gradient, context, backward=True)


def _cost_sampled(image: Operand, points: Operand, context: CostContext, *, backward: bool) -> OpCost:
    neighbours = 1 << (len(image.shape) - 2)
    channels = image.shape[1]
    places = points.elements // max(1, channels)
    entries = image.shape[0] * math.prod(image.shape[2:])
    problem = Lookup(entries, channels, places * neighbours, image.dtype)
    weighing = pass_over(MULTIPLY, points.elements * neighbours, image.dtype, context, inputs=2, name="weigh")
    weighed = wrap(Family.GATHER, weighing, basis="one multiply for each neighbour")
    if backward:
        return combine(Family.SCATTER, weighed, cost_scatter_of(problem, context, from_zero=True))
    return combine(Family.GATHER, cost_gather_of(problem, context), weighed)


def _find_indexed(site: OpSite) -> tuple[int, ...]:
    """Dimensions of the table that have an index; a boolean mask stands for as many as it has itself."""
    dims: list[int] = []
    position = 0
    for index in read_argument(site, 1, "indices"):
        if not isinstance(index, Operand):
            position += 1
            continue
        covered = len(index.shape) if index.dtype in (torch.bool, torch.uint8) else 1
        dims += range(position, position + covered)
        position += covered
    return tuple(dims)
