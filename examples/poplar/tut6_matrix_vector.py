"""Tutorial 6: a matrix times a vector, one vertex a row, on the host's processor, which needs no tiles.

python examples/poplar/tut6_matrix_vector.py 40 50
"""

import sys

import numpy as np

from poplar import FLOAT, Device, Engine, Graph, Input, Output, Vector, Vertex
from poplar.program import Copy, Execute, Sequence


class DotProductVertex(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out.value = np.dot(self.a, self.b)
        return True


def main():
    rows, columns = (int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (40, 50)
    print(f"Multiplying matrix of size {rows}x{columns} by vector of size {columns}")
    device = Device.createCPUDevice()
    graph = Graph(device)
    graph.addCodelets(DotProductVertex)

    matrix = graph.addVariable(FLOAT, [rows, columns], "matrix")
    vector = graph.addVariable(FLOAT, [columns], "vector")
    result = graph.addVariable(FLOAT, [rows], "result")
    products = graph.addComputeSet("products")
    for row in range(rows):
        graph.addVertex(products, "DotProductVertex", {"a": matrix[row], "b": vector, "out": result[row]})

    program = Sequence(
        Copy(graph.addHostToDeviceFIFO("vector", FLOAT, columns), vector),
        Copy(graph.addHostToDeviceFIFO("matrix", FLOAT, rows * columns), matrix),
        Execute(products),
        Copy(result, graph.addDeviceToHostFIFO("result", FLOAT, rows)),
    )
    engine = Engine(graph, program)
    engine.load(device)
    left = np.outer(np.arange(rows), np.arange(columns)).astype(np.float32)
    right, found = np.arange(columns, dtype=np.float32), np.zeros(rows, np.float32)
    engine.connectStream("vector", right)
    engine.connectStream("matrix", left)
    engine.connectStream("result", found)
    engine.run()
    if not np.array_equal(found, left @ right):
        sys.exit("ERROR: the result is wrong")
    print("Multiplication result OK")


if __name__ == "__main__":
    main()
