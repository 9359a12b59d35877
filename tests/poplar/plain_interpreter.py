"""A plain reference interpreter: one vertex, one element at a time. Nothing of the batched engine is used.

Memory is a dictionary from (element size, address) to a number. A compute set reads everything from a snapshot, runs
its vertices in order, and writes afterwards.
"""

from __future__ import annotations

import numpy as np

from openipu.graph.mapped import nodes
from openipu.graph.mapped.codelets import Access, Form
from openipu.graph.mapped.program import MappedProgram


class PlainInterpreter:
    def __init__(self, program: MappedProgram) -> None:
        self.program = program
        self.memory: dict[tuple[int, int], float] = {}
        for variable in program.variables:
            for place in range(variable.elements):
                value = 0 if variable.value is None else variable.value[place]
                self.memory[variable.type.bytes, variable.start + place] = value
        self.fed: dict[int, list] = {}
        self.drained: dict[int, list] = {number: [] for number in range(len(program.streams))}

    def read(self, view) -> list:
        return [self.memory[view.type.bytes, int(address)] for address in view.list_addresses()]

    def write(self, view, values) -> None:
        for address, value in zip(view.list_addresses(), values, strict=True):
            self.memory[view.type.bytes, int(address)] = value

    def run(self, node) -> None:
        if isinstance(node, nodes.SequenceNode):
            for child in node.children:
                self.run(child)
        elif isinstance(node, nodes.RepeatNode):
            for _ in range(node.count):
                self.run(node.body)
        elif isinstance(node, nodes.WhileNode):
            while True:
                self.run(node.condition)
                if bool(self.read(node.predicate)[0]) is not node.expected:
                    return
                self.run(node.body)
        elif isinstance(node, nodes.IfNode):
            self.run(node.then if self.read(node.predicate)[0] else node.otherwise)
        elif isinstance(node, nodes.SwitchNode):
            value = int(self.read(node.control)[0])
            self.run(dict(node.cases).get(value, node.default))
        elif isinstance(node, nodes.CallNode):
            self.run(self.program.functions[node.function])
        elif isinstance(node, nodes.CopyNode):
            self.write(node.target, self.read(node.source))
        elif isinstance(node, nodes.StreamInNode):
            buffer = self.fed[node.stream]
            taken = [buffer.pop(0) for _ in range(node.target.elements)]
            buffer.extend(taken)
            self.write(node.target, taken)
        elif isinstance(node, nodes.StreamOutNode):
            self.drained[node.stream].append(self.read(node.source))
        elif isinstance(node, nodes.ExecuteNode):
            good = self.execute(self.program.compute_sets[node.compute_set])
            if node.exit is not None:
                self.write(node.exit, [good])
            else:
                assert good
        else:
            raise AssertionError(f"{type(node).__name__} is not part of random programs")

    def execute(self, compute_set) -> bool:
        snapshot = dict(self.memory)
        vertices = sorted(
            (
                (int(number), place, batch)
                for batch in compute_set.batches
                for place, number in enumerate(batch.numbers)
            ),
            key=lambda entry: entry[0],
        )
        written: dict[tuple[int, int], float] = {}
        good = True
        for _, place, batch in vertices:
            codelet = self.program.codelets[batch.codelet]
            vertex = codelet.cls.__new__(codelet.cls)
            outputs = []
            for entry in codelet.fields:
                attribute = codelet.attributes[entry.name]
                if entry.access is Access.STATE:
                    setattr(vertex, attribute, batch.state[entry.name][place])
                    continue
                rows = []
                for edges in batch.edges[entry.name]:
                    addresses = [int(address) for address in edges.list_addresses()[place]]
                    values = np.array([snapshot[edges.type.bytes, one] for one in addresses], edges.type.dtype)
                    rows.append(values)
                    if entry.access.writes:
                        outputs.append((edges.type.bytes, addresses, values))
                if entry.form is Form.SCALAR:
                    value: object = _Box(rows[0])
                elif entry.form is Form.VECTOR:
                    value = rows[0]
                else:
                    value = rows
                setattr(vertex, attribute, value)
            good = vertex.compute() is not False and good
            for size, addresses, values in outputs:
                for address, value in zip(addresses, values, strict=True):
                    written[size, address] = value
        self.memory.update(written)
        return good


class _Box:
    def __init__(self, row) -> None:
        self.row = row

    @property
    def value(self):
        return self.row[0]

    @value.setter
    def value(self, new) -> None:
        self.row[0] = new
