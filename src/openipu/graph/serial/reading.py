"""A program from a document of JSON and the bytes of its tensors.

In: what `dump_program` wrote, by whomever. Out: a `Program`, or an ArchiveError. The document is not trusted: operators
come from `operators.find_operator` alone, names that appear in generated code are identifiers, arguments name nodes
that stand before, and the signature agrees with the nodes. Nothing is evaluated, imported or unpickled. Whether what
the graphs compute is safe to run is checked by `openipu.admission`, on what this module returns.
"""

from __future__ import annotations

import json
import keyword
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from openipu.errors import ArchiveError
from openipu.graph.calls import BranchCall, GraphCall, LoopCall
from openipu.graph.collection import pause_collection
from openipu.graph.program import (
    NOTE,
    Graph,
    GraphInput,
    GraphOutput,
    HyperParameter,
    InputKind,
    Note,
    OutputKind,
    OutputTree,
    Phase,
    Program,
    SourceLine,
    StateSlot,
)
from openipu.graph.serial.modules import LateModule
from openipu.graph.serial.operators import find_operator
from openipu.graph.serial.tensors import check_shape, unpack_tensors
from openipu.graph.serial.trees import decode_tree
from openipu.graph.serial.values import DTYPES, decode_value, shorten
from openipu.graph.serial.writing import ATTRIBUTE, CONSTANT, FORMAT, HOST_LEAF

MOST_NODES = 500_000
_DEEPEST = 20  # loops in loops
_LONGEST = 10_000  # characters of a name, a path or a warning
_MOST_IPUS = 1024


def load_program(document: bytes, tensors: bytes, most_nodes: int = MOST_NODES) -> Program:
    """Read a program that `dump_program` wrote, of so many nodes in all its graphs."""
    try:
        described = json.loads(document)
        if described["format"] != FORMAT:
            raise ArchiveError(f"it has format {shorten(described['format'])}, and this openipu reads {FORMAT}")
        with pause_collection():
            return _Reader(described, unpack_tensors(tensors), most_nodes).read()
    except (
        ValueError, KeyError, TypeError, IndexError, AttributeError, RuntimeError, RecursionError, OverflowError
    ) as error:  # fmt: skip
        raise ArchiveError(f"the program is damaged ({type(error).__name__}: {str(error)[:300]})") from error


