"""Tutorial 1: variables, constants, copies, host access and streams on a model of an IPU with four tiles.

python examples/poplar/tut1_variables.py            # a model
python examples/poplar/tut1_variables.py --pod      # an IPU of the virtual pod, which only one program may hold
"""

import sys

import numpy as np

from poplar import FLOAT, INT, DeviceManager, Engine, Graph, IPUModel, TargetType
from poplar.program import Copy, PrintTensor, Sequence


def choose_device():
    if "--pod" in sys.argv:
        for device in DeviceManager.createDeviceManager().getDevices(TargetType.IPU, 1):
            if device.attach():
                print(f"Attached to IPU {device.getId()}")
                return device
        sys.exit("No IPU of the pod is free.")
    model = IPUModel()
    model.tilesPerIPU = 4
    return model.createDevice()


def main():
    device = choose_device()
    graph = Graph(device)

    # A variable is a tensor in the tiles' memory. Each element needs a tile: here element i lies on tile i.
    v1 = graph.addVariable(FLOAT, [4], "v1")
    v2 = graph.addVariable(FLOAT, [4], "v2")
    v3 = graph.addVariable(FLOAT, [4, 4], "v3")
    v4 = graph.addVariable(INT, [10], "v4")
    for place in range(4):
        graph.setTileMapping(v1[place], place)
        graph.setTileMapping(v3[place], place)
    graph.setTileMapping(v2, 2)
    graph.setTileMapping(v4, 0)

    # A constant is filled when the program is loaded. A copy needs equal element counts, not equal shapes.
    c1 = graph.addConstant(FLOAT, [4], [1.0, 1.5, 2.0, 2.5])
    graph.setTileMapping(c1, 0)
    program = Sequence(Copy(c1, v1), PrintTensor("v1", v1), Copy(v1, v2), PrintTensor("v2", v2))

    # The host can write and read a tensor by a handle, at any time after the program was loaded.
    graph.createHostWrite("v3-write", v3)
    graph.createHostRead("v3-read", v3)
    # A slice is a view: nothing is copied until a program says so.
    program.add(Copy(v1.slice(0, 3).reshape([1, 3]), v3.slice([1, 1], [2, 4])))

    # A stream brings ten numbers each time; the host's buffer of thirty goes round.
    stream = graph.addHostToDeviceFIFO("v4-in", INT, 10)
    for turn in range(2):
        program.add(Copy(stream, v4))
        program.add(PrintTensor(f"v4-{turn}", v4))

    engine = Engine(graph, program)
    engine.load(device)
    engine.writeTensor("v3-write", np.zeros((4, 4), np.float32))
    engine.connectStream("v4-in", np.arange(30, dtype=np.int32))
    print("Running program")
    engine.run(0)
    print("Program complete")
    h3 = engine.readTensor("v3-read")
    print("h3 data:")
    for row in h3:
        print("  " + " ".join(f"{value:g}" for value in row))


if __name__ == "__main__":
    main()
