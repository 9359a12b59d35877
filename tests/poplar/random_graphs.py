"""Random programs, from choices that hypothesis draws: variables, views, compute sets, control flow, streams."""

from __future__ import annotations

import numpy as np

import poplar
from poplar import BOOL, FLOAT, HALF, INT, InOut, Input, Output, Vector, VectorList, Vertex
from poplar.program import Call, Copy, Execute, If, Repeat, RepeatWhileTrue, Sequence, Switch

TYPES = (FLOAT, INT, HALF)


class Scale(Vertex):
    """out = a * k + first element of a"""

    a: Input[Vector[FLOAT]]
    k: float
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.out[:] = self.a[: len(self.out)] * np.float32(self.k) + self.a[0]
        return True


class AddAll(Vertex):
    values: Input[Vector[INT]]
    out: InOut[INT]

    def compute(self):
        self.out.value = np.int32((int(self.out.value) + int(self.values.sum())) % 1000)
        return True


class Join(Vertex):
    parts: Input[VectorList[HALF]]
    out: Output[Vector[HALF]]

    def compute(self):
        for place in range(len(self.out)):
            self.out[place] = self.parts[place % len(self.parts)][0] + np.float16(place)
        return True


class Swap(Vertex):
    """Reads and writes one tensor: the last element comes first."""

    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self):
        for place in range(len(self.y)):
            self.y[place] = self.x[len(self.x) - 1 - place]
        return True


class CountDown(Vertex):
    left: InOut[INT]
    more: Output[BOOL]

    def compute(self):
        self.left.value = self.left.value - 1
        self.more.value = self.left.value > 0
        return True


class Odd(Vertex):
    """Returns whether a number is odd, and adds one to it."""

    x: InOut[INT]

    def compute(self):
        self.x.value = np.int32((int(self.x.value) + 1) % 1000)
        return bool(self.x.value % 2 == 0)


