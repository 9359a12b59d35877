"""Tutorial 7: the same product in segments of rows, so that every worker has work and less travels: which split?

    python examples/poplar/tut7_matrix_vector_opt.py 10000 1000 [ipu1|ipu2]

The estimates are those of the published tutorial: for 10000 x 1000 on a Mk2 the best split is 7 with 3,996 cycles.
"""

import sys

import numpy as np

from poplar import FLOAT, Engine, Graph, Input, IPUModel, Output, Vector, Vertex
from poplar.program import Copy, Execute, Sequence


class DotProductVertex(Vertex):
    """All vertices of one length at once: fields are arrays [vertices, length], or [vertices] for a scalar."""

    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    @staticmethod
    def computeAll(fields):
        fields["out"][:] = np.einsum("ij,ij->i", fields["a"], fields["b"])


class ReduceVertex(Vertex):
    in_: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    @staticmethod
    def computeAll(fields):
        fields["out"][:] = fields["in_"].sum(axis=1)


def ceil_divide(a: int, b: int) -> int:
    return -(-a // b)


def estimate_cycles(target, rows: int, columns: int, split: int) -> tuple[int, int, int, int]:
    """Compute and exchange of the products, exchange and compute of the sums: the busiest tile counts."""
    tiles, workers, rate = target.getNumTiles(), target.getNumWorkerContexts(), target.getExchangeBytesPerCycle()
    vertices = max(ceil_divide(rows * split, tiles), 1)
    products = ceil_divide(vertices, workers) * workers * (5 + (ceil_divide(columns, split) + 1) // 2)
    arriving = ceil_divide(vertices, rows) * ceil_divide(columns, split) * 4 // rate
    sums = max(ceil_divide(rows, tiles), 1)
    adding = ceil_divide(sums, workers) * workers * (5 + (split + 1) // 2)
    return products, arriving, sums * split * 4 // rate, adding


def choose_split(target, rows: int, columns: int) -> int:
    costs = {split: estimate_cycles(target, rows, columns, split) for split in range(1, columns)}
    best = min(costs, key=lambda split: sum(costs[split]))
    compute, exchange, reduce_exchange, reduce_compute = costs[best]
    print(
        f"Best split chosen:\ncolsAxisSplit={best}, total cost={sum(costs[best])} (compute cost={compute}, exchange "
        f"cost={exchange}, reduce exchange cost={reduce_exchange}, reduce compute cost={reduce_compute})"
    )
    print("Worst cost seen:", max(sum(cost) for cost in costs.values()))
    return best


def build_program(graph, rows: int, columns: int, split: int) -> Sequence:
    """Streams in, products of segments, sums of partial results, stream out."""
    graph.addCodelets(DotProductVertex)
    graph.addCodelets(ReduceVertex)
    matrix = graph.addVariable(FLOAT, [rows, columns], "matrix")
    vector = graph.addVariable(FLOAT, [columns], "inputVector")
    result = graph.addVariable(FLOAT, [rows], "outputVector")
    tiles = graph.getTarget().getNumTiles()
    partials = graph.addVariable(FLOAT, [rows, split], "partials")
    for column in range(columns):
        graph.setTileMapping(vector[column], column * tiles // columns)
    products, sums = graph.addComputeSet("mulCS"), graph.addComputeSet("reduceCS")
    for part in range(split):
        begin, end = part * columns // split, (part + 1) * columns // split
        piece = vector.slice(begin, end)
        for row in range(rows):
            segment, out = matrix[row].slice(begin, end), partials[row][part]
            vertex = graph.addVertex(products, "DotProductVertex", {"a": segment, "b": piece, "out": out})
            tile = (part * rows + row) * tiles // (split * rows)
            graph.setTileMapping(vertex, tile)
            graph.setTileMapping(segment, tile)
            graph.setTileMapping(out, tile)
            graph.setPerfEstimate(vertex, 5 + (end - begin + 1) // 2)  # a start, then two products a cycle
    for row in range(rows):
        vertex = graph.addVertex(sums, "ReduceVertex", {"in": partials[row], "out": result[row]})
        tile = row * tiles // rows
        graph.setTileMapping(vertex, tile)
        graph.setTileMapping(result[row], tile)
        graph.setPerfEstimate(vertex, 5 + (split + 1) // 2)
    return Sequence(
        Copy(graph.addHostToDeviceFIFO("inputVector", FLOAT, columns), vector),
        Copy(graph.addHostToDeviceFIFO("inputMatrix", FLOAT, rows * columns), matrix),
        Execute(products),
        Execute(sums),
        Copy(result, graph.addDeviceToHostFIFO("out", FLOAT, rows)),
    )


def make_device(version: str = "ipu2"):
    """A model whose syncs cost nothing: the estimates do not count them."""
    model = IPUModel(version)
    model.minIPUSyncDelay = 0
    model.relativeSyncDelay = IPUModel.RelativeSyncDelayType.NO_DELAY
    return model.createDevice()


def multiply(device, left, right, split: int):
    """Build and run; the engine, and what the device found."""
    rows, columns = left.shape
    graph = Graph(device)
    engine = Engine(graph, build_program(graph, rows, columns, split))
    engine.load(device)
    found = np.zeros(rows, np.float32)
    engine.connectStream("inputVector", right)
    engine.connectStream("inputMatrix", left)
    engine.connectStream("out", found)
    engine.run()
    return engine, found


def main():
    rows, columns = (int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (1000, 100)
    device = make_device(sys.argv[3] if len(sys.argv) > 3 else "ipu2")
    print(f"Multiplying matrix of size {rows}x{columns} by vector of size {columns}")
    left = np.outer(np.arange(rows), np.arange(columns)).astype(np.float32)
    right = np.arange(columns, dtype=np.float32)
    print("Running graph program to multiply matrix by vector")
    engine, found = multiply(device, left, right, choose_split(device.getTarget(), rows, columns))
    expected = left.astype(np.float64) @ right
    if not np.allclose(found, expected, rtol=1e-5):
        sys.exit("ERROR: the result is wrong")
    print("Multiplication result OK")
    engine.printProfileSummary(options={"showExecutionSteps": "true"})


if __name__ == "__main__":
    main()
