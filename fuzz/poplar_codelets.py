"""A codelet that executables of the seeds refer to."""

from poplar import FLOAT, Input, Output, Vector, Vertex


class Increment(Vertex):
    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self):
        count = min(len(self.x), len(self.y))
        self.y[:count] = self.x[:count] + 1
        return True
