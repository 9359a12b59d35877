"""Several programs over one graph, a library's compute sets, and executables that are saved and loaded.

The graph is built and compiled once. The executable has four programs: write inputs, add with a codelet, add with a
reduction of popops, read results. Loaded from a file, it runs without the graph.

    python examples/poplar/advanced_example.py [--save FILE | --load FILE] [--pod]
"""

import argparse

import numpy as np

import poplar
import popops
from poplar import FLOAT, DeviceManager, Engine, Executable, Graph, Input, IPUModel, Output, TargetType, Vector, Vertex
from poplar.program import Copy, Execute, Sequence

ELEMENTS = 4
WRITE_INPUTS, CUSTOM_PROGRAM, REDUCTION_PROGRAM, READ_RESULTS = range(4)


class VectorAdd(Vertex):
    x: Input[Vector[FLOAT]]
    y: Input[Vector[FLOAT]]
    z: Output[Vector[FLOAT]]

    @staticmethod
    def computeAll(fields):
        fields["z"][:] = fields["x"] + fields["y"]


def build(graph):
    """The four programs."""
    graph.addCodelets(VectorAdd)
    popops.addCodelets(graph)
    x, y, z = (graph.addVariable(FLOAT, [ELEMENTS], name) for name in "xyz")
    for tile, tensor in enumerate((x, y, z)):
        graph.setTileMapping(tensor, tile)

    addition = graph.addComputeSet("addition")
    vertex = graph.addVertex(addition, "VectorAdd", {"x": x, "y": y, "z": z})
    graph.setTileMapping(vertex, 2)
    graph.setPerfEstimate(vertex, 5 + ELEMENTS)

    # The same sum as the reduction of a matrix with two columns. The compute sets are the caller's to execute.
    matrix = poplar.concat([x.reshape([ELEMENTS, 1]), y.reshape([ELEMENTS, 1])], 1)
    sets = []
    popops.reduceWithOutput(graph, matrix, z, [1], popops.ReduceParams(popops.Operation.ADD), sets, "reduction")

    streams = {name: graph.addHostToDeviceFIFO(name, FLOAT, ELEMENTS) for name in ("x", "y", "z")}
    return [
        Sequence(*(Copy(streams[name], tensor) for name, tensor in (("x", x), ("y", y), ("z", z)))),
        Sequence(Execute(addition)),
        Sequence(*(Execute(one) for one in sets)),
        Sequence(Copy(z, graph.addDeviceToHostFIFO("result", FLOAT, ELEMENTS))),
    ]


def choose_device(pod):
    if not pod:
        print("Using IPU model")
        return IPUModel().createDevice()
    device = next(one for one in DeviceManager().getDevices(TargetType.IPU, 1) if one.attach())
    print(f"Using IPU {device.getId()} of the pod")
    return device


def run(device, executable):
    engine = Engine(executable)
    engine.load(device)
    x, y = np.arange(ELEMENTS, dtype=np.float32), np.full(ELEMENTS, 10, np.float32)
    results = []
    for chosen in (CUSTOM_PROGRAM, REDUCTION_PROGRAM):
        result = np.zeros(ELEMENTS, np.float32)
        for name, buffer in (("x", x), ("y", y), ("z", np.zeros(ELEMENTS, np.float32)), ("result", result)):
            engine.connectStream(name, buffer)
        for program in (WRITE_INPUTS, chosen, READ_RESULTS):
            engine.run(program)
        results.append(result)
    if not all((one == x + y).all() for one in results):
        raise SystemExit(f"Results do not match: {results}")
    print("Results match.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", metavar="FILE", help="write the executable to a file")
    parser.add_argument("--load", metavar="FILE", help="take the executable from a file; nothing is built")
    parser.add_argument("--pod", action="store_true", help="use an IPU of the virtual pod instead of a model")
    options = parser.parse_args()
    device = choose_device(options.pod)
    if options.load:
        executable = Executable.deserialize(options.load, codelets=[VectorAdd])
    else:
        graph = Graph(device)
        executable = poplar.compileGraph(graph, build(graph))
    if options.save:
        executable.serialize(options.save)
    run(device, executable)
    if options.pod:
        device.detach()


if __name__ == "__main__":
    main()