class Builder:
    """Makes one program from choices: `pick(low, high)` draws a whole number."""

    def __init__(self, pick, *, races: bool) -> None:
        self.pick, self.races = pick, races
        model = poplar.IPUModel()
        model.tilesPerIPU = 4
        self.device = model.createDevice()
        self.graph = poplar.Graph(self.device)
        for codelet in (Scale, AddAll, Join, Swap, CountDown, Odd):
            self.graph.addCodelets(codelet)
        self.variables: dict[object, list[poplar.Tensor]] = {
            element: [self.variable(element, [self.pick(2, 4), self.pick(2, 5)]) for _ in range(2)] for element in TYPES
        }
        self.flag = self.variable(BOOL, [])
        self.number = self.variable(INT, [])
        self.streams = 0
        self.functions: list = []

    def variable(self, element, shape):
        made = self.graph.addVariable(element, shape, f"v{len(self.graph._store.variables)}")
        flat = made.flatten()
        cut = self.pick(0, flat.numElements())
        self.graph.setTileMapping(flat.slice(0, cut), self.pick(0, 3))
        self.graph.setTileMapping(flat.slice(cut, flat.numElements()), self.pick(0, 3))
        return made

    def view(self, element, *, most: int = 3):
        """A view of a variable, or of two of them joined."""
        held = self.variables[element]
        view = held[self.pick(0, len(held) - 1)]
        if self.pick(0, 5) == 0:
            view = poplar.concat([view.flatten(), held[0].flatten()])
        for _ in range(self.pick(0, most)):
            choice = self.pick(0, 6)
            axis = self.pick(0, view.rank() - 1)
            size = view.dim(axis)
            if choice == 0:
                view = view.reverse(axis)
            elif choice == 1 and size > 1:
                low = self.pick(0, size - 1)
                view = view.slice(low, self.pick(low + 1, size), axis)
            elif choice == 2 and view.rank() == 2:
                view = view.transpose()
            elif choice == 3:
                view = view.flatten()
            elif choice == 4:
                view = view.subSample(self.pick(1, 2), axis)
            elif choice == 5:
                view = view.expand([0]).squeeze([0])
        return view

    def writeable(self, element, **named):
        view = self.view(element, **named)
        return view if view.isParallelWriteable() else self.variables[element][0]

    def program(self, depth: int):
        choice = self.pick(0, 11 if depth else 6)
        if choice <= 1:
            return self.copy()
        if choice <= 3:
            return Execute(self.compute_set())
        if choice == 4:
            return Execute(self.compute_set(exits=True), self.flag)
        if choice == 5:
            return self.stream()
        if choice == 6:
            return Sequence()
        if choice == 7:
            return Sequence(*(self.program(depth - 1) for _ in range(self.pick(1, 4))))
        if choice == 8:
            return Repeat(self.pick(0, 3), self.program(depth - 1))
        if choice == 9:
            return If(self.flag, self.program(depth - 1), self.program(depth - 1))
        if choice == 10:
            cases = [(value, self.program(depth - 1)) for value in range(self.pick(0, 2))]
            return Switch(self.number, cases, self.program(depth - 1))
        if self.functions and self.pick(0, 1):
            return Call(self.functions[self.pick(0, len(self.functions) - 1)])
        if self.pick(0, 1):
            self.functions.append(self.graph.addFunction(self.program(depth - 1)))
            return Call(self.functions[-1])
        return self.loop(depth)

    def loop(self, depth: int):
        """Counts down from a few."""
        left, more = self.variable(INT, []), self.variable(BOOL, [])
        start = self.graph.addConstant(INT, [], self.pick(1, 3))
        self.graph.setTileMapping(start, 0)
        compute_set = self.graph.addComputeSet()
        vertex = self.graph.addVertex(compute_set, "CountDown", {"left": left, "more": more})
        self.graph.setTileMapping(vertex, self.pick(0, 3))
        return Sequence(Copy(start, left), RepeatWhileTrue(Execute(compute_set), more, self.program(depth - 1)))

    def copy(self):
        element = TYPES[self.pick(0, 2)]
        target = self.writeable(element).flatten()
        source = self.view(element).flatten()
        count = min(target.numElements(), source.numElements())
        return Copy(source.slice(0, count), target.slice(0, count))

    def stream(self):
        element = TYPES[self.pick(0, 2)]
        if self.pick(0, 1):
            target = self.writeable(element)
            made = self.graph.addHostToDeviceFIFO(f"s{self.streams}", element, target.numElements())
            program = Copy(made, target)
        else:
            source = self.view(element)
            made = self.graph.addDeviceToHostFIFO(f"s{self.streams}", element, source.numElements())
            program = Copy(source, made)
        self.streams += 1
        return program

    def compute_set(self, *, exits: bool = False):
        compute_set = self.graph.addComputeSet()
        taken: set[tuple[int, int]] = set()
        for _ in range(self.pick(1, 5)):
            fields, codelet = self.vertex(exits=exits)
            touched = [self._addresses(value) for value in fields.values()]
            if not self.races and any(taken & addresses for addresses in touched):
                continue
            for addresses in touched:
                taken |= addresses
            vertex = self.graph.addVertex(compute_set, codelet, fields)
            self.graph.setTileMapping(vertex, self.pick(0, 3))
            if codelet == "Scale":
                self.graph.setInitialValue(vertex["k"], float(self.pick(-2, 2)))
        return compute_set

    def vertex(self, *, exits: bool):
        choice = self.pick(0, 5 if exits else 3)
        if choice > 3:
            out = self.writeable(INT).flatten()
            return {"x": out[self.pick(0, out.numElements() - 1)]}, "Odd"
        if choice == 0:
            a, out = self.view(FLOAT).flatten(), self.writeable(FLOAT).flatten()
            count = min(a.numElements(), out.numElements())
            return {"a": a, "out": out.slice(0, count)}, "Scale"
        if choice == 1:
            out = self.writeable(INT).flatten()
            return {"values": self.view(INT).flatten(), "out": out[self.pick(0, out.numElements() - 1)]}, "AddAll"
        if choice == 2:
            parts = [self.view(HALF).flatten() for _ in range(self.pick(1, 3))]
            return {"parts": parts, "out": self.writeable(HALF).flatten()}, "Join"
        both = self.writeable(FLOAT).flatten()
        return {"x": both, "y": both}, "Swap"

    @staticmethod
    def _addresses(value) -> set[tuple[int, int]]:
        tensors = value if isinstance(value, list) else [value]
        return {(one.elementType().bytes, int(address)) for one in tensors for address in one.addresses().reshape(-1)}
