"""Heat in a rod, one piece on each tile: what a tile needs of its neighbours is all that travels.

Each step is one compute set. Every vertex reads two values beside its own piece, and writes to a second variable; then
the two change places, so no vertex reads what another writes.

    python examples/poplar/heat_equation.py [steps]
"""

import sys

import numpy as np

import poplar
from poplar import FLOAT, Engine, Graph, Input, IPUModel, Output, Vector, Vertex
from poplar.program import Copy, Execute, Repeat, Sequence

TILES, PIECE, ALPHA = 64, 32, 0.25


class HeatVertex(Vertex):
    """The piece with one neighbour on each side."""

    around: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    @staticmethod
    def computeAll(fields):
        a = fields["around"]
        fields["out"][:] = a[:, 1:-1] + ALPHA * (a[:, 2:] - 2 * a[:, 1:-1] + a[:, :-2])


def build(graph, rod, following) -> poplar.ComputeSet:
    """One step: `following` from `rod`. The ends of the rod are kept at zero."""
    edge = graph.addConstant(FLOAT, [1], 0.0, "edge")
    graph.setTileMapping(edge, 0)
    padded = poplar.concat([edge, rod, edge])
    step = graph.addComputeSet("step")
    for tile in range(TILES):
        begin = tile * PIECE
        vertex = graph.addVertex(
            step,
            HeatVertex,
            {"around": padded.slice(begin, begin + PIECE + 2), "out": following[begin : begin + PIECE]},
        )
        graph.setTileMapping(vertex, tile)
        graph.setPerfEstimate(vertex, 10 + 3 * PIECE)
    return step


def simulate(start: np.ndarray, steps: int) -> np.ndarray:
    """The same with numpy."""
    rod = start.copy()
    for _ in range(steps):
        padded = np.pad(rod, 1)
        rod = padded[1:-1] + np.float32(ALPHA) * (padded[2:] - 2 * padded[1:-1] + padded[:-2])
    return rod


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    model = IPUModel()
    model.tilesPerIPU = TILES
    device = model.createDevice()
    graph = Graph(device)
    graph.addCodelets(HeatVertex)
    rods = [graph.addVariable(FLOAT, [TILES * PIECE], name) for name in ("rod", "following")]
    for rod in rods:
        for tile in range(TILES):
            graph.setTileMapping(rod[tile * PIECE : (tile + 1) * PIECE], tile)
    forth, back = build(graph, *rods), build(graph, *reversed(rods))
    stream = graph.addHostToDeviceFIFO("start", FLOAT, TILES * PIECE)
    out = graph.addDeviceToHostFIFO("end", FLOAT, TILES * PIECE)
    both = Repeat(steps // 2, Sequence(Execute(forth), Execute(back)))
    engine = Engine(graph, Sequence(Copy(stream, rods[0]), both, Copy(rods[0], out)))
    engine.load(device)

    start = np.zeros(TILES * PIECE, np.float32)
    start[len(start) // 2] = 1000.0
    end = np.zeros_like(start)
    engine.connectStream("start", start)
    engine.connectStream("end", end)
    engine.run()
    expected = simulate(start, steps // 2 * 2)
    print(f"{steps // 2 * 2} steps; hottest {end.max():.3f}, heat {end.sum():.1f}")
    print("Largest difference from numpy:", float(np.abs(end - expected).max()))
    engine.printProfileSummary()


if __name__ == "__main__":
    main()
