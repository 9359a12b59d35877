"""The matrix-vector product of the tutorials, split into segments of rows: vertices, mappings, programs."""

from __future__ import annotations

import numpy as np

import poplar
from poplar import FLOAT, Input, Output, Vector, Vertex
from poplar.program import Copy, Execute, Sequence


class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    @staticmethod
    def computeAll(fields):
        fields["out"][:] = np.einsum("ij,ij->i", fields["a"], fields["b"])


class Total(Vertex):
    in_: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    @staticmethod
    def computeAll(fields):
        fields["out"][:] = fields["in_"].sum(axis=1)


def ceil_divide(a: int, b: int) -> int:
    return -(-a // b)


def estimate(target: poplar.Target, rows: int, columns: int, split: int) -> tuple[int, int, int, int]:
    """Cycles of one split: products, bringing the vector, bringing partial sums, adding them."""
    tiles, workers = target.getNumTiles(), target.getNumWorkerContexts()
    rate = target.getExchangeBytesPerCycle()
    vertices = max(ceil_divide(rows * split, tiles), 1)
    product = ceil_divide(vertices, workers) * workers * (5 + (ceil_divide(columns, split) + 1) // 2)
    bring = ceil_divide(vertices, rows) * ceil_divide(columns, split) * 4 // rate
    sums = max(ceil_divide(rows, tiles), 1)
    add = ceil_divide(sums, workers) * workers * (5 + (split + 1) // 2)
    return product, bring, sums * split * 4 // rate, add


def build(graph: poplar.Graph, rows: int, columns: int, split: int) -> Sequence:
    """Streams in, both compute sets, stream out."""
    tiles = graph.getTarget().getNumTiles()
    graph.addCodelets(DotProduct)
    graph.addCodelets(Total)
    matrix = graph.addVariable(FLOAT, [rows, columns], "matrix")
    vector = graph.addVariable(FLOAT, [columns], "vector")
    result = graph.addVariable(FLOAT, [rows], "result")
    partials = graph.addVariable(FLOAT, [rows, split], "partials")
    for column in range(columns):
        graph.setTileMapping(vector[column], column * tiles // columns)
    products, sums = graph.addComputeSet("products"), graph.addComputeSet("sums")
    for part in range(split):
        begin, end = part * columns // split, (part + 1) * columns // split
        piece = vector.slice(begin, end)
        for row in range(rows):
            segment, out = matrix[row].slice(begin, end), partials[row][part]
            vertex = graph.addVertex(products, "DotProduct", {"a": segment, "b": piece, "out": out})
            tile = (part * rows + row) * tiles // (split * rows)
            graph.setTileMapping(vertex, tile)
            graph.setTileMapping(segment, tile)
            graph.setTileMapping(out, tile)
            graph.setPerfEstimate(vertex, 5 + (end - begin + 1) // 2)
    for row in range(rows):
        vertex = graph.addVertex(sums, "Total", {"in": partials[row], "out": result[row]})
        tile = row * tiles // rows
        graph.setTileMapping(vertex, tile)
        graph.setTileMapping(result[row], tile)
        graph.setPerfEstimate(vertex, 5 + (split + 1) // 2)
    streams = [
        graph.addHostToDeviceFIFO("vector", FLOAT, columns),
        graph.addHostToDeviceFIFO("matrix", FLOAT, rows * columns),
        graph.addDeviceToHostFIFO("result", FLOAT, rows),
    ]
    return Sequence(
        Copy(streams[0], vector),
        Copy(streams[1], matrix),
        Execute(products),
        Execute(sums),
        Copy(result, streams[2]),
    )


def make_model(version: str = "ipu2") -> poplar.Device:
    """The model that the tutorial takes."""
    model = poplar.IPUModel(version)
    model.minIPUSyncDelay = 0
    model.relativeSyncDelay = poplar.IPUModel.RelativeSyncDelayType.NO_DELAY
    return model.createDevice()