class _Reader:
    def __init__(self, document: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], most_nodes: int) -> None:
        self._document = document
        self._tensors = tensors
        self._nodes_left = most_nodes
        for table in ("operators", "values", "notes", "lines"):
            if not isinstance(document[table], list) or len(document[table]) > most_nodes:
                raise ArchiveError(f"its table of {table} is not a list, or has more than {most_nodes:,} rows")
        self._operators = [find_operator(name) for name in document["operators"]]
        self._values = [_make_meta_tensor(*row) for row in document["values"]]
        self._lines = [_make_line(*row) for row in document["lines"]]
        self._notes = [self._make_note(*row) for row in document["notes"]]

    def read(self) -> Program:
        document = self._document
        micro = self._read_graph(document["micro"], 0)
        update = None if document["update"] is None else self._read_graph(document["update"], 0)
        constants = self._list_tensors(CONSTANT)
        for graph in filter(None, (micro, update)):
            for entry in graph.inputs_of(InputKind.CONSTANT):
                found = constants.get(entry.name)
                if found is None or tuple(found.shape) != entry.shape or found.dtype != entry.dtype:
                    raise ArchiveError(f"constant {entry.name} is missing, or has another shape or type")
        leaves = {_check_whole(index): self._read_leaf(index, leaf) for index, leaf in document["host_leaves"]}
        return Program(
            name=_check_text(document["name"]),
            micro=micro,
            update=update,
            constants=constants,
            output_tree=OutputTree(decode_tree(document["output_tree"]), leaves),
            hyper_parameters=tuple(
                HyperParameter(_check_text(name), _check_whole(group)) for name, group in document["hyper_parameters"]
            ),
            state_slots=tuple(_make_slot(*row) for row in document["state_slots"]),
            unused_parameters=tuple(_check_text(name) for name in document["unused_parameters"]),
            warnings=tuple(_check_text(text) for text in document["warnings"]),
        )

    def _list_tensors(self, kind: str) -> dict[str, torch.Tensor]:
        start = f"{kind}:"
        return {name.removeprefix(start): value for name, value in self._tensors.items() if name.startswith(start)}

    def _read_leaf(self, index: int, leaf: Any) -> Any:
        if leaf == "tensor":
            return self._tensors[f"{HOST_LEAF}:{index}"]
        _, value = leaf
        return decode_value(value, ())

    def _read_graph(self, described: Mapping[str, Any], depth: int) -> Graph:
        if depth > _DEEPEST:
            raise ArchiveError("its loops and branches are nested too deeply")
        graph, nodes, attributes = fx.Graph(), list[fx.Node](), torch.nn.Module()
        self._nodes_left -= len(described["nodes"])
        if self._nodes_left < 0:
            raise ArchiveError("it has more nodes than allowed")
        for row in described["nodes"]:
            nodes.append(self._read_node(graph, nodes, attributes, row, depth))
        graph.output(decode_value(described["returned"], nodes))
        inputs = tuple(_make_input(*row) for row in described["inputs"])
        outputs = tuple(_make_output(*row) for row in described["outputs"])
        _check_signature(graph, inputs, outputs)
        return Graph(LateModule(attributes, graph), inputs, outputs)

    def _read_node(
        self, graph: fx.Graph, nodes: Sequence[fx.Node], attributes: torch.nn.Module, row: Sequence[Any], depth: int
    ) -> fx.Node:
        name, described, arguments, keywords, value, note = row
        _check_identifier(name)
        args = tuple([decode_value(item, nodes) for item in arguments])
        kwargs = {_check_identifier(key): decode_value(item, nodes) for key, item in keywords.items()}
        target: Any
        if type(described) is int:
            kind, target = "call_function", self._operators[_check_whole(described, 0)]
        elif described == "item":
            kind, target = "call_function", operator.getitem
        else:
            ((word, content),) = described.items()
            if word == "placeholder":
                if args or kwargs or (nodes and nodes[-1].op != "placeholder"):
                    raise ArchiveError(f"input {name} does not stand at the beginning")
                kind, target = "placeholder", _check_identifier(content)
            elif word == "attribute":
                kind, target = "get_attr", f"{ATTRIBUTE}_{len(nodes)}"
                attributes.register_buffer(target, self._tensors[content])
            else:
                kind, target = "call_function", self._make_call(word, content, depth)
        node = graph.create_node(kind, target, args, kwargs, name)
        if node.name != name:
            raise ArchiveError(f"the name {name} stands for two nodes")
        made = self._make_meta(value)
        if made is not None:
            node.meta["val"] = made
        if note is not None:
            node.meta[NOTE] = self._notes[_check_whole(note, 0)]
        return node

    def _make_meta(self, value: Any) -> Any:
        if type(value) is int:
            return self._values[_check_whole(value, 0)]
        if isinstance(value, list):
            made = [self._make_meta(item) for item in value[1:]]
            return made if value[0] else tuple(made)
        return None if value is None else decode_value(value["value"], ())

    def _make_call(self, word: str, content: Sequence[Any], depth: int) -> GraphCall:
        name, *rest = content
        _check_identifier(name)
        if word == "loop":
            body, count, carried = rest
            graph = self._read_graph(body, depth + 1)
            if _check_whole(carried, 0) != len(graph.outputs) or carried > len(graph.inputs):
                raise ArchiveError(f"{name} carries {carried} tensors, which is not what its body returns")
            return LoopCall(name, graph, _check_whole(count, 0), carried)
        if word == "branch":
            chosen, otherwise = (self._read_graph(body, depth + 1) for body in rest)
            return BranchCall(name, chosen, otherwise)
        raise ArchiveError(f"it calls {word!r}, which no file can hold")

    def _make_note(
        self, phase: str, module: str, line: int | None, block: str | None, ipu: int, stage: int, attributes: Any
    ) -> Note:
        return Note(
            phase=Phase(phase),
            module=_check_text(module),
            line=None if line is None else self._lines[_check_whole(line, 0)],
            block=None if block is None else _check_text(block),
            ipu=_check_whole(ipu, 0, _MOST_IPUS),
            stage=_check_whole(stage, 0, _MOST_IPUS),
            attributes=_check_attributes({} if attributes is None else decode_value(attributes, ())),
        )


