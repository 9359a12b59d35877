"""A program becomes a document of JSON and the bytes of its tensors.

In: a `Program`. Out: a `SerialProgram`. Operators, meta tensors, notes and lines stand in tables and are named by their
numbers there: most nodes share them. What only this process has, such as a function of the host, cannot be written, and
is named in an `ExportError`.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from openipu.errors import ArchiveError, ExportError
from openipu.graph.calls import BranchCall, FunctionCall, GraphCall, LoopCall
from openipu.graph.collection import pause_collection
from openipu.graph.program import NOTE, Graph, GraphInput, GraphOutput, Note, Program, SourceLine
from openipu.graph.serial.operators import name_operator
from openipu.graph.serial.tensors import pack_tensors
from openipu.graph.serial.trees import encode_tree
from openipu.graph.serial.values import encode_value

FORMAT = 1
CONSTANT, ATTRIBUTE, HOST_LEAF = "constant", "attribute", "leaf"  # what a tensor of the file is

Row = list[Any]


@dataclass(frozen=True, slots=True)
class SerialProgram:
    """A program as bytes."""

    document: bytes  # JSON
    tensors: bytes  # constants, as `pack_tensors` writes them


def dump_program(program: Program) -> SerialProgram:
    """Write a program. ExportError if it holds something that only this process has."""
    try:
        with pause_collection():
            return _Writer(program).write()
    except ArchiveError as error:
        raise ExportError(
            f"{program.name} cannot be written to a file: {error}. It is captured again wherever it is needed."
        ) from error


class _Table:
    """Distinct items in the order of their first use."""

    def __init__(self, encode: Callable[[Any], Any]) -> None:
        self.rows: list[Any] = []
        self._numbers: dict[Hashable, int] = {}
        self._encode = encode

    def number(self, key: Hashable, item: Any) -> int:
        found = self._numbers.get(key)
        if found is None:
            row = self._encode(item)  # first: it may raise, or add to another table
            found = self._numbers[key] = len(self.rows)
            self.rows.append(row)
        return found


class _Writer:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._operators = _Table(name_operator)
        self._values = _Table(_encode_tensor)
        self._notes = _Table(self._encode_note)
        self._lines = _Table(_encode_line)
        self._tensors: dict[str, torch.Tensor] = {}

    def write(self) -> SerialProgram:
        program = self._program
        for name, tensor in program.constants.items():
            self._tensors[f"{CONSTANT}:{name}"] = tensor
        graphs = {
            "micro": self._encode_graph(program.micro),
            "update": None if program.update is None else self._encode_graph(program.update),
        }
        document = {
            "format": FORMAT,
            "name": program.name,
            **graphs,
            "output_tree": encode_tree(program.output_tree.spec),
            "host_leaves": [[index, self._encode_leaf(index, leaf)] for index, leaf in self._list_leaves()],
            "hyper_parameters": [[entry.name, entry.group] for entry in program.hyper_parameters],
            "state_slots": [
                [slot.name, slot.parameter, list(slot.shape), _name_dtype(slot.dtype), slot.initial]
                for slot in program.state_slots
            ],
            "unused_parameters": list(program.unused_parameters),
            "warnings": list(program.warnings),
            "operators": self._operators.rows,
            "values": self._values.rows,
            "notes": self._notes.rows,
            "lines": self._lines.rows,
        }
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        return SerialProgram(text.encode(), pack_tensors(self._tensors))

    def _list_leaves(self) -> list[tuple[int, Any]]:
        return sorted(self._program.output_tree.host_leaves.items())

    def _encode_leaf(self, index: int, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            self._tensors[f"{HOST_LEAF}:{index}"] = leaf
            return "tensor"
        return ["value", encode_value(leaf, {})]

    def _encode_graph(self, graph: Graph) -> dict[str, Any]:
        references: dict[fx.Node, str] = {}
        rows: list[Row] = []
        returned: Any = None
        for node in graph.module.graph.nodes:
            if node.op == "output":
                returned = encode_value(node.args[0], references)
                continue
            rows.append(self._encode_node(node, graph, references))
            references[node] = f"%{len(references)}"
        return {
            "nodes": rows,
            "returned": returned,
            "inputs": [_encode_input(entry) for entry in graph.inputs],
            "outputs": [_encode_output(entry) for entry in graph.outputs],
        }

    def _encode_node(self, node: fx.Node, graph: Graph, references: dict[fx.Node, str]) -> Row:
        target: Any = node.target
        match node.op:
            case "placeholder":
                described: Any = {"placeholder": target}
                if node.args:
                    raise ArchiveError(f"input {node.name} has a default value")
            case "get_attr":
                described = {"attribute": self._keep_attribute(graph, str(target))}
            case "call_function" if isinstance(target, torch._ops.OpOverload):
                described = self._operators.number(target, target)
            case "call_function" if target is operator.getitem:
                described = "item"
            case "call_function" if isinstance(target, GraphCall):
                described = self._encode_call(target)
            case _:
                raise ArchiveError(f"node {node.name} calls {target}, which is not an operator")
        try:
            arguments = [encode_value(item, references) for item in node.args]
            keywords = {key: encode_value(item, references) for key, item in node.kwargs.items()}
        except ArchiveError as error:
            raise ArchiveError(f"node {node.name}: {error}") from error
        note = node.meta.get(NOTE)
        number = None if note is None else self._notes.number(_key_note(note), note)
        return [node.name, described, arguments, keywords, self._encode_meta(node.meta.get("val")), number]

    def _encode_meta(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._values.number((value.dtype, value.shape, value.stride()), value)
        if isinstance(value, tuple | list):
            return [type(value).__name__ == "list", *(self._encode_meta(item) for item in value)]
        return None if value is None else {"value": encode_value(value, {})}

    def _encode_call(self, call: GraphCall) -> dict[str, Any]:
        if isinstance(call, LoopCall):
            body = self._encode_graph(call.body)
            return {"loop": [call.name, body, call.count, call.carried]}
        if isinstance(call, BranchCall):
            return {"branch": [call.name, self._encode_graph(call.chosen), self._encode_graph(call.otherwise)]}
        kind = "a function of the host" if isinstance(call, FunctionCall) else f"a {type(call).__name__}"
        raise ArchiveError(f"it calls {call.name}, {kind}, which only this process has")

    def _keep_attribute(self, graph: Graph, target: str) -> str:
        value: Any = graph.module
        for part in target.split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            raise ArchiveError(f"attribute {target} is a {type(value).__name__}, not a tensor")
        for name, known in self._tensors.items():
            if known is value and name.startswith(ATTRIBUTE):
                return name
        name = f"{ATTRIBUTE}:{len(self._tensors)}"
        self._tensors[name] = value.detach()
        return name

    def _encode_note(self, note: Note) -> Row:
        line = None if note.line is None else self._lines.number(note.line, note.line)
        attributes = encode_value(dict(note.attributes), {}) if note.attributes else None
        return [note.phase.value, note.module, line, note.block, note.ipu, note.stage, attributes]


def _key_note(note: Note) -> Hashable:
    # Attributes may hold lists, which cannot be hashed: such notes are shared by identity alone.
    known = (note.phase, note.module, note.line, note.block, note.ipu, note.stage)
    return (id(note), known) if note.attributes else known


def _name_dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _encode_tensor(tensor: torch.Tensor) -> Row:
    if tensor.layout is not torch.strided:
        raise ArchiveError(f"a {tensor.layout} tensor cannot be written to a file")
    return [_name_dtype(tensor.dtype), list(tensor.shape), list(tensor.stride())]


def _encode_line(line: SourceLine) -> Row:
    return [line.file, line.line, line.function]


def _encode_input(entry: GraphInput) -> Row:
    return [entry.node, entry.kind.value, entry.name, list(entry.shape), _name_dtype(entry.dtype), entry.index]


def _encode_output(entry: GraphOutput) -> Row:
    return [entry.kind.value, entry.name, list(entry.shape), _name_dtype(entry.dtype), entry.index]
