"""Tutorial 2: library functions add steps to a program; views change how a tensor is read, and cost nothing."""

import popops
from poplar import FLOAT, Engine, Graph, IPUModel
from poplar.program import Copy, PrintTensor, Sequence


def main():
    device = IPUModel().createDevice()
    graph = Graph(device)
    popops.addCodelets(graph)

    v1 = graph.addVariable(FLOAT, [2, 2], "v1")
    v2 = graph.addVariable(FLOAT, [2, 2], "v2")
    for row in range(2):
        for column in range(2):
            graph.setTileMapping(v1[row][column], row * 2 + column)
            graph.setTileMapping(v2[row][column], row * 2 + column)
    first = graph.addConstant(FLOAT, [4], [1.0, 1.5, 2.0, 2.5])
    second = graph.addConstant(FLOAT, [4], [4.0, 3.0, 2.0, 1.0])
    for constant in (first, second):
        graph.setTileMapping(constant, 0)

    program = Sequence(Copy(first, v1.flatten()), Copy(second, v2.flatten()))
    v3 = popops.add(graph, v1, v2, program, "Add")
    program.add(PrintTensor("v3", v3))
    v4 = popops.add(graph, v3, v2, program, "Add")
    program.add(PrintTensor("v4", v4))
    v5 = popops.add(graph, v1, v2.transpose(), program, "Add")
    program.add(PrintTensor("v5", v5))

    engine = Engine(graph, program)
    engine.load(device)
    print("Running program")
    engine.run(0)
    print("Program complete")


if __name__ == "__main__":
    main()