def _check_signature(graph: fx.Graph, inputs: Sequence[GraphInput], outputs: Sequence[GraphOutput]) -> None:
    placeholders = list(graph.find_nodes(op="placeholder"))
    if [node.name for node in placeholders] != [entry.node for entry in inputs]:
        raise ArchiveError("its inputs are not those of the signature")
    returned = graph.output_node().args[0]
    if not isinstance(returned, list | tuple) or len(returned) != len(outputs):
        raise ArchiveError("its results are not those of the signature")
    entries: Sequence[tuple[Any, GraphInput | GraphOutput]] = [
        *zip(placeholders, inputs, strict=True),
        *zip(returned, outputs, strict=True),
    ]
    for node, entry in entries:
        value = node.meta.get("val") if isinstance(node, fx.Node) else None
        if not isinstance(value, torch.Tensor) or tuple(value.shape) != entry.shape or value.dtype != entry.dtype:
            raise ArchiveError(f"{entry.name} has another shape or type than its node")


def _make_meta_tensor(dtype: str, shape: list[int], stride: list[int]) -> torch.Tensor:
    size, steps = check_shape(shape), tuple(_check_whole(step, 0) for step in stride)
    if len(steps) != len(size):
        raise ArchiveError(f"{stride!r} are not the strides of {shape!r}")
    return torch.empty_strided(size, steps, dtype=DTYPES[dtype], device="meta")


def _make_line(file: str, line: int, function: str) -> SourceLine:
    return SourceLine(_check_text(file), _check_whole(line), _check_text(function))


def _make_input(node: str, kind: str, name: str, shape: list[int], dtype: str, index: int) -> GraphInput:
    place = _check_whole(index)
    return GraphInput(_check_text(node), InputKind(kind), _check_text(name), check_shape(shape), DTYPES[dtype], place)


def _make_output(kind: str, name: str, shape: list[int], dtype: str, index: int) -> GraphOutput:
    return GraphOutput(OutputKind(kind), _check_text(name), check_shape(shape), DTYPES[dtype], _check_whole(index))


def _make_slot(name: str, parameter: str, shape: list[int], dtype: str, initial: float) -> StateSlot:
    return StateSlot(_check_text(name), _check_text(parameter), check_shape(shape), DTYPES[dtype], float(initial))


def _check_attributes(attributes: Any) -> dict[str, Any]:
    if not isinstance(attributes, dict) or not all(type(key) is str for key in attributes):
        raise ArchiveError(f"{shorten(attributes)} are not the attributes of a note")
    return attributes


def _check_text(text: Any) -> str:
    if type(text) is not str or len(text) > _LONGEST:
        raise ArchiveError(f"{shorten(text)} is not a text of at most {_LONGEST:,} characters")
    return text


def _check_whole(number: Any, least: int = -1, most: int = 1 << 62) -> int:
    if type(number) is not int or not least <= number <= most:
        raise ArchiveError(f"{shorten(number)} is not a whole number from {least} to {most}")
    return number


def _check_identifier(name: Any) -> str:
    # Names appear in generated Python: nothing but an identifier may stand there.
    if type(name) is not str or not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        raise ArchiveError(f"{shorten(name)} is not a name")
    return _check_text(name)
