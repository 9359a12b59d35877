"""One program of library functions: tensors with values, and what it makes of them."""

from __future__ import annotations

import numpy as np

import poplar
import poputil
from poplar import BOOL, FLOAT, INT, UNSIGNED_INT
from poplar.program import Sequence


class Bench:
    """Tensors with values, one program, and what it makes of them."""

    def __init__(self, device: poplar.Device) -> None:
        self.device = device
        self.graph = poplar.Graph(device)
        self.prog = Sequence()
        self._values: dict[str, np.ndarray] = {}

    def give(self, values, element=None) -> poplar.Tensor:
        array = np.asarray(values)
        if element is None:
            element = {"f": FLOAT, "i": INT, "b": BOOL, "u": UNSIGNED_INT}[array.dtype.kind]
        array = array.astype(element.dtype)
        name = f"in{len(self._values)}"
        tensor = self.graph.addVariable(element, array.shape, name)
        poputil.mapTensorLinearly(self.graph, tensor)
        self.graph.createHostWrite(name, tensor)
        self._values[name] = array
        return tensor

    def read(self, *tensors: poplar.Tensor) -> list[np.ndarray]:
        for number, tensor in enumerate(tensors):
            self.graph.createHostRead(f"out{number}", tensor)
        engine = poplar.Engine(self.graph, self.prog)
        engine.load(self.device)
        for name, values in self._values.items():
            engine.writeTensor(name, values)
        engine.run()
        return [engine.readTensor(f"out{number}") for number in range(len(tensors))]
