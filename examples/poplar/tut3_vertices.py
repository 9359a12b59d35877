"""Tutorial 3: a codelet of one's own. A compute set holds vertices that run at the same time, each on its tile."""

from poplar import FLOAT, Engine, Graph, Input, IPUModel, Output, Vector, Vertex
from poplar.program import Copy, Execute, PrintTensor, Sequence


class SumVertex(Vertex):
    """Adds up a vector. The field `in_` is called "in" where it is connected."""

    in_: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out.value = self.in_.sum()
        return True


def main():
    device = IPUModel().createDevice()
    graph = Graph(device)
    graph.addCodelets(SumVertex)

    v1 = graph.addVariable(FLOAT, [4], "v1")
    v2 = graph.addVariable(FLOAT, [4], "v2")
    c1 = graph.addConstant(FLOAT, [4], [1.0, 1.5, 2.0, 2.5])
    graph.setTileMapping(c1, 0)
    for place in range(4):
        graph.setTileMapping(v1[place], place)
        graph.setTileMapping(v2[place], place)

    # Vertex i adds up the elements from i on, so it reads from other tiles; the exchange brings what it needs.
    sums = graph.addComputeSet("sums")
    for place in range(4):
        vertex = graph.addVertex(sums, "SumVertex")
        graph.connect(vertex["in"], v1.slice(place, 4))
        graph.connect(vertex["out"], v2[place])
        graph.setTileMapping(vertex, place)
        graph.setPerfEstimate(vertex, 20)

    engine = Engine(graph, Sequence(Copy(c1, v1), Execute(sums), PrintTensor("v2", v2)))
    engine.load(device)
    engine.run(0)
    print("Program complete")


if __name__ == "__main__":
    main()
