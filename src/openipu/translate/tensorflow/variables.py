"""Variables as values: what reads and writes a variable becomes what makes and takes a tensor.

In: a graph as TensorFlow has it, with handles of variables, and which handle is which variable. Out: a graph without
handles. A variable is a tensor of its own name, what a run leaves in it another one. The order of nodes is the order in
which they run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from openipu.errors import TranslationError
from openipu.translate.foreign import ForeignGraph, ForeignNode

_READS = ("ReadVariableOp", "_ReadVariablesOp")
_WRITES = {"AssignVariableOp": "", "AssignAddVariableOp": "AddV2", "AssignSubVariableOp": "Sub"}
_SCATTERS = {
    "ResourceScatterAdd": "ScatterAdd",
    "ResourceScatterSub": "ScatterSub",
    "ResourceScatterUpdate": "ScatterUpdate",
}
_GRADIENT_INPUTS = {  # of all others it is the last
    "ResourceApplyMomentum": 3,
    "ResourceApplyKerasMomentum": 3,
    "ResourceApplyFtrl": 3,
    "ResourceApplyFtrlV2": 3,
}
_READERS = ("ResourceGather", "ResourceGatherNd", "VariableShape")
_PASSED_ON = ("Identity", "IdentityN")
_IGNORED = ("VarIsInitializedOp", "DestroyResourceOp", "VarHandleOp")
_LOOPS = ("While", "StatelessWhile")
_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")


@dataclass(frozen=True, eq=False)
class ValueGraph:
    """A graph over values, which variables it reads, and which tensor holds the new value of those that it writes."""

    graph: ForeignGraph
    read: tuple[str, ...]
    written: Mapping[str, str] = field(default_factory=dict)
    applied: Mapping[str, str] = field(
        default_factory=dict
    )  # variable -> the gradient that an op of TensorFlow 1 applies


def use_values(graph: ForeignGraph, handles: Mapping[str, str]) -> ValueGraph:
    """`handles`: tensors that are handles -> the name of the variable."""
    walk = _Walk(graph, dict(handles), {})
    nodes = walk.run()
    inputs = {name: kind for name, kind in graph.inputs.items() if name not in handles}
    outputs = tuple(walk.find_value(name) for name in graph.outputs)
    made = dataclasses.replace(graph, nodes=tuple(nodes), inputs=inputs, outputs=outputs)
    written = {name: value for name, value in walk.current.items() if value != name}
    return ValueGraph(made, tuple(walk.read), written, walk.applied)


class _Walk:
    """One graph from its first node to its last."""

    def __init__(self, graph: ForeignGraph, handles: dict[str, str], current: dict[str, str]) -> None:
        self._graph = graph
        self._handles = handles
        self.current = current  # variable -> the tensor with its value now
        self.read: dict[str, None] = {}
        self.applied: dict[str, str] = {}
        self._nodes: list[ForeignNode] = []

    def run(self) -> list[ForeignNode]:
        for node in self._graph.nodes:
            self._take(node)
        return self._nodes

    def find_value(self, name: str) -> str:
        """The tensor behind a name: the value of a variable now, where it is a handle."""
        return self._value_of(self._handles[name]) if name in self._handles else name

    def _value_of(self, variable: str) -> str:
        if variable not in self.current:
            self.current[variable] = variable
            self.read[variable] = None
        return self.current[variable]

    def _take(self, node: ForeignNode) -> None:
        if node.op in _IGNORED:
            return
        handles = [self._handles.get(name) for name in node.inputs]
        variable = next((name for name in handles if name is not None), None)
        if any(isinstance(value, ForeignGraph) or _is_list_of_graphs(value) for value in node.attributes.values()):
            self._take_bodies(node, handles)
        elif variable is None:
            self._nodes.append(node)
        elif node.op in _PASSED_ON:
            for place, name in enumerate(node.outputs):
                held = handles[place]
                if held is not None:
                    self._handles[name] = held
        elif node.op in _READS:
            self._add(node, "Identity", (self._value_of(variable),), node.outputs)
        elif node.op in _READERS:
            self._add(node, node.op, (self._value_of(variable), *node.inputs[1:]), node.outputs)
        elif node.op in _WRITES:
            self._write(node, variable)
        elif node.op in _SCATTERS:
            inputs = (self._value_of(variable), *node.inputs[1:])
            self._replace(node, _SCATTERS[node.op], inputs, [variable])
        elif node.op.startswith("ResourceApply") or node.op.startswith("ResourceSparseApply"):
            inputs = tuple(self.find_value(name) for name in node.inputs)
            self._replace(node, node.op, inputs, [name for name in handles if name is not None])
            if "Sparse" not in node.op:
                self.applied[variable] = inputs[_GRADIENT_INPUTS.get(node.op, -1)]
        else:
            raise TranslationError(
                f"{self._graph.file or self._graph.name}: {node.title} uses variable {variable!r} in a way that has no "
                "translation. Read the variable's value first, and give it that."
            )

    def _write(self, node: ForeignNode, variable: str) -> None:
        op = _WRITES[node.op]
        if not op:
            self._replace(node, "Identity", (node.inputs[1],), [variable])
        else:
            self._replace(node, op, (self._value_of(variable), node.inputs[1]), [variable])

    def _replace(self, node: ForeignNode, op: str, inputs: tuple[str, ...], variables: Sequence[str]) -> None:
        """A node that makes new values of variables."""
        names = tuple(f"{node.name}/new_value_{place}" for place in range(len(variables)))
        self._add(node, op, inputs, names)
        for variable, name in zip(variables, names, strict=True):
            self.current[variable] = name

    def _add(self, node: ForeignNode, op: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        self._nodes.append(dataclasses.replace(node, op=op, inputs=inputs, outputs=outputs))

    def _take_bodies(self, node: ForeignNode, handles: Sequence[str | None]) -> None:
        """A node with functions: what they write comes back as further results of the node."""
        if not any(handles):
            self._nodes.append(dataclasses.replace(node, attributes=self._lower_all(node, [])[0]))
            return
        if node.op in _LOOPS:
            self._take_loop(node, handles)
            return
        first = 1 if node.op in _BRANCHES else 0
        inputs = tuple(self.find_value(name) for name in node.inputs)
        attributes, written = self._lower_all(node, handles[first:])
        names = tuple(f"{node.name}/new_value_{place}" for place in range(len(written)))
        new = dataclasses.replace(node, inputs=inputs, outputs=(*node.outputs, *names), attributes=attributes)
        self._nodes.append(new)
        for variable, name in zip(written, names, strict=True):
            self.current[variable] = name

    def _take_loop(self, node: ForeignNode, handles: Sequence[str | None]) -> None:
        """Result i of a loop is what its input i became: a handle's is the variable's new value."""
        inputs = tuple(self.find_value(name) for name in node.inputs)
        attributes = dict(node.attributes)
        changed: set[str] = set()
        for key in ("cond", "body"):
            body: ForeignGraph = attributes[key]
            lowered, written = _lower_body(body, handles, [])
            attributes[key] = lowered
            changed |= written
        outputs = list(node.outputs)
        for place, variable in enumerate(handles):
            if variable is not None:
                self._handles[outputs[place]] = variable
                outputs[place] = f"{node.name}/new_value_{place}"
                if variable in changed:
                    self.current[variable] = outputs[place]
        new = dataclasses.replace(node, inputs=inputs, outputs=tuple(outputs), attributes=attributes)
        self._nodes.append(new)

    def _lower_all(self, node: ForeignNode, handles: Sequence[str | None]) -> tuple[dict[str, object], list[str]]:
        """All functions of a node over values; each returns all variables that any of them writes."""
        bodies = [(key, body) for key, body in node.attributes.items() if isinstance(body, ForeignGraph)]
        lists = [(key, body) for key, body in node.attributes.items() if _is_list_of_graphs(body)]
        everything = [*(body for _, body in bodies), *(body for _, group in lists for body in group)]
        written = sorted({name for body in everything for name in _lower_body(body, handles, [])[1]})
        attributes = dict(node.attributes)
        for key, body in bodies:
            attributes[key] = _lower_body(body, handles, written)[0]
        for key, group in lists:
            attributes[key] = [_lower_body(body, handles, written)[0] for body in group]
        return attributes, written


def _is_list_of_graphs(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, ForeignGraph) for item in value)


def _lower_body(
    body: ForeignGraph, handles: Sequence[str | None], returned: Sequence[str]
) -> tuple[ForeignGraph, set[str]]:
    """A function whose inputs that were handles are values, and which variables it writes."""
    names = list(body.inputs)
    own = {name: held for name, held in zip(names, handles, strict=False) if held is not None}
    entry = {held: name for name, held in reversed(own.items())}  # a variable's value when the function starts
    walk = _Walk(body, dict(own), dict(entry))
    nodes = walk.run()
    written = {variable for variable, value in walk.current.items() if value != entry.get(variable)}
    outputs = [walk.find_value(name) for name in body.outputs]
    outputs += [walk.current.get(variable, variable) for variable in returned]
    return dataclasses.replace(body, nodes=tuple(nodes), outputs=tuple(outputs)), written
