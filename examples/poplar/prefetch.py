"""Prefetch: a stream whose data are ready before the device asks for them.

With the option below, the host fetches the data of the next transfer while the device still computes. A callback says
how: `prefetch` may be called ahead, `complete` says that a transfer was used. When a stream gets another callback, what
was fetched ahead from the old one is dropped.

    python examples/poplar/prefetch.py
"""

import numpy as np

from poplar import FLOAT, Engine, Graph, Input, IPUModel, Output, StreamCallback, Vector, Vertex
from poplar.program import Copy, Execute, Repeat, Sequence

ELEMENTS, REPEATS = 8, 5
INPUTS = (1.0, 3.0, 3.0, 9.0, 9.0)


class Increment(Vertex):
    """Reads and writes one tensor: what one vertex alone touches, it may change in place."""

    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    @staticmethod
    def computeAll(fields):
        fields["y"][:] = fields["x"] + 1


class Fill(StreamCallback):
    """A source of one number, which says what is asked of it."""

    def __init__(self, value):
        self.value = value

    def prefetch(self, buffer):
        print(f"prefetch (value: {self.value:g})")
        buffer[...] = self.value
        return StreamCallback.Result.Success

    def fetch(self, buffer):
        print(f"fetch (value: {self.value:g})")
        buffer[...] = self.value

    def complete(self):
        print(f"complete (value: {self.value:g})")


def main():
    device = IPUModel().createDevice()
    graph = Graph(device)
    graph.addCodelets(Increment)
    data = graph.addVariable(FLOAT, [ELEMENTS], "data")
    graph.setTileMapping(data, 0)
    step = graph.addComputeSet("step")
    vertex = graph.addVertex(step, "Increment", {"x": data, "y": data})
    graph.setTileMapping(vertex, 0)
    entered = graph.addHostToDeviceFIFO("in", FLOAT, ELEMENTS)
    left = graph.addDeviceToHostFIFO("out", FLOAT, ELEMENTS)
    program = Repeat(REPEATS, Sequence(Copy(entered, data), Execute(step), Copy(data, left)))

    engine = Engine(graph, program, {"exchange.streamBufferOverlap": "none", "exchange.enablePrefetch": "true"})
    engine.load(device)
    result = np.zeros(ELEMENTS, np.float32)
    engine.connectStream("out", result)
    before = None
    for value in INPUTS:
        if value != before:
            print("Set input callback")
            engine.connectStreamToCallback("in", Fill(value))
            before = value
        print("Running")
        engine.run(0)
        if not (result == value + 1).all():
            raise SystemExit(f"{result} is not {value} + 1")
        print(f"Result: {result.tolist()}")


if __name__ == "__main__":
    main()
