"""Conway's game of life on a torus, one row on each tile; neighbours' rows come over the exchange.

python examples/poplar/game_of_life.py [generations]
"""

import sys

import numpy as np

import poplar
from poplar import UNSIGNED_CHAR, Engine, Graph, Input, IPUModel, Output, Vector, Vertex
from poplar.program import Copy, Execute, Repeat, Sequence

ROWS, COLUMNS = 48, 64


class LifeVertex(Vertex):
    above: Input[Vector[UNSIGNED_CHAR]]
    row: Input[Vector[UNSIGNED_CHAR]]
    below: Input[Vector[UNSIGNED_CHAR]]
    out: Output[Vector[UNSIGNED_CHAR]]

    @staticmethod
    def computeAll(fields):
        rows = [fields[name] for name in ("above", "row", "below")]
        around = sum(np.roll(row, shift, axis=1) for row in rows for shift in (-1, 0, 1)) - fields["row"]
        fields["out"][:] = (around == 3) | ((around == 2) & (fields["row"] == 1))


def add_generation(graph: Graph, old: poplar.Tensor, new: poplar.Tensor) -> Execute:
    generation = graph.addComputeSet("generation")
    for row in range(ROWS):
        fields = {"above": old[(row - 1) % ROWS], "row": old[row], "below": old[(row + 1) % ROWS], "out": new[row]}
        vertex = graph.addVertex(generation, LifeVertex, fields)
        graph.setTileMapping(vertex, row)
    return Execute(generation)


def play(board: np.ndarray, generations: int) -> np.ndarray:
    """The same with numpy."""
    for _ in range(generations):
        turned = [np.roll(board, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
        around = sum(one.astype(int) for one in turned)
        board = ((around == 3) | ((around == 2) & (board == 1))).astype(np.uint8)
    return board


def main():
    generations = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    model = IPUModel()
    model.tilesPerIPU = ROWS
    device = model.createDevice()
    graph = Graph(device)
    graph.addCodelets(LifeVertex)
    boards = [graph.addVariable(UNSIGNED_CHAR, [ROWS, COLUMNS], name) for name in ("board", "next")]
    for board in boards:
        for row in range(ROWS):
            graph.setTileMapping(board[row], row)
    graph.createHostWrite("board", boards[0])
    graph.createHostRead("board", boards[0])
    both = Sequence(add_generation(graph, *boards), Copy(boards[1], boards[0]))
    engine = Engine(graph, Repeat(generations, both))
    engine.load(device)
    start = (np.random.default_rng(1).random((ROWS, COLUMNS)) < 0.3).astype(np.uint8)
    engine.writeTensor("board", start)
    engine.run()
    found = engine.readTensor("board")
    for row in found[:12]:
        print("".join("#" if cell else "." for cell in row))
    same = np.array_equal(found, play(start, generations))
    print(
        f"{generations} generations, {int(found.sum())} cells alive;", "as numpy says" if same else "NOT as numpy says"
    )


if __name__ == "__main__":
    main()
