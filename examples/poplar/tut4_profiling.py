"""Tutorial 4: where do cycles and memory go? Three matrices are multiplied, and the profile says.

python examples/poplar/tut4_profiling.py [directory]
openipu report directory/profile.pop --html report.html
"""

import sys

import poplin
import poputil
import pva
from poplar import FLOAT, Engine, Graph, IPUModel
from poplar.program import Sequence


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else "report"
    device = IPUModel().createDevice()
    graph = Graph(device)
    poplin.addCodelets(graph)

    sizes = {"m1": [900, 600], "m2": [600, 300], "m3": [300, 200]}
    matrices = {name: graph.addVariable(FLOAT, shape, name) for name, shape in sizes.items()}
    for matrix in matrices.values():
        poputil.mapTensorLinearly(graph, matrix)

    program = Sequence()
    m4 = poplin.matMul(graph, matrices["m1"], matrices["m2"], program, "m1 x m2")
    poplin.matMul(graph, m4, matrices["m3"], program, "m4 x m3")

    options = {"autoReport.all": "true", "autoReport.directory": directory, "debug.retainDebugInformation": "true"}
    engine = Engine(graph, program, options)
    engine.load(device)
    engine.run(0)
    engine.printProfileSummary(options={"showExecutionSteps": "true"})

    report = pva.openReport(f"{directory}/profile.pop")
    print("Number of compute sets:", report.compilation.graph.numComputeSets)
    print("Number of tiles on target:", report.compilation.target.numTiles)
    for step in report.execution.steps:
        print(f"  {step.program.type.value:<14} {step.program.name}: {step.ipus[0].cycles} cycles")


if __name__ == "__main__":
    main()
