"""The same sums on the same chip, mapped in three ways: what a bulk-synchronous step costs, and who decides it.

384 rows of 512 numbers are added up, a vertex for each row. All on one tile, the other tiles wait. Spread over 64
tiles, but with each row on its vertex's neighbour, a sync and an exchange come first. With each row where its vertex
is, there is nothing to exchange.

    python examples/poplar/three_mappings.py [folder for reports]
"""

import sys
from pathlib import Path

import numpy as np

from poplar import FLOAT, Engine, Graph, Input, IPUModel, Output, Vector, Vertex
from poplar.program import Execute

TILES, ROWS, WIDTH = 64, 384, 512
MAPPINGS = {  # row -> the tile of its numbers, and the tile of its vertex
    "one tile": (lambda row: 0, lambda row: 0),
    "neighbours": (lambda row: (row + 1) % TILES, lambda row: row % TILES),
    "at home": (lambda row: row % TILES, lambda row: row % TILES),
}


class RowSum(Vertex):
    row: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    @staticmethod
    def computeAll(fields):
        fields["out"][:] = fields["row"].sum(axis=1)


def build(device, data_tile, vertex_tile):
    graph = Graph(device)
    graph.addCodelets(RowSum)
    table = graph.addVariable(FLOAT, [ROWS, WIDTH], "table")
    sums = graph.addVariable(FLOAT, [ROWS], "sums")
    rows = graph.addComputeSet("sums of rows")
    for row in range(ROWS):
        graph.setTileMapping(table[row], data_tile(row))
        graph.setTileMapping(sums[row], vertex_tile(row))
        vertex = graph.addVertex(rows, "RowSum", {"row": table[row], "out": sums[row]})
        graph.setTileMapping(vertex, vertex_tile(row))
        graph.setPerfEstimate(vertex, 5 + WIDTH)  # one cycle for each number, and a few to start
    graph.createHostWrite("table", table)
    graph.createHostRead("sums", sums)
    return Engine(graph, Execute(rows), name="three mappings")


def main():
    model = IPUModel("ipu2")
    model.tilesPerIPU = TILES
    device = model.createDevice()
    values = np.random.default_rng(0).random((ROWS, WIDTH), np.float32)
    print(f"{'':12}{'sync':>9}{'exchange':>10}{'compute':>9}{'in all':>9}  fullest tile")
    for name, (data_tile, vertex_tile) in MAPPINGS.items():
        engine = build(device, data_tile, vertex_tile)
        engine.load(device)
        engine.writeTensor("table", values)
        engine.run()
        if not np.allclose(engine.readTensor("sums"), values.sum(1), rtol=1e-5):
            raise SystemExit(f"{name}: wrong sums")
        plan = engine.getPlan()
        cycles = {
            kind: sum(step.cycles for step in plan.steps if step.kind.value == kind)
            for kind in ("sync", "exchange", "compute")
        }
        fits = "" if plan.fit.fits else ", which has less: it would not fit"
        print(
            f"{name:12}{cycles['sync']:9,.0f}{cycles['exchange']:10,.0f}{cycles['compute']:9,.0f}"
            f"{plan.timing.call_cycles:9,.0f}  {plan.fit.peak_bytes:,} B{fits}"
        )
        if len(sys.argv) > 1:
            engine.writeProfile(Path(sys.argv[1]) / name.replace(" ", "_"))


if __name__ == "__main__":
    main()
